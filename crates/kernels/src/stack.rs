//! The stack below a kernel: cleared of what its registers could not hold.

use widelane_secret::wipe;

/// Clears so many words of stack below its caller, where a function that has just returned kept
/// what did not fit its registers.
#[inline(never)]
pub(crate) fn wipe_stack<const WORDS: usize>() {
    wipe(&mut [0u64; WORDS]);
}
