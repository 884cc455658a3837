//! Masks: answers about secrets that cannot be branched on by accident.
#![allow(unsafe_code, reason = "an empty asm block hides values from the optimiser")]

use core::arch::asm;
use core::ops::{BitAnd, BitOr, Not};

/// All ones for yes, all zeros for no.
#[derive(Clone, Copy)]
pub struct Mask(u64);

impl Mask {
    /// Whether `value` is zero.
    pub fn is_zero(value: u64) -> Mask {
        let value = hidden(value);
        Mask(hidden((!value & value.wrapping_sub(1)) >> 63).wrapping_neg())
    }

    /// Whether `left` equals `right`.
    pub fn equal(left: u64, right: u64) -> Mask {
        Mask::is_zero(left ^ right)
    }

    /// Whether `left` has the same bytes as `right`.
    ///
    /// # Panics
    ///
    /// Panics if the lengths differ.
    #[inline]
    pub fn equal_bytes(left: &[u8], right: &[u8]) -> Mask {
        assert_eq!(left.len(), right.len(), "both sides of a comparison have one length");
        let ((words, rest), (other_words, other_rest)) = (left.as_chunks(), right.as_chunks());
        let differ = |(left, right): (&[u8; 8], &[u8; 8])| {
            u64::from_ne_bytes(*left) ^ u64::from_ne_bytes(*right)
        };
        let of_words = words.iter().zip(other_words).map(differ);
        let of_rest = rest.iter().zip(other_rest).map(|(left, right)| u64::from(left ^ right));
        Mask::is_zero(of_words.chain(of_rest).fold(0, |sum, difference| sum | difference))
    }

    /// Whether `left` has the same words as `right`.
    ///
    /// # Panics
    ///
    /// Panics if the lengths differ.
    #[inline]
    pub fn equal_words(left: &[u64], right: &[u64]) -> Mask {
        assert_eq!(left.len(), right.len(), "both sides of a comparison have one length");
        let differ = |sum, (left, right): (&u64, &u64)| sum | (left ^ right);
        Mask::is_zero(left.iter().zip(right).fold(0, differ))
    }

    /// Returns `yes` where the mask is set and `no` where it is not.
    pub fn select(self, yes: u64, no: u64) -> u64 {
        no ^ (self.0 & (yes ^ no))
    }

    /// Overwrites `target` with `source` where the mask is set.
    ///
    /// # Panics
    ///
    /// Panics if the lengths differ.
    pub fn copy_bytes(self, target: &mut [u8], source: &[u8]) {
        assert_eq!(target.len(), source.len(), "both sides of a selection have one length");
        for (target, source) in target.iter_mut().zip(source) {
            *target ^= (self.0 as u8) & (*target ^ *source);
        }
    }

    /// The mask as a word: all ones or all zeros.
    pub fn word(self) -> u64 {
        self.0
    }

    /// Gives the answer up to ordinary control flow. From here on it is no secret.
    pub fn declassify(self) -> bool {
        self.0 != 0
    }
}

impl BitAnd for Mask {
    type Output = Mask;

    fn bitand(self, other: Mask) -> Mask {
        Mask(self.0 & other.0)
    }
}

impl BitOr for Mask {
    type Output = Mask;

    fn bitor(self, other: Mask) -> Mask {
        Mask(self.0 | other.0)
    }
}

impl Not for Mask {
    type Output = Mask;

    fn not(self) -> Mask {
        Mask(!self.0)
    }
}

/// Returns `value`, of which the optimiser no longer knows anything.
#[inline(always)]
pub fn hidden(mut value: u64) -> u64 {
    // SAFETY: an empty block changes no state.
    unsafe { asm!("/* {0} */", inout(reg) value, options(pure, nomem, nostack, preserves_flags)) };
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDGES: [u64; 7] = [0, 1, 2, 1 << 63, (1 << 63) - 1, u64::MAX - 1, u64::MAX];

    #[test]
    fn comparisons_agree_with_the_language() {
        for left in EDGES {
            assert_eq!(Mask::is_zero(left).declassify(), left == 0);
            for right in EDGES {
                assert_eq!(Mask::equal(left, right).declassify(), left == right);
                assert_eq!(Mask::is_zero(0).select(left, right), left);
                assert_eq!(Mask::is_zero(1).select(left, right), right);
            }
        }
    }

    #[test]
    fn bytes_are_equal_if_no_bit_differs() {
        assert!(Mask::equal_bytes(&[], &[]).declassify());
        // Without a word of eight, of nothing but such, and of both.
        for length in [3, 16, 19] {
            let expected = &[7; 19][..length];
            for bit in 0..8 * length {
                let mut bytes = [7; 19];
                let changed = |bytes: &[u8; 19]| Mask::equal_bytes(&bytes[..length], expected);
                assert!(changed(&bytes).declassify());
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert!(!changed(&bytes).declassify());
            }
        }
    }

    #[test]
    fn words_are_equal_if_no_bit_differs() {
        assert!(Mask::equal_words(&[], &[]).declassify());
        let expected = [7; 3];
        assert!(Mask::equal_words(&expected, &expected).declassify());
        for bit in 0..64 * expected.len() {
            let mut words = expected;
            words[bit / 64] ^= 1 << (bit % 64);
            assert!(!Mask::equal_words(&words, &expected).declassify());
        }
    }

    #[test]
    fn bytes_are_copied_all_or_none() {
        let mut bytes = [1, 2, 3];
        Mask::is_zero(1).copy_bytes(&mut bytes, &[7, 8, 9]);
        assert_eq!(bytes, [1, 2, 3]);
        Mask::is_zero(0).copy_bytes(&mut bytes, &[7, 8, 9]);
        assert_eq!(bytes, [7, 8, 9]);
    }

    #[test]
    fn masks_combine_like_truth_values() {
        let (yes, no) = (Mask::is_zero(0), Mask::is_zero(1));
        assert!((yes & !no).declassify());
        assert!((no | yes).declassify());
        assert!(!(yes & no).declassify());
        assert_eq!((yes.word(), no.word()), (u64::MAX, 0));
    }
}
