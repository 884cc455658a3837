//! Coefficients for ML-KEM: registers with coefficients of eight polynomials, alike in all rooms.
//!
//! A register holds two *pairs* of neighbouring coefficients of each of eight polynomials: 32-bit
//! word *l* < 8 has coefficients 2·i and 2·i + 1 of polynomial *l*, for some *i* < 64, and word
//! *l* + 8 has coefficients 2·i + 128 and 2·i + 129 of the same one. So polynomials never meet,
//! nor do the two halves but for one layer of the transform. `docs/design/ml-kem.md` says what that
//! is good for. How they are worked on: see [`registers`](crate::registers).

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

use crate::registers::Register;
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

impl AsRef<[u32]> for Row {
    fn as_ref(&self) -> &[u32] {
        &self.0
    }
}

impl AsMut<[u32]> for Row {
    fn as_mut(&mut self) -> &mut [u32] {
        &mut self.0
    }
}

/// Words of a block in which candidates for coefficients are: see [`Coefficients::accept_vartime`].
pub const BLOCK_WORDS: usize = 21;

/// Candidates in a block, of 12 bits each.
pub const CANDIDATES: usize = 64 * BLOCK_WORDS / 12;

/// One register of coefficients: words that are pairs of them.
///
/// Sums and products of coefficients are modulo 2^16. Nothing depends on the values in time or
/// addresses, except where a name ends in `_vartime`.
pub trait Coefficients: Register<Word = u32, Row = Row> {
    /// The widest register of Keccak states in the same room.
    type Words: Words<Room = Self::Room, Word = u64>;

    /// One word in the first half, and one in the second.
    fn halves(room: Self::Room, first: u32, second: u32) -> Self;

    /// Coefficients of one polynomial: 8 pairs in the first half, 8 in the second.
    fn load_halves(room: Self::Room, first: &[u16; PAIRS], second: &[u16; PAIRS]) -> Self;

    /// The coefficients of 8 pairs of the first half, and of 8 of the second.
    fn to_halves(self) -> [[u16; PAIRS]; 2];

    /// The sums of coefficients.
    fn add_each(self, other: Self) -> Self;

    /// The differences of coefficients.
    fn sub_each(self, other: Self) -> Self;

    /// The low 16 bits of the products of coefficients.
    fn mul_low(self, other: Self) -> Self;

    /// The high 16 bits of the products of signed coefficients.
    fn mul_high(self, other: Self) -> Self;

    /// The products of signed coefficients over 2^15, rounded.
    fn mul_rounded(self, other: Self) -> Self;

    /// The high 16 bits of the products of unsigned coefficients.
    fn mul_high_unsigned(self, other: Self) -> Self;

    /// Coefficients shifted right by `bits` < 16, their sign coming in.
    fn shr_signed(self, bits: u32) -> Self;

    /// The sum of the products of the first and of the second coefficients of two signed pairs, as
    /// a word.
    fn mul_pairs(self, other: Self) -> Self;

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
}
