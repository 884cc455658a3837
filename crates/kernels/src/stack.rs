//! The stack below a kernel: cleared of what its registers could not hold.

use core::hint::black_box;
use core::mem::MaybeUninit;

/// Words that are cleared at once: from 2 KiB on the C library takes `rep stosb`, which is slow to
/// begin.
const PIECE_WORDS: usize = 248;

/// Clears so many words of stack below its caller, where a function that has just returned kept
/// what did not fit its registers.
#[inline(never)]
pub(crate) fn wipe_stack<const WORDS: usize>() {
    let mut words = [const { MaybeUninit::<u64>::uninit() }; WORDS];
    for piece in words.chunks_mut(PIECE_WORDS) {
        piece.fill(MaybeUninit::new(0));
        // As far as the compiler knows, somebody reads them.
        black_box(piece);
    }
}
