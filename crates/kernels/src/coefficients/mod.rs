//! Coefficients for ML-KEM: registers with coefficients of eight polynomials, alike in all rooms.
//!
//! A register holds two *pairs* of neighbouring coefficients of each of eight polynomials: 32-bit
//! word *l* < 8 has coefficients 2·i and 2·i + 1 of polynomial *l*, for some *i* < 64, and word
//! *l* + 8 has coefficients 2·i + 128 and 2·i + 129 of the same one. So polynomials never meet,
//! nor do the two halves but for one layer of the transform. `docs/design/ml-kem.md` says what that
//! is good for. A register is made from the token of its room only, as in [`lanes`](crate::lanes),
//! and all that works on registers is `#[inline(always)]` and ends up in the body of
//! [`Coefficients::call`].

mod avx2;
// Its macro is in scope from here on.
#[macro_use]
mod zmm;

mod avx512;
mod portable;
#[cfg(test)]
mod tests;
mod vbmi512;

pub use avx2::Avx2Pairs;
pub use avx512::Avx512Pairs;
pub use portable::PortablePairs;
pub use vbmi512::Vbmi512Pairs;

use crate::words::Words;

/// How many polynomials a register has coefficients of.
pub const POLYNOMIALS: usize = 8;

/// 32-bit words of a register, each of them two coefficients.
pub const PAIRS: usize = 2 * POLYNOMIALS;

/// A register in memory.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row(pub [u32; PAIRS]);

impl Row {
    /// Zeros.
    pub const ZERO: Row = Row([0; PAIRS]);
}

/// Words of a block in which candidates for coefficients are: see [`Coefficients::accept_vartime`].
pub const BLOCK_WORDS: usize = 21;

/// Candidates in a block, of 12 bits each.
pub const CANDIDATES: usize = 64 * BLOCK_WORDS / 12;

/// One register of coefficients.
///
/// Sums and products are modulo the size of a word. Nothing depends on the values in time or
/// addresses, except where a name ends in `_vartime`.
pub trait Coefficients: Copy {
    /// Proof that the room may be used.
    type Room: Copy;
    /// The widest register of Keccak states in the same room.
    type Words: Words<Room = Self::Room, Word = u64>;

    /// The same word everywhere.
    fn splat(room: Self::Room, word: u32) -> Self;

    /// One word in the first half, and one in the second.
    fn halves(room: Self::Room, first: u32, second: u32) -> Self;

    /// A register from memory.
    fn load(room: Self::Room, row: &Row) -> Self;

    /// Coefficients of one polynomial: 8 pairs in the first half, 8 in the second.
    fn load_halves(room: Self::Room, first: &[u16; PAIRS], second: &[u16; PAIRS]) -> Self;

    /// Stores the register.
    fn store(self, row: &mut Row);

    /// The coefficients of 8 pairs of the first half, and of 8 of the second.
    fn to_halves(self) -> [[u16; PAIRS]; 2];

    /// The sums of coefficients.
    fn add(self, other: Self) -> Self;

    /// The differences of coefficients.
    fn sub(self, other: Self) -> Self;

    /// The low 16 bits of the products of coefficients.
    fn mul_low(self, other: Self) -> Self;

    /// The high 16 bits of the products of signed coefficients.
    fn mul_high(self, other: Self) -> Self;

    /// The products of signed coefficients over 2^15, rounded.
    fn mul_rounded(self, other: Self) -> Self;

    /// The high 16 bits of the products of unsigned coefficients.
    fn mul_high_unsigned(self, other: Self) -> Self;

    /// Coefficients shifted right by `BITS` < 16, their sign coming in.
    fn shr_signed<const BITS: u32>(self) -> Self;

    /// The sum of the products of the first and of the second coefficients of two signed pairs, as
    /// a word.
    fn mul_pairs(self, other: Self) -> Self;

    /// The sums of words.
    fn add_words(self, other: Self) -> Self;

    /// The differences of words.
    fn sub_words(self, other: Self) -> Self;

    /// The bits set in both.
    fn and(self, other: Self) -> Self;

    /// The bits set in either.
    fn or(self, other: Self) -> Self;

    /// Words shifted left by `bits` < 32, which is a constant once all is inlined.
    fn shl(self, bits: u32) -> Self;

    /// Words shifted right by `bits` < 32, zeros coming in. `bits` is a constant as above.
    fn shr(self, bits: u32) -> Self;

    /// The first halves of both, and their second halves.
    fn unzip(self, other: Self) -> (Self, Self);

    /// In each half, transposed words: word i of register j becomes word j of register i.
    fn transpose(registers: [Self; POLYNOMIALS]) -> [Self; POLYNOMIALS];

    /// In each half, the word of the polynomial that `from` names in its first half, below 8.
    fn choose(self, from: Self) -> Self;

    /// Appends those of the [`CANDIDATES`] candidates in a block that are below `bound` to the
    /// `count` that are in `accepted`, and returns how many there are. Places of `accepted` behind
    /// those filled may be overwritten.
    ///
    /// Candidates are public: time depends on them.
    ///
    /// # Panics
    ///
    /// Panics if `accepted` has no more room for all candidates.
    fn accept_vartime(
        room: Self::Room,
        word: impl Fn(usize) -> u64,
        bound: u16,
        accepted: &mut [u16],
        count: usize,
    ) -> usize;

    /// Runs `task` in a function of its own that has the features of the room. What it leaves in
    /// registers and on the stack is for the caller to clear.
    fn call<T: Task<Self>>(room: Self::Room, task: T) -> T::Output;

    /// Clears the vector registers, where there are any. Once per batch.
    fn wipe_registers(room: Self::Room);
}

/// Work that is done in one place in the machine code of a room: see [`Coefficients::call`].
pub trait Task<C: Coefficients> {
    /// What comes of it.
    type Output;

    /// Does the work. Always `#[inline(always)]`, as is all that it calls.
    fn run(self, room: C::Room) -> Self::Output;
}
