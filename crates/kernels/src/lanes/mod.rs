//! Lanes for the curve kernels: one register of independent 64-bit words, the same in every room.
//!
//! A curve kernel is written once, over a type `L: Lanes`, and each room's register is such a type:
//! [`Ifma512x8`], [`Ifma256x4`], [`Portable`]. A register is made from the token of its room only,
//! so whoever holds one may use it, and its operations are safe.
//!
//! Everything that works on registers is `#[inline(always)]` and ends up in the body of
//! [`Lanes::call`], the one function of a room that has the room's features. A function without
//! them that is *not* inlined there would call every single instruction as a function; a closure
//! given to a function of the standard library (`array::map`, `Option::map`) easily is one. Code
//! that shall exist only once (a multiplication, a loop of squarings) is a [`Task`] of its own and
//! is reached by another `call`.

// Its macros are in scope from here on.
#[macro_use]
mod wide;

mod ifma256_x4;
mod ifma512_x8;
mod mask;
mod portable;
#[cfg(test)]
mod tests;

pub use ifma256_x4::Ifma256x4;
pub use ifma512_x8::Ifma512x8;
pub use mask::LaneMask;
pub use portable::Portable;

/// One register of 64-bit words. Only [`permute`](Lanes::permute) and
/// [`shift_in`](Lanes::shift_in) let them meet: each belongs to one job, or is one of several
/// numbers, or digits of a number, that a job computes with at once.
///
/// Sums and products are modulo 2^64. Nothing depends on the values in time or addresses.
pub trait Lanes: Copy {
    /// Proof that the room may be used.
    type Room: Copy;
    /// The words of a register in memory.
    type Words: Copy + AsRef<[u64]> + AsMut<[u64]>;
    /// How many words a register has.
    const LANES: usize;
    /// Words that are zero.
    const ZEROS: Self::Words;

    /// The same word in all lanes.
    fn splat(room: Self::Room, word: u64) -> Self;

    /// The same two words in every pair of lanes; the first one only if there is a single lane.
    fn splat_pair(room: Self::Room, pair: [u64; 2]) -> Self;

    /// A register from memory.
    fn load(room: Self::Room, words: &Self::Words) -> Self;

    /// The words of registers in memory, one register after the other.
    fn flatten(registers: &[Self::Words]) -> &[u64];

    /// A word for each lane.
    fn from_fn(room: Self::Room, word: impl FnMut(usize) -> u64) -> Self;

    /// The room this register belongs to.
    fn room(self) -> Self::Room;

    /// The words of all lanes.
    fn words(self) -> Self::Words;

    /// The sum.
    fn add(self, other: Self) -> Self;

    /// The difference.
    fn sub(self, other: Self) -> Self;

    /// The low 64 bits of the product. Three steps on some machines.
    fn mul(self, other: Self) -> Self;

    /// The bits set in both.
    fn and(self, other: Self) -> Self;

    /// The bits set in either.
    fn or(self, other: Self) -> Self;

    /// The bits set in one of both.
    fn xor(self, other: Self) -> Self;

    /// Each word shifted left by `BITS` < 64.
    fn shl<const BITS: u32>(self) -> Self;

    /// Each word rotated left by `BITS` < 64.
    fn rotate_left<const BITS: u32>(self) -> Self;

    /// Each word shifted right by `BITS` < 64, zeros coming in.
    fn shr<const BITS: u32>(self) -> Self;

    /// Each word shifted right by `BITS` < 64, its top bit coming in.
    fn shr_signed<const BITS: u32>(self) -> Self;

    /// self + (the low 52 bits of a·b), of whose words only the low 52 bits are read.
    fn madd52lo(self, a: Self, b: Self) -> Self;

    /// self + (a·b) / 2^52, of whose words only the low 52 bits are read.
    fn madd52hi(self, a: Self, b: Self) -> Self;

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

    /// Runs `task` in a function of its own that has the features of the room.
    fn call<T: Task<Self>>(room: Self::Room, task: T) -> T::Output;

    /// Clears the vector registers, where there are any. Once per batch.
    fn wipe_registers(room: Self::Room);
}

/// Work that is done in one place in the machine code of a room: see [`Lanes::call`].
pub trait Task<L: Lanes> {
    /// What comes of it.
    type Output;

    /// Does the work. Always `#[inline(always)]`, as is all that it calls.
    fn run(self, room: L::Room) -> Self::Output;
}
