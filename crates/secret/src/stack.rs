//! Wiping of stack: what a function that has returned left below its caller.

use core::hint::black_box;
use core::mem::MaybeUninit;

/// Words that are cleared at once: from 2 KiB on the C library takes `rep stosb`, which is slow to
/// begin.
const PIECE_WORDS: usize = 248;

/// Words that are cleared without a call where registers are wide.
const SHORT_PIECE_WORDS: usize = 64;

/// How many words of stack so many KiB are.
#[must_use]
pub const fn kib(kib: usize) -> usize {
    (kib << 10) / size_of::<u64>()
}

/// Does `work` in a frame of its own, and clears so many words of the stack where that was.
///
/// Values that matter are wiped where they are declared; this catches the copies that nobody
/// declared: what the compiler moved and spilled. The bound has to be more than `work` takes in any
/// room. That it is follows from the emitted code (`stack_frames.rs` of the provider's tests); a
/// bound that is much more costs time, and stack that a small thread may not have.
pub fn wiped<const WORDS: usize, A>(work: impl FnOnce() -> A) -> A {
    let result = in_own_frame(work);
    wipe_stack::<WORDS>();
    result
}

#[inline(never)]
fn in_own_frame<A>(work: impl FnOnce() -> A) -> A {
    work()
}

/// Clears so many words of stack below its caller, where a function that has just returned kept
/// what did not fit its registers.
#[inline(never)]
pub fn wipe_stack<const WORDS: usize>() {
    wipe_pieces::<WORDS, PIECE_WORDS>();
}

/// Clears so many words of the frame of its caller: a function that is called for nothing else, and
/// has wide registers, so that few stores do it.
#[inline(always)]
pub fn wipe_frame<const WORDS: usize>() {
    wipe_pieces::<WORDS, SHORT_PIECE_WORDS>();
}

/// Clears so many words of the frame that this becomes part of, `PIECE` of them at once.
#[inline(always)]
fn wipe_pieces<const WORDS: usize, const PIECE: usize>() {
    let mut words = [const { MaybeUninit::<u64>::uninit() }; WORDS];
    for piece in words.chunks_mut(PIECE) {
        piece.fill(MaybeUninit::new(0));
        // As far as the compiler knows, they are read here.
        black_box(piece);
    }
}
