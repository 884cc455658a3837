//! Keeps the program's signals from threads of ours.
#![allow(unsafe_code, reason = "masks signals")]

use std::mem::MaybeUninit;
use std::ptr;

/// Has a thread begin with all signals blocked, as `start` does: it inherits the mask. A program
/// that blocks a signal in its own threads, to wait for it, would get it in ours otherwise.
pub(super) fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: `all` is writable.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: `all` was filled above, `before` is writable.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
    let started = start();
    // SAFETY: the mask that this thread had.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    started
}
