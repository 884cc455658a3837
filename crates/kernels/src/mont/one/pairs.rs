//! Pairs of numbers of mont::one, digit by digit in turns, and a table of them.

use widelane_secret::wipe;

use super::super::key::CrtKey;
use super::super::modulus::{Modulus, ShortModulus};
use super::Operation;
use super::number::ENTRIES;
use crate::digits::{DIGIT_BITS, SHORT_BITS, SHORT_MASK, repack};
use crate::lanes::Lanes;
use crate::registers::{Register, Task};

/// How many numbers are digit by digit in turns: what is computed modulo both primes.
pub(super) const COUNT: usize = 2;

/// The halves of the columns of a product, of which both have as many blocks.
pub(super) const LOWER: bool = false;
/// As above.
pub(super) const UPPER: bool = true;

/// Which of the products of two digits: all of them, or those of a digit and a higher one.
pub(super) const ALL: bool = false;
/// As above.
pub(super) const ABOVE_DIAGONAL: bool = true;

/// Repeats a block of code for each number from zero to a constant, and the number is a constant
/// in it. LLVM keeps an array in registers only if it knows every index early.
macro_rules! each {
    ($index:ident in 0..$count:expr => $body:block) => {
        each!($index in 0..$count => $body; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20);
    };
    ($index:ident in 0..$count:expr => $body:block; $($number:literal)*) => {
        $(if const { $number < $count } {
            const $index: usize = $number;
            $body
        })*
    };
}
pub(super) use each;

/// Two numbers in `R` registers, of digits of 51 bits: first the lowest one of each, then the next.
#[repr(C, align(64))]
pub(super) struct Pair<L: Register<Word = u64>, const R: usize>(pub(super) [L::Row; R]);

impl<L: Register<Word = u64>, const R: usize> Clone for Pair<L, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L: Register<Word = u64>, const R: usize> Copy for Pair<L, R> {}

impl<L: Register<Word = u64>, const R: usize> Pair<L, R> {
    pub(super) const ZERO: Self = Pair([L::ZEROS; R]);

    /// Takes numbers of 52-bit digits.
    pub(super) fn new(numbers: [&[u64]; COUNT]) -> Self {
        let mut result = Self::ZERO;
        for (index, digits) in numbers.into_iter().enumerate() {
            repack::<DIGIT_BITS, SHORT_BITS>(digits, result.digits_mut(index));
        }
        result
    }

    /// Moduli m, and −1/m modulo the power of two that reductions divide by.
    pub(super) fn of_moduli<const LONG: usize>(
        moduli: [&Modulus<LONG>; COUNT],
        short: [&ShortModulus<LONG>; COUNT],
    ) -> [Self; 2] {
        let mut inverse = Self::from_short(short.map(|modulus| &modulus.inverse[..]));
        for (index, modulus) in short.iter().enumerate() {
            if let Some(top) = inverse.digits_mut(index).nth(LONG) {
                *top = modulus.inverse_top;
            }
        }
        [Self::new(moduli.map(|modulus| &modulus.m[..])), inverse]
    }

    /// Takes numbers of 51-bit digits.
    pub(super) fn from_short(numbers: [&[u64]; COUNT]) -> Self {
        let mut result = Self::ZERO;
        for (index, digits) in numbers.into_iter().enumerate() {
            result.digits_mut(index).zip(digits).for_each(|(word, digit)| *word = *digit);
        }
        result
    }

    /// Adds other numbers and carries.
    pub(super) fn add(&mut self, others: &Self) {
        for index in 0..COUNT {
            let others = others.digits(index);
            let mut carry = 0;
            for (word, other) in self.digits_mut(index).zip(others) {
                carry += *word + other;
                *word = carry & SHORT_MASK;
                carry >>= SHORT_BITS;
            }
        }
    }

    /// The digits of one of the numbers.
    pub(super) fn digits_mut(&mut self, index: usize) -> impl Iterator<Item = &mut u64> {
        self.0.iter_mut().flat_map(|words| words.as_mut()).skip(index).step_by(COUNT)
    }

    fn digits(&self, index: usize) -> impl Iterator<Item = &u64> {
        self.0.iter().flat_map(|words| words.as_ref()).skip(index).step_by(COUNT)
    }

    /// The lowest `D` digits, of 52 bits, of one of the numbers.
    pub(super) fn long_digits<const D: usize>(&self, index: usize) -> [u64; D] {
        let mut digits = [0; D];
        repack::<SHORT_BITS, DIGIT_BITS>(self.digits(index), &mut digits);
        digits
    }

    #[inline(always)]
    pub(super) fn load(&self, room: L::Room) -> [L; R] {
        let mut registers = [L::splat(room, 0); R];
        each!(BLOCK in 0..R => {
            registers[BLOCK] = L::load(room, &self.0[BLOCK]);
        });
        registers
    }

    #[inline(always)]
    pub(super) fn store(&mut self, registers: &[L; R]) {
        each!(BLOCK in 0..R => {
            self.0[BLOCK] = registers[BLOCK].row();
        });
    }

    pub(super) fn wipe(&mut self) {
        for words in &mut self.0 {
            wipe(words.as_mut());
        }
    }
}

