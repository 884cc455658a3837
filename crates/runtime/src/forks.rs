//! Whether this process was forked: what its parent had begun is not its own.
#![allow(unsafe_code, reason = "a handler for forks, and a thread's number")]

use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Once;

static FORKS: AtomicU32 = AtomicU32::new(0);

/// Counts from now on.
pub(crate) fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // SAFETY: the handler only counts; this library is never unloaded.
        // Error: there is no memory for it.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(count_one)) };
    });
}

/// The forks that made this process since its first ancestor began to count.
pub(crate) fn count() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// The number of the calling thread, never zero; none of the parent's had the same.
pub(crate) fn this_thread() -> u64 {
    // SAFETY: no precondition.
    let thread = unsafe { libc::gettid() };
    u64::from(count()) << 32 | u64::from(thread.cast_unsigned())
}

/// Whether a thread of this number was the parent's.
pub(crate) fn is_of_parent(thread: u64) -> bool {
    thread >> 32 != u64::from(count())
}

extern "C" fn count_one() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
