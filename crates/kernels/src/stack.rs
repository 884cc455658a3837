//! The stack below a kernel: cleared of what its registers could not hold.
#![cfg_attr(test, allow(unsafe_code, reason = "the stack is looked at as it is"))]

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

#[cfg(test)]
pub(crate) mod tests {
    use core::arch::asm;

    use super::*;

    /// Words below a test in which kernels are looked for.
    const DEPTH: usize = 4096;

    /// The highest address of a program.
    const ADDRESS_MAX: u64 = u64::MAX >> 17;

    /// The words that `kernel` leaves below its caller and that might be secret.
    ///
    /// What it has cleared is zero, as is what it has not reached. Addresses and counts have zeros
    /// above.
    #[inline(never)]
    pub(crate) fn leavings(kernel: impl FnOnce()) -> impl Iterator<Item = u64> {
        wipe_stack::<DEPTH>();
        kernel();
        look().into_iter().filter(|word| *word > ADDRESS_MAX)
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
        assert!(leavings(leave).count() > 900);
        let wiped = || {
            leave();
            wipe_stack::<1100>();
        };
        assert_eq!(leavings(wiped).count(), 0);
    }
}
