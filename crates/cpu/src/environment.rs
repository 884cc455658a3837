//! The environment of the process, and whether it can be trusted.
#![allow(unsafe_code, reason = "asks the kernel what it gave this process")]

use std::env;
use std::ffi::OsString;

/// The value of an environment variable; none in a program that runs with more rights than the user
/// who started it.
pub fn variable(name: &str) -> Option<OsString> {
    if are_rights_raised() { None } else { env::var_os(name) }
}

/// Whether this program runs with more rights than the user who started it and chose its
/// environment: set-uid and set-gid programs, and those with file capabilities.
pub fn are_rights_raised() -> bool {
    // SAFETY: reads a value that the kernel gave this process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}
