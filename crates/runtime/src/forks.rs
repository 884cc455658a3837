//! Whether this process was forked: what its parent had begun is not its own.
#![allow(unsafe_code, reason = "a handler for forks, and a thread's number")]

use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Once;

use widelane_vault::fork_generation;

static FORKS: AtomicU32 = AtomicU32::new(0);

/// Counts from now on, for systems on which [`fork_generation`] says nothing.
pub(crate) fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // SAFETY: the handler only counts; this library is never unloaded.
        // Error: there is no memory for it.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(count_one)) };
    });
}

/// A number of this process, which no process that it was forked from has. Linux before 4.14 tells
/// only children that the handlers of `pthread_atfork` have seen.
pub(crate) fn generation() -> u32 {
    fork_generation().map_or_else(|| FORKS.load(Ordering::Relaxed), |generation| generation as u32)
}

/// The number of the calling thread, never zero; none of the parent's had the same.
pub(crate) fn this_thread() -> u64 {
    // SAFETY: no precondition.
    let thread = unsafe { libc::gettid() };
    u64::from(generation()) << 32 | u64::from(thread.cast_unsigned())
}

/// Whether a thread of this number was the parent's.
pub(crate) fn is_of_parent(thread: u64) -> bool {
    thread >> 32 != u64::from(generation())
}

extern "C" fn count_one() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