impl<L: Lanes, const R: usize> Pair<L, R> {
    #[inline(always)]
    pub(super) fn words(&self) -> &[u64] {
        L::flatten(&self.0)
    }
}

/// Pair moved up by 0 to `W` − 1 digits, where a register has `W` digits of each. So what any
/// digit begins can be loaded from where it was stored: a load across two stores would have to wait
/// until both are in the cache.
#[repr(C, align(64))]
pub(super) struct Shifted<L: Lanes, const R: usize, const W: usize> {
    by: [Pair<L, R>; W],
    /// What was moved out of the last register.
    beyond: Pair<L, W>,
}

impl<L: Lanes, const R: usize, const W: usize> Shifted<L, R, W> {
    pub(super) const ZERO: Self = Shifted { by: [Pair::ZERO; W], beyond: Pair::ZERO };

    /// The numbers where they belong.
    #[inline(always)]
    pub(super) const fn numbers(&self) -> &Pair<L, R> {
        &self.by[0]
    }

    /// The digits from `first` on, as many as a register has; those below the lowest one are zero.
    #[inline(always)]
    pub(super) fn digits_from(&self, room: L::Room, first: isize) -> L {
        let up = (-first).rem_euclid(W.cast_signed());
        let block = ((first + up) / W.cast_signed()).cast_unsigned();
        let up = up.cast_unsigned();
        L::load(room, if block < R { &self.by[up].0[block] } else { &self.beyond.0[up] })
    }

    /// Stores numbers. What is moved out of the last register is stored if it `matters`.
    #[inline(always)]
    pub(super) fn store(&mut self, room: L::Room, registers: &[L; R], matters: bool) {
        let zero = L::splat(room, 0);
        each!(UP in 0..W => {
            let lanes = UP * L::LANES / W;
            let mut below = zero;
            each!(BLOCK in 0..R => {
                self.by[UP].0[BLOCK] = registers[BLOCK].shift_in(below, lanes).row();
                below = registers[BLOCK];
            });
            if matters {
                self.beyond.0[UP] = zero.shift_in(below, lanes).row();
            }
        });
    }

    pub(super) fn wipe(&mut self) {
        self.by.iter_mut().for_each(Pair::wipe);
        self.beyond.wipe();
    }
}

/// Multiplies the numbers of two pairs, modulo two moduli.
pub(super) trait Multiplier<L: Register<Word = u64>, const R: usize>: Sized {
    /// Factors that are zero.
    fn new<const LONG: usize>(
        room: L::Room,
        moduli: [&Modulus<LONG>; COUNT],
        short: [&ShortModulus<LONG>; COUNT],
    ) -> Self;

    /// Factors that are zero, for the primes of a key.
    fn of_primes<const HALF: usize, const FULL: usize>(
        room: L::Room,
        key: &CrtKey<HALF, FULL>,
    ) -> Self {
        Self::new(room, [&key.p, &key.q], key.short.each_ref())
    }

    /// Sets the first factor.
    fn set_x(&mut self, room: L::Room, x: &Pair<L, R>);

    /// Sets the other factor.
    fn set_y(&mut self, room: L::Room, y: &Pair<L, R>);

    /// The result, below three times the modulus.
    fn x(&self, room: L::Room) -> Pair<L, R>;

    /// Does one operation, so many times.
    fn run(&mut self, room: L::Room, operation: Operation, times: usize);

    /// Makes an entry of a table for each number the other factor, and reads all of the table.
    fn select(&mut self, room: L::Room, table: &PairTable<L, R>, indices: [u64; COUNT]);

    /// Wipes factors and moduli.
    fn wipe(&mut self);
}

/// The first powers of numbers.
pub(super) type PairTable<L, const R: usize> = [Pair<L, R>; ENTRIES];

/// Takes an entry for each of two numbers from a table by reading all of it.
pub(super) struct SelectPair<'a, L: Lanes, const R: usize> {
    pub(super) table: &'a PairTable<L, R>,
    pub(super) indices: [u64; COUNT],
    pub(super) target: &'a mut Pair<L, R>,
}

impl<L: Lanes, const R: usize> Task<L> for SelectPair<'_, L, R> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: L::Room) {
        let indices = L::splat_pair(room, self.indices);
        let one = L::splat(room, 1);
        let mut number = L::splat(room, 0);
        let mut selected = [number; R];
        for entry in self.table {
            let is_wanted = indices.equals(number);
            each!(BLOCK in 0..R => {
                let digits = L::load(room, &entry.0[BLOCK]);
                selected[BLOCK] = digits.select(is_wanted, selected[BLOCK]);
            });
            number = number.add(one);
        }
        self.target.store(&selected);
    }
}

/// Digits in reverse, for sums of products that belong to one column: digit i is digit
/// `column` − i of the numbers, where they have that one. Below them there are `below` zeros.
pub(super) fn reversed<L: Lanes, const R: usize>(
    numbers: &Pair<L, R>,
    column: usize,
    below: usize,
) -> Pair<L, R> {
    let mut result = Pair::ZERO;
    for index in 0..COUNT {
        let source = |digit: usize| numbers.words()[digit * COUNT + index];
        let targets = result.digits_mut(index).skip(below);
        for (target, digit) in targets.zip((0..=column).rev()) {
            *target = source(digit);
        }
    }
    result
}
