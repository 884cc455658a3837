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

    /// Puts word `index` of the bytes of packed polynomials where it is to be unpacked: that of one
    /// in this lane, and of others in the lanes behind it.
    #[inline]
    pub(super) fn put_words(&mut self, lane: usize, bits: usize, index: usize, words: &[u64]) {
        let pairs = self.0[ROWS - 4 * bits..].as_chunks_mut::<2>().0;
        let (pair, lane) = match index.checked_sub(pairs.len()) {
            None => (index, lane),
            Some(index) => (index, lane + POLYNOMIALS),
        };
        let [low, high] = &mut pairs[pair];
        let (low, high) = (&mut low.0[lane..], &mut high.0[lane..]);
        for (word, (low, high)) in words.iter().zip(low.iter_mut().zip(high)) {
            *low = *word as u32;
            *high = (*word >> 32) as u32;
        }
    }

    /// A packed polynomial, of `bits` bits for a coefficient.
    #[inline]
    pub(super) fn packed(&self, lane: usize, bits: usize) -> Packed<'_> {
        Packed { rows: &self.0[..4 * bits], lane }
    }

    /// Copies the bytes of a packed polynomial, 32 for each bit of a coefficient.
    #[inline]
    pub(super) fn copy_bytes(&self, lane: usize, bytes: &mut [u8]) {
        self.packed(lane, bytes.len() / 32).copy_to(bytes);
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

impl Packed<'_> {
    /// Copies its bytes to the beginning of `bytes`.
    #[inline]
    pub(super) fn copy_to(self, bytes: &mut [u8]) {
        let (first, rest) = bytes.as_chunks_mut().0.split_at_mut(self.rows.len());
        for (row, (first, second)) in self.rows.iter().zip(first.iter_mut().zip(rest)) {
            *first = row.0[self.lane].to_le_bytes();
            *second = row.0[self.lane + POLYNOMIALS].to_le_bytes();
        }
    }

    /// Bits that are set where its bytes differ from the beginning of `bytes`.
    #[inline]
    pub(super) fn differences(self, bytes: &[u8]) -> u32 {
        let (first, rest) = bytes.as_chunks().0.split_at(self.rows.len());
        let mut differences = 0;
        for (row, (first, second)) in self.rows.iter().zip(first.iter().zip(rest)) {
            differences |= row.0[self.lane] ^ u32::from_le_bytes(*first);
            differences |= row.0[self.lane + POLYNOMIALS] ^ u32::from_le_bytes(*second);
        }
        differences
    }
}
