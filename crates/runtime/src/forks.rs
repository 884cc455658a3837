//! Whether this process was forked: what its parent had begun is not its own.
#![allow(unsafe_code, reason = "a handler for forks")]

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

extern "C" fn count_one() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
