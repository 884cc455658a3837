//! The exported symbols: thin doors in front of the functions of libssl, libcrypto and libc.
//!
//! Each has the signature of the function it stands for, passes the call on where it is not ours to
//! change, and lets no panic out.
//!
//! A thread may be cancelled (`pthread_cancel`) while it waits. glibc then unwinds its stack, which
//! ends the process where it meets `catch_unwind`, or a function that is declared not to unwind. So
//! doors are `extern "C-unwind"`, call the real function outside of [`guard`] where that may wait,
//! and do their own work with cancellation put off ([`guard_uncancelled`]).
#![allow(unsafe_code, reason = "the thread's cancelability")]

mod bio;
mod certificate;
mod chroot;
pub(crate) mod end;
mod epoll;
mod exec;
mod fetch;
mod load;
mod memory;
mod pem;
mod poll;
mod session;
mod socket;
mod ssl;
mod vfork;

use core::ffi::c_int;
use core::ptr;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `f`; returns `failure` if it panics. `f` contains no cancellation point.
pub(crate) fn guard<T>(failure: T, f: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or(failure)
}

/// Runs `f`; returns `failure` if it panics. If the thread is cancelled meanwhile, that takes
/// effect at its next cancellation point.
pub(crate) fn guard_uncancelled<T>(failure: T, f: impl FnOnce() -> T) -> T {
    uncancelled(|| guard(failure, f))
}

/// Runs `f`, in which the thread is not cancelled.
pub(crate) fn uncancelled<T>(f: impl FnOnce() -> T) -> T {
    let mut state = PTHREAD_CANCEL_DISABLE;
    // SAFETY: changes this thread's own state, and writes the former one to our variable.
    unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &mut state) };
    let result = f();
    // SAFETY: as above; the former state is not asked for.
    unsafe { pthread_setcancelstate(state, ptr::null_mut()) };
    result
}

const PTHREAD_CANCEL_DISABLE: c_int = 1;

unsafe extern "C-unwind" {
    fn pthread_setcancelstate(state: c_int, former: *mut c_int) -> c_int;
}
