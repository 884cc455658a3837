//! A door in front of `chroot`: what a server needs of us is outside of its new root.
#![allow(unsafe_code, reason = "an exported symbol")]

use core::ffi::{c_char, c_int};

use super::guard_uncancelled;
use crate::activate;
use crate::real;

/// Some servers, such as the login processes of Dovecot, make their configuration of TLS only when
/// they are in a directory without the provider, the policy and the counters.
#[unsafe(no_mangle)]
extern "C-unwind" fn chroot(path: *const c_char) -> c_int {
    guard_uncancelled((), activate::before_chroot);
    real::chroot(path)
}
