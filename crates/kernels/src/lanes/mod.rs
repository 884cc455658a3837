//! Lanes for the curve kernels: one register of independent 64-bit words, the same in every room.
//!
//! A curve kernel is written once, over a type `L: Lanes`, and each room's register is such a type:
//! [`Ifma512x8`], [`Ifma256x4`], [`Fma256x4`], [`Portable`]; see [`registers`](crate::registers).

// Its macro is in scope from here on.
#[macro_use]
mod wide;

#[cfg(test)]
mod array;
pub(crate) mod fma256_x4;
mod ifma256_x4;
mod ifma512_x8;
mod mask;
mod portable;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub use array::Array;
pub use fma256_x4::Fma256x4;
pub use ifma256_x4::Ifma256x4;
pub use ifma512_x8::Ifma512x8;
pub use mask::LaneMask;
pub use portable::Portable;

use crate::registers::{Register, Task};

/// One register of 64-bit words. Only [`permute`](Lanes::permute) and
/// [`shift_in`](Lanes::shift_in) let them meet: each belongs to one job, or is one of several
/// numbers, or digits of a number, that a job computes with at once.
///
/// Products are modulo 2^64.
pub trait Lanes: Register<Word = u64> {
    /// The same two words in every pair of lanes; the first one only if there is a single lane.
    fn splat_pair(room: Self::Room, pair: [u64; 2]) -> Self;

    /// The words of registers in memory, one register after the other.
    fn flatten(registers: &[Self::Row]) -> &[u64];

    /// Runs the outermost task of a kernel, as [`call`](Register::call) does. Where products depend
    /// on a control register of the CPU, sets that register, and restores it afterwards.
    #[inline(always)]
    fn enter<T: Task<Self>>(room: Self::Room, task: T) -> T::Output {
        Self::call(room, task)
    }

    /// A word for each lane.
    #[inline(always)]
    fn from_fn(room: Self::Room, mut word: impl FnMut(usize) -> u64) -> Self {
        let mut row = Self::ZEROS;
        for (lane, target) in row.as_mut().iter_mut().enumerate() {
            *target = word(lane);
        }
        Self::load(room, &row)
    }

    /// The low 64 bits of the product. Three steps on some machines.
    fn mul(self, other: Self) -> Self;

    /// Each word shifted right by `bits` < 64, its top bit coming in.
    fn shr_signed(self, bits: u32) -> Self;

    /// self + (the low 52 bits of a·b), of whose words only the low 52 bits are read.
    fn madd52lo(self, a: Self, b: Self) -> Self;

    /// self + (a·b) / 2^52, of whose words only the low 52 bits are read.
    fn madd52hi(self, a: Self, b: Self) -> Self;

    /// Adds the halves of a product to a column and to the one above it: low + l and high + h,
    /// where a·b = h·2^52 + l, and where l is between −2^52 and 2^52. Of the words of a and b only
    /// the low 52 bits are read.
    #[inline(always)]
    fn madd52(low: Self, high: Self, a: Self, b: Self) -> [Self; 2] {
        [low.madd52lo(a, b), high.madd52hi(a, b)]
    }

    /// In which lanes the words are equal.
    fn equals(self, other: Self) -> LaneMask;

    /// In which lanes the unsigned word is below the other one.
    fn less_than(self, other: Self) -> LaneMask;

    /// In which lanes the top bit is set.
    fn top_bit(self) -> LaneMask;

    /// Entry `index` of `row` in each lane, all of which is read; only the low 4 bits of an index
    /// count.
    fn pick(row: &[u64; 16], index: Self) -> Self;

    /// Word `index` of the register in each lane; only as many low bits of an index count as there
    /// are lanes to number. Here jobs may meet.
    fn permute(self, index: Self) -> Self;

    /// The words of `self` where the mask is set, those of `other` elsewhere.
    fn select(self, mask: LaneMask, other: Self) -> Self;

    /// All words moved up by `count` < LANES lanes; the lowest lanes get the highest ones of
    /// `below`. `count` is a constant once loops are unrolled.
    fn shift_in(self, below: Self, count: usize) -> Self;
}
