//! Numbers of mont::one: one in registers of its digits, many in a table, two to be multiplied.

use core::array;

use widelane_secret::wipe;

use crate::digits::{DIGIT_BITS, DIGIT_MASK};
use crate::lanes::Lanes;
use crate::registers::Task;

/// Powers of the base in the table.
pub(super) const ENTRIES: usize = 32;

/// A number of `R` registers. Only the low 52 bits of a word count.
#[repr(C, align(64))]
pub(super) struct Number<L: Lanes, const R: usize>(pub(super) [L::Row; R]);

impl<L: Lanes, const R: usize> Clone for Number<L, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L: Lanes, const R: usize> Copy for Number<L, R> {}

impl<L: Lanes, const R: usize> Number<L, R> {
    pub(super) const ZERO: Self = Number([L::ZEROS; R]);

    pub(super) fn new(digits: &[u64]) -> Self {
        let mut number = Self::ZERO;
        for (word, digit) in number.words_mut().zip(digits) {
            *word = *digit;
        }
        number
    }

    fn words_mut(&mut self) -> impl Iterator<Item = &mut u64> {
        self.0.iter_mut().flat_map(|block| block.as_mut())
    }

    /// The lowest digits.
    pub(super) fn digits<const D: usize>(&self) -> [u64; D] {
        let mut words = self.0.iter().flat_map(|block| block.as_ref());
        array::from_fn(|_| words.next().map_or(0, |word| word & DIGIT_MASK))
    }

    /// Adds another number and carries.
    pub(super) fn add(&mut self, other: &Self) {
        let others = other.0.iter().flat_map(|block| block.as_ref());
        let mut carry = 0;
        for (word, other) in self.words_mut().zip(others) {
            carry += (*word & DIGIT_MASK) + (other & DIGIT_MASK);
            *word = carry & DIGIT_MASK;
            carry >>= DIGIT_BITS;
        }
    }

    pub(super) fn wipe(&mut self) {
        for block in &mut self.0 {
            wipe(block.as_mut());
        }
    }
}

/// What a stream multiplies.
#[repr(C, align(64))]
pub(super) struct Factors<L: Lanes, const R: usize> {
    /// What is squared or multiplied, and the result, below 3·m.
    pub(super) x: Number<L, R>,
    /// The other factor, below 6·m.
    pub(super) y: Number<L, R>,
}

impl<L: Lanes, const R: usize> Factors<L, R> {
    pub(super) const ZERO: Self = Factors { x: Number::ZERO, y: Number::ZERO };

    pub(super) fn wipe(&mut self) {
        self.x.wipe();
        self.y.wipe();
    }
}

/// The first powers of a number.
pub(super) type Table<L, const R: usize> = [Number<L, R>; ENTRIES];

/// Takes an entry from a table by reading all of it.
pub(super) struct Select<'a, L: Lanes, const R: usize> {
    pub(super) table: &'a Table<L, R>,
    pub(super) index: u64,
    pub(super) target: &'a mut Number<L, R>,
}

impl<L: Lanes, const R: usize> Task<L> for Select<'_, L, R> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: L::Room) {
        let index = L::splat(room, self.index);
        let one = L::splat(room, 1);
        let mut number = L::splat(room, 0);
        let mut selected = [number; R];
        for entry in self.table {
            let is_wanted = index.equals(number);
            for (selected, digits) in selected.iter_mut().zip(&entry.0) {
                *selected = L::load(room, digits).select(is_wanted, *selected);
            }
            number = number.add(one);
        }
        for (target, selected) in self.target.0.iter_mut().zip(selected) {
            *target = selected.row();
        }
    }
}
