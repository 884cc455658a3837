//! SIGPIPE as this process inherited it, for the programs that take its place.
//!
//! Rust's runtime ignores SIGPIPE before `main`, and its standard library sets it to the default
//! action in every program that it starts. Neither is what a server had without us: systemd has its
//! services ignore SIGPIPE (`IgnoreSIGPIPE=`), and a server that counts on it dies of the first
//! client that hangs up where it is not ignored.
#![allow(unsafe_code, reason = "looks before Rust's runtime starts, and runs before execve")]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{SigHandler, Signal, signal};

/// Whether this process was started with SIGPIPE ignored.
static IS_IGNORED: AtomicBool = AtomicBool::new(false);

/// Called by the C library before `main`, so before Rust's runtime.
extern "C" fn record() {
    // SAFETY: ignoring a signal installs no handler, and Rust's runtime is about to do the same.
    let inherited = unsafe { signal(Signal::SIGPIPE, SigHandler::SigIgn) };
    IS_IGNORED.store(matches!(inherited, Ok(SigHandler::SigIgn)), Ordering::Relaxed);
}

#[used]
#[unsafe(link_section = ".init_array")]
static RECORD: extern "C" fn() = record;

/// Has a program begin with SIGPIPE as this process did.
pub fn pass_on(command: &mut Command) {
    if !IS_IGNORED.load(Ordering::Relaxed) {
        // The standard library sets the default action.
        return;
    }
    let ignore = || {
        // SAFETY: ignoring a signal installs no handler.
        unsafe { signal(Signal::SIGPIPE, SigHandler::SigIgn) }.map(drop).map_err(io::Error::from)
    };
    // SAFETY: `ignore` makes one system call; it neither allocates nor locks.
    unsafe { command.pre_exec(ignore) };
}
