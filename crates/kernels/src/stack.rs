//! The stack below a kernel: cleared of what its registers could not hold.
#![cfg_attr(test, allow(unsafe_code, reason = "the stack is looked at as it is"))]

use core::hint::black_box;
use core::mem::MaybeUninit;

/// Words that are cleared at once: from 2 KiB on the C library takes `rep stosb`, which is slow to
/// begin.
const PIECE_WORDS: usize = 248;

/// Words that are cleared without a call where registers are wide.
const SHORT_PIECE_WORDS: usize = 64;

/// Clears so many words of stack below its caller, where a function that has just returned kept
/// what did not fit its registers.
#[inline(never)]
pub(crate) fn wipe_stack<const WORDS: usize>() {
    wipe_pieces::<WORDS, PIECE_WORDS>();
}

/// Does `work` in a frame of its own, and clears so many words of the stack where that was.
pub(crate) fn wiped<const WORDS: usize, A>(work: impl FnOnce() -> A) -> A {
    #[inline(never)]
    fn below<A>(work: impl FnOnce() -> A) -> A {
        work()
    }
    let result = below(work);
    wipe_stack::<WORDS>();
    result
}

/// Clears so many words of the frame of its caller: a function that is called for nothing else, and
/// has wide registers, so that few stores do it.
#[inline(always)]
pub(crate) fn wipe_frame<const WORDS: usize>() {
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

#[cfg(test)]
pub(crate) mod tests {
    use core::arch::asm;

    use super::*;

    /// Words below a test in which kernels are looked for.
    const DEPTH: usize = 4096;

    /// The highest that an address or a count is.
    const ADDRESS_MAX: u64 = u64::MAX >> 17;

    /// Demands that `kernel` leaves nothing below its caller, but what it returns: bytes that are
    /// no secret, as a tag is.
    #[track_caller]
    pub(crate) fn leaves_nothing<B: AsRef<[u8]>>(what: &str, kernel: impl FnOnce() -> B) {
        let (left, public) = leavings(kernel);
        let secret = |word: &u64| {
            public.as_ref().windows(size_of::<u64>()).all(|bytes| bytes != word.to_le_bytes())
        };
        let left: std::vec::Vec<_> = left.filter(secret).collect();
        assert!(left.is_empty(), "{what}: {left:x?}");
    }

    /// The words that `kernel` leaves below its caller and that might be secret, and its result.
    ///
    /// What it has cleared is zero, as is what it has not reached. Addresses and counts have zeros
    /// above.
    #[inline(never)]
    fn leavings<A>(kernel: impl FnOnce() -> A) -> (impl Iterator<Item = u64>, A) {
        wipe_stack::<DEPTH>();
        let result = kernel();
        // Not a number of the compiler's, which a kernel may find in a register and save.
        let address_max = black_box(ADDRESS_MAX);
        (look().into_iter().filter(move |word| *word > address_max), result)
    }

    /// The words below the caller, as they are.
    #[inline(never)]
    fn look() -> std::vec::Vec<u64> {
        let words = [const { MaybeUninit::<u64>::uninit() }; DEPTH];
        let mut seen = std::vec![0; DEPTH];
        // SAFETY: copies as many words as both have, whatever they are, and counts the three down.
        unsafe {
            asm!(
                "rep movsq",
                inout("rcx") DEPTH => _,
                inout("rsi") words.as_ptr() => _,
                inout("rdi") seen.as_mut_ptr() => _,
                options(nostack, preserves_flags),
            );
        }
        seen
    }

    #[test]
    fn what_is_left_on_the_stack_is_found() {
        #[inline(never)]
        fn leave() {
            black_box(&mut [u64::MAX; 1000]);
        }
        assert!(leavings(leave).0.count() > 900);
        let wiped = || {
            leave();
            wipe_stack::<1100>();
        };
        assert_eq!(leavings(wiped).0.count(), 0);
    }
}
