//! Threads that a program may cancel (`pthread_cancel`).
#![allow(unsafe_code, reason = "calls of C")]

use std::ffi::c_int;
use std::ptr;

/// Runs `f`, in which the thread is not cancelled: if it is meanwhile, that takes effect at its
/// next cancellation point.
///
/// glibc unwinds a thread that is cancelled, and ends the process where it meets `catch_unwind`.
pub fn uncancelled<T>(f: impl FnOnce() -> T) -> T {
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
