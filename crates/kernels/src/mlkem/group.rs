//! Groups of eight polynomials in memory, coefficient beside coefficient.

use widelane_secret::wipe;

use super::numbers::ROWS;
use super::{Buffer, POLYNOMIAL_BYTES};
use crate::coefficients::{Coefficients, POLYNOMIALS, Row};
use crate::registers::Task;

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
        // From 2 KiB on the C library takes `rep stosb`, which is slow to begin.
        self.0.chunks_mut(ROWS / 4).for_each(wipe);
    }

    /// Clears what is to be unpacked of all polynomials.
    pub(super) fn clear_packed(&mut self, bits: usize) {
        self.0[ROWS - 4 * bits..].fill(Row::ZERO);
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

    /// Copies the coefficients of a polynomial from another group.
    #[inline]
    pub(super) fn copy_lane(&mut self, lane: usize, source: &Group) {
        for (row, source) in self.0.iter_mut().zip(&source.0) {
            row.0[lane] = source.0[lane];
            row.0[lane + POLYNOMIALS] = source.0[lane + POLYNOMIALS];
        }
    }
}

impl Buffer {
    /// Sets the bytes of a packed polynomial.
    #[inline]
    pub(super) fn put_bytes(&mut self, bytes: &[u8]) {
        for (word, bytes) in self.0.iter_mut().zip(bytes.as_chunks().0) {
            *word = u16::from_le_bytes(*bytes);
        }
    }

    /// Copies the bytes of a packed polynomial.
    #[inline]
    pub(super) fn copy_bytes(&self, bytes: &mut [u8]) {
        for (word, bytes) in self.0.iter().zip(bytes.as_chunks_mut().0) {
            *bytes = word.to_le_bytes();
        }
    }

    /// Bits that are set where the bytes of a packed polynomial differ from `bytes`.
    #[inline]
    pub(super) fn differences(&self, bytes: &[u8]) -> u16 {
        let pairs = self.0.iter().zip(bytes.as_chunks().0);
        pairs.fold(0, |differences, (word, bytes)| differences | word ^ u16::from_le_bytes(*bytes))
    }

    /// Clears the bytes of a packed polynomial.
    pub(super) fn wipe_bytes(&mut self) {
        wipe(&mut self.0[..POLYNOMIAL_BYTES / 2]);
    }
}

/// Moves the bytes of packed polynomials out of a group: the words of each lie in a lane, those of
/// the second half of its coefficients behind those of the first.
pub(super) struct ToBuffers<'a> {
    pub(super) packed: &'a Group,
    /// Bits of a coefficient.
    pub(super) bits: usize,
    pub(super) buffers: &'a mut [Buffer; POLYNOMIALS],
}

impl<C: Coefficients> Task<C> for ToBuffers<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: C::Room) {
        let count = 4 * self.bits;
        // Eight words at a time. Where there are fewer, what is stored behind them is overwritten,
        // since what is behind them was stored before.
        for begin in (0..count).step_by(POLYNOMIALS).rev() {
            let mut registers = [C::splat(room, 0); POLYNOMIALS];
            for (register, row) in registers.iter_mut().zip(&self.packed.0[begin..]) {
                *register = C::load(room, row);
            }
            for (register, buffer) in C::transpose(registers).into_iter().zip(&mut *self.buffers) {
                let halves = register.to_halves();
                for (half, begin) in halves.iter().zip([2 * begin, 2 * (count + begin)]) {
                    buffer.0[begin..][..half.len()].copy_from_slice(half);
                }
            }
        }
    }
}

/// Moves the bytes of packed polynomials to where they are to be unpacked.
pub(super) struct FromBuffers<'a> {
    pub(super) buffers: &'a [Buffer; POLYNOMIALS],
    /// Bits of a coefficient.
    pub(super) bits: usize,
    pub(super) target: &'a mut Group,
}

impl<C: Coefficients> Task<C> for FromBuffers<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: C::Room) {
        let count = 4 * self.bits;
        let rows = &mut self.target.0[ROWS - count..];
        for (rows, begin) in rows.chunks_mut(POLYNOMIALS).zip((0..).step_by(POLYNOMIALS)) {
            let mut registers = [C::splat(room, 0); POLYNOMIALS];
            for (register, buffer) in registers.iter_mut().zip(self.buffers) {
                let half = |begin: usize| buffer.0[2 * begin..].first_chunk().expect("eight words");
                *register = C::load_halves(room, half(begin), half(count + begin));
            }
            for (register, row) in C::transpose(registers).into_iter().zip(rows) {
                *row = register.row();
            }
        }
    }
}
