//! Room portable of lanes: one word, in plain Rust. Secret-independent.

use widelane_secret::Mask;

use super::{LaneMask, Lanes, Task};

/// The bits of its operands that a multiply-add reads.
const OPERAND: u64 = (1 << 52) - 1;

/// A register of one word.
#[derive(Clone, Copy)]
pub struct Portable(u64);

impl Lanes for Portable {
    type Room = ();
    type Words = [u64; 1];
    const LANES: usize = 1;
    const ZEROS: [u64; 1] = [0];

    #[inline(always)]
    fn splat((): (), word: u64) -> Self {
        Portable(word)
    }

    #[inline(always)]
    fn splat_pair((): (), pair: [u64; 2]) -> Self {
        Portable(pair[0])
    }

    #[inline(always)]
    fn load((): (), words: &[u64; 1]) -> Self {
        Portable(words[0])
    }

    #[inline(always)]
    fn flatten(registers: &[[u64; 1]]) -> &[u64] {
        registers.as_flattened()
    }

    #[inline(always)]
    fn from_fn((): (), mut word: impl FnMut(usize) -> u64) -> Self {
        Portable(word(0))
    }

    #[inline(always)]
    fn room(self) {}

    #[inline(always)]
    fn words(self) -> [u64; 1] {
        [self.0]
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Portable(self.0.wrapping_add(other.0))
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Portable(self.0.wrapping_sub(other.0))
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Portable(self.0.wrapping_mul(other.0))
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Portable(self.0 & other.0)
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Portable(self.0 | other.0)
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Portable(self.0 ^ other.0)
    }

    #[inline(always)]
    fn shl<const BITS: u32>(self) -> Self {
        Portable(self.0 << BITS)
    }

    #[inline(always)]
    fn rotate_left<const BITS: u32>(self) -> Self {
        Portable(self.0.rotate_left(BITS))
    }

    #[inline(always)]
    fn shr<const BITS: u32>(self) -> Self {
        Portable(self.0 >> BITS)
    }

    #[inline(always)]
    fn shr_signed<const BITS: u32>(self) -> Self {
        Portable((self.0.cast_signed() >> BITS).cast_unsigned())
    }

    #[inline(always)]
    fn madd52lo(self, a: Self, b: Self) -> Self {
        let product = (a.0 & OPERAND).wrapping_mul(b.0 & OPERAND);
        Portable(self.0.wrapping_add(product & OPERAND))
    }

    #[inline(always)]
    fn madd52hi(self, a: Self, b: Self) -> Self {
        let product = u128::from(a.0 & OPERAND) * u128::from(b.0 & OPERAND);
        Portable(self.0.wrapping_add((product >> 52) as u64))
    }

    #[inline(always)]
    fn equals(self, other: Self) -> LaneMask {
        LaneMask::from_bits(Mask::equal(self.0, other.0).word() as u8)
    }

    #[inline(always)]
    fn less_than(self, other: Self) -> LaneMask {
        LaneMask::from_bits(self.0.borrowing_sub(other.0, false).1 as u8)
    }

    #[inline(always)]
    fn top_bit(self) -> LaneMask {
        LaneMask::from_bits((self.0 >> 63) as u8)
    }

    #[inline(always)]
    fn pick(row: &[u64; 16], index: Self) -> Self {
        let mut picked = 0;
        for (entry_index, entry) in (0..).zip(row) {
            picked |= entry & Mask::equal(index.0 & 15, entry_index).word();
        }
        Portable(picked)
    }

    #[inline(always)]
    fn permute(self, _index: Self) -> Self {
        self
    }

    #[inline(always)]
    fn select(self, mask: LaneMask, other: Self) -> Self {
        Portable(Mask::equal(u64::from(mask.bits() & 1), 1).select(self.0, other.0))
    }

    #[inline(always)]
    fn shift_in(self, _below: Self, count: usize) -> Self {
        debug_assert_eq!(count, 0);
        self
    }

    #[inline(never)]
    fn call<T: Task<Self>>((): (), task: T) -> T::Output {
        task.run(())
    }

    fn wipe_registers((): ()) {}
}
