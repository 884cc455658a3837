//! Whether this process was forked: what its parent had begun is not its own.
#![allow(unsafe_code, reason = "asks for a thread's number")]

use widelane_vault::process_number;

/// A number of this process, never zero, which no process that it was forked from has.
pub(crate) fn generation() -> u32 {
    process_number() as u32
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
