//! The exported symbols: thin doors in front of the functions of libssl, libcrypto and libc.
//!
//! Each has the signature of the function it stands for, passes the call on where it is not ours to
//! change, and lets no panic out.
//!
//! A thread may be cancelled (`pthread_cancel`) while it waits. glibc then unwinds its stack, which
//! ends the process where it meets `catch_unwind`, or a function that is declared not to unwind. So
//! doors are `extern "C-unwind"`, call the real function outside of [`guard`] where that may wait,
//! and do their own work with cancellation put off ([`guard_uncancelled`]).
mod bio;
mod certificate;
mod chroot;
pub(crate) mod end;
mod epoll;
mod exec;
pub(crate) mod fetch;
mod load;
mod memory;
mod pem;
mod poll;
mod session;
mod socket;
pub(crate) mod ssl;
mod thread;
mod vfork;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) use widelane_reserve::uncancelled;

/// Runs `f`; returns `failure` if it panics. `f` contains no cancellation point.
pub(crate) fn guard<T>(failure: T, f: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or(failure)
}

/// Runs `f`; returns `failure` if it panics. If the thread is cancelled meanwhile, that takes
/// effect at its next cancellation point.
pub(crate) fn guard_uncancelled<T>(failure: T, f: impl FnOnce() -> T) -> T {
    uncancelled(|| guard(failure, f))
}
