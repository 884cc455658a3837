//! Room portable of lanes: one word, in plain Rust. Secret-independent.

use widelane_secret::Mask;

use super::{LaneMask, Lanes};

/// The bits of its operands that a multiply-add reads.
const OPERAND: u64 = (1 << 52) - 1;

/// A register of one word.
pub type Portable = u64;

impl Lanes for Portable {
    #[inline(always)]
    fn splat_pair((): (), pair: [u64; 2]) -> Self {
        pair[0]
    }

    #[inline(always)]
    fn flatten(registers: &[[u64; 1]]) -> &[u64] {
        registers.as_flattened()
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }

    #[inline(always)]
    fn shr_signed(self, bits: u32) -> Self {
        (self.cast_signed() >> bits).cast_unsigned()
    }

    #[inline(always)]
    fn madd52lo(self, a: Self, b: Self) -> Self {
        let product = (a & OPERAND).wrapping_mul(b & OPERAND);
        self.wrapping_add(product & OPERAND)
    }

    #[inline(always)]
    fn madd52hi(self, a: Self, b: Self) -> Self {
        let product = u128::from(a & OPERAND) * u128::from(b & OPERAND);
        self.wrapping_add((product >> 52) as u64)
    }

    #[inline(always)]
    fn equals(self, other: Self) -> LaneMask {
        LaneMask::from_bits(Mask::equal(self, other).word() as u8)
    }

    #[inline(always)]
    fn less_than(self, other: Self) -> LaneMask {
        LaneMask::from_bits(self.borrowing_sub(other, false).1 as u8)
    }

    #[inline(always)]
    fn top_bit(self) -> LaneMask {
        LaneMask::from_bits((self >> 63) as u8)
    }

    #[inline(always)]
    fn pick(row: &[u64; 16], index: Self) -> Self {
        let mut picked = 0;
        for (entry_index, entry) in (0..).zip(row) {
            picked |= entry & Mask::equal(index & 15, entry_index).word();
        }
        picked
    }

    #[inline(always)]
    fn permute(self, _index: Self) -> Self {
        self
    }

    #[inline(always)]
    fn select(self, mask: LaneMask, other: Self) -> Self {
        Mask::equal(u64::from(mask.bits() & 1), 1).select(self, other)
    }

    #[inline(always)]
    fn shift_in(self, _below: Self, count: usize) -> Self {
        debug_assert_eq!(count, 0);
        self
    }
}
