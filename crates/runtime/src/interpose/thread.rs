//! A door in front of `pthread_create`: the last moment at which a program has a single thread.
#![allow(unsafe_code, reason = "an exported symbol")]

use core::ffi::{c_int, c_void};

use super::guard_uncancelled;
use crate::provider::provider;
use crate::real;

#[unsafe(no_mangle)]
extern "C-unwind" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: extern "C-unwind" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> c_int {
    if let Some(hooks) = provider() {
        guard_uncancelled((), || (hooks.before_threads)());
    }
    real::pthread_create(thread, attributes, start, argument)
}
