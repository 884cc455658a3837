//! Groups of eight polynomials in memory, coefficient beside coefficient.

use widelane_secret::wipe;

use super::numbers::ROWS;
use crate::coefficients::{POLYNOMIALS, Row};

/// Coefficients of a polynomial.
pub const COEFFICIENTS: usize = 256;

/// Eight polynomials: row i has what [`coefficients`](crate::coefficients) says.
///
/// Where polynomials are packed, with `bits` bits for a coefficient, the first `4·bits` rows hold
/// the words of their bytes, those of the first 128 coefficients in the first half; where they are
/// to be unpacked, the last `4·bits` rows do. So both can be done in place.
#[repr(C, align(64))]
#[derive(Clone)]
pub struct Group(pub(super) [Row; ROWS]);

impl Group {
    /// Zeros.
    pub const ZERO: Group = Group([Row::ZERO; ROWS]);

    pub(super) fn wipe(&mut self) {
        wipe(&mut self.0);
    }

    /// Clears what is to be unpacked of all polynomials.
    pub(super) fn clear_packed(&mut self, bits: usize) {
        self.0[ROWS - 4 * bits..].fill(Row::ZERO);
    }

    /// Puts the bytes of a packed polynomial where they are to be unpacked, 32 for each bit of a
    /// coefficient.
    #[inline]
    pub(super) fn put_bytes(&mut self, lane: usize, bytes: &[u8]) {
        let words = bytes.as_chunks().0;
        let (first, second) = words.split_at(words.len() / 2);
        let rows = &mut self.0[ROWS - first.len()..];
        for ((row, first), second) in rows.iter_mut().zip(first).zip(second) {
            row.0[lane] = u32::from_le_bytes(*first);
            row.0[lane + POLYNOMIALS] = u32::from_le_bytes(*second);
        }
    }

    /// Puts word `index` of the bytes of a packed polynomial where it is to be unpacked.
    #[inline]
    pub(super) fn put_word(&mut self, lane: usize, bits: usize, index: usize, word: u64) {
        let index = 2 * index;
        let (row, lane) =
            if index < 4 * bits { (index, lane) } else { (index - 4 * bits, lane + POLYNOMIALS) };
        let rows = &mut self.0[ROWS - 4 * bits..];
        rows[row].0[lane] = word as u32;
        rows[row + 1].0[lane] = (word >> 32) as u32;
    }

    /// A packed polynomial, of `bits` bits for a coefficient.
    #[inline]
    pub(super) fn packed(&self, lane: usize, bits: usize) -> Packed<'_> {
        Packed { rows: &self.0[..4 * bits], lane }
    }

    /// Copies the bytes of a packed polynomial, 32 for each bit of a coefficient.
    #[inline]
    pub(super) fn copy_bytes(&self, lane: usize, bytes: &mut [u8]) {
        let words = self.packed(lane, bytes.len() / 32).words();
        for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
    }

    /// Sets the coefficients of a polynomial.
    #[inline]
    pub(super) fn put(&mut self, lane: usize, coefficients: &[u16; COEFFICIENTS]) {
        let pairs = coefficients.as_chunks::<2>().0;
        for (index, row) in self.0.iter_mut().enumerate() {
            let word = |[first, second]: [u16; 2]| u32::from(first) | u32::from(second) << 16;
            row.0[lane] = word(pairs[index]);
            row.0[lane + POLYNOMIALS] = word(pairs[ROWS + index]);
        }
    }

    /// Copies the coefficients of a polynomial from another group.
    #[inline]
    pub(super) fn copy_lane(&mut self, lane: usize, source: &Group) {
        for (row, source) in self.0.iter_mut().zip(&source.0) {
            row.0[lane] = source.0[lane];
            row.0[lane + POLYNOMIALS] = source.0[lane + POLYNOMIALS];
        }
    }
}

/// A packed polynomial.
#[derive(Clone, Copy)]
pub(super) struct Packed<'a> {
    rows: &'a [Row],
    lane: usize,
}

impl<'a> Packed<'a> {
    /// Its words, in the order of their bytes.
    #[inline(always)]
    pub(super) fn words(self) -> impl Iterator<Item = u32> + 'a {
        let Packed { rows, lane } = self;
        let first = rows.iter().map(move |row| row.0[lane]);
        first.chain(rows.iter().map(move |row| row.0[lane + POLYNOMIALS]))
    }
}
