//! Coefficients of few bits: packing and unpacking, compression, and noise (FIPS 203, 4.2).
//!
//! All polynomials of a group at once, by shifts of words; bits move from word to word, never from
//! polynomial to polynomial. Nothing is divided.

use super::group::Group;
use super::numbers::{Q, ROWS};
use super::transform::{canonical, modulus};
use crate::coefficients::{Coefficients, Row};
use crate::hash::each_word;
use crate::registers::Task;

/// Rows of pairs that are packed and unpacked at once: as many bits for a coefficient, as many rows
/// of words they are.
const CHUNK_ROWS: usize = 16;

/// One in each coefficient.
const ONES: u32 = 0x0001_0001;

/// What becomes of numbers when they are unpacked.
pub(super) trait Meaning {
    /// Changes packed numbers, before they are taken out of a word.
    #[inline(always)]
    fn word<C: Coefficients>(_room: C::Room, word: C) -> C {
        word
    }

    /// What becomes of the numbers of a pair, each in a word of its own.
    fn pair<C: Coefficients>(room: C::Room, first: C, second: C) -> C;
}

/// Numbers are coefficients.
pub(super) struct Plain;

impl Meaning for Plain {
    #[inline(always)]
    fn pair<C: Coefficients>(_room: C::Room, first: C, second: C) -> C {
        first.or(second.shl(16))
    }
}

/// Numbers of `BITS` bits are compressed coefficients, which is undone.
pub(super) struct Compressed<const BITS: u32>;

impl<const BITS: u32> Meaning for Compressed<BITS> {
    #[inline(always)]
    fn pair<C: Coefficients>(room: C::Room, first: C, second: C) -> C {
        // q·y + 2^(BITS − 1), as a sum of two products.
        let factors = C::splat(room, Q | 1 << (16 + BITS - 1));
        let one = C::splat(room, 1 << 16);
        let expand = |number: C| number.or(one).mul_pairs(factors).shr(BITS);
        expand(first).or(expand(second).shl(16))
    }
}

/// Numbers of 2·`ETA` bits are noise: ones in the lower half, less ones in the upper half.
pub(super) struct Noise<const ETA: usize>;

impl<const ETA: usize> Meaning for Noise<ETA> {
    #[inline(always)]
    fn word<C: Coefficients>(room: C::Room, word: C) -> C {
        if ETA != 2 {
            return word;
        }
        // Eight numbers at once, which no word divides: ones of both halves, then their difference
        // and four.
        let twos = |word: C| word.and(C::splat(room, 0x5555_5555));
        let ones = twos(word).add(twos(word.shr(1)));
        let fours = |word: C| word.and(C::splat(room, 0x3333_3333));
        fours(ones).add(C::splat(room, 4 * 0x1111_1111)).sub(fours(ones.shr(2)))
    }

    #[inline(always)]
    fn pair<C: Coefficients>(room: C::Room, first: C, second: C) -> C {
        let (bits, ones) = (first.or(second.shl(16)), C::splat(room, ONES));
        let bit = |index: u32| bits.shr(index).and(ones);
        match ETA {
            2 => bits.sub_each(C::splat(room, 4 * ONES)),
            _ => bit(0)
                .add_each(bit(1))
                .add_each(bit(2))
                .sub_each(bit(3).add_each(bit(4)).add_each(bit(5))),
        }
    }
}

/// Unpacks numbers of `BITS` bits, in place: see [`Group`].
pub(super) struct Unpack<'a, M, const BITS: usize> {
    group: &'a mut Group,
    meaning: core::marker::PhantomData<M>,
}

impl<'a, M, const BITS: usize> Unpack<'a, M, BITS> {
    pub(super) fn new(group: &'a mut Group) -> Self {
        Unpack { group, meaning: core::marker::PhantomData }
    }
}

impl<C: Coefficients, M: Meaning, const BITS: usize> Task<C> for Unpack<'_, M, BITS> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: C::Room) {
        let rows = &mut self.group.0;
        let mask = C::splat(room, (1 << BITS) - 1);
        for chunk in 0..ROWS / CHUNK_ROWS {
            // What is written lies in front of what is still to be read.
            let packed = ROWS - 4 * BITS + chunk * BITS;
            let mut words = [C::splat(room, 0); BITS];
            for (word, row) in words.iter_mut().zip(&rows[packed..packed + BITS]) {
                *word = M::word(room, C::load(room, row));
            }
            let rows = &mut rows[chunk * CHUNK_ROWS..][..CHUNK_ROWS];
            each_word!(PAIR => {
                let first = number::<C, BITS>(&words, 2 * PAIR * BITS).and(mask);
                let second = number::<C, BITS>(&words, (2 * PAIR + 1) * BITS).and(mask);
                rows[PAIR] = M::pair(room, first, second).row();
            });
        }
    }
}

/// The bits from `position` on, with others above them.
#[inline(always)]
fn number<C: Coefficients, const BITS: usize>(words: &[C; BITS], position: usize) -> C {
    let (index, shift) = (position / 32, position % 32);
    let low = words[index].shr(shift as u32);
    if shift + BITS > 32 { low.or(words[index + 1].shl(32 - shift as u32)) } else { low }
}

/// How coefficients from 0 to q − 1 are made numbers of a word each, when they are packed.
pub(super) trait Encoding {
    fn numbers<C: Coefficients>(room: C::Room, pair: C) -> (C, C);
}

impl Encoding for Plain {
    #[inline(always)]
    fn numbers<C: Coefficients>(room: C::Room, pair: C) -> (C, C) {
        (pair.and(C::splat(room, 0xffff)), pair.shr(16))
    }
}

/// Bits of the quotient behind the point, where coefficients are compressed.
const FRACTION_BITS: u32 = 25;

impl<const BITS: u32> Encoding for Compressed<BITS> {
    #[inline(always)]
    fn numbers<C: Coefficients>(room: C::Room, pair: C) -> (C, C) {
        // x·2^BITS/q, rounded: x·m/2^25, with the product's lowest 16 bits left away. For each x it
        // is what the division gives, as a test shows.
        let m = ((1u64 << (BITS + FRACTION_BITS)) + u64::from(Q / 2)) / u64::from(Q);
        let (high, low) = ((m >> 16) as u32, (m & 0xffff) as u32);
        let carried = pair.mul_high_unsigned(C::splat(room, low | low << 16));
        let (lower, upper) = (C::splat(room, 0xffff), C::splat(room, 0xffff_0000));
        let first = pair.and(lower).or(carried.shl(16));
        let second = pair.shr(16).or(carried.and(upper));
        let factors = C::splat(room, high | 1 << 16);
        let half = C::splat(room, 1 << (FRACTION_BITS - 17));
        let mask = C::splat(room, (1 << BITS) - 1);
        let rounded =
            |number: C| number.mul_pairs(factors).add(half).shr(FRACTION_BITS - 16).and(mask);
        (rounded(first), rounded(second))
    }
}

/// Packs polynomials by `BITS` bits for a coefficient: see [`Group`].
pub(super) struct Pack<'a, E, const BITS: usize> {
    source: &'a Group,
    target: &'a mut Group,
    encoding: core::marker::PhantomData<E>,
}

impl<'a, E, const BITS: usize> Pack<'a, E, BITS> {
    pub(super) fn new(source: &'a Group, target: &'a mut Group) -> Self {
        Pack { source, target, encoding: core::marker::PhantomData }
    }
}

impl<C: Coefficients, E: Encoding, const BITS: usize> Task<C> for Pack<'_, E, BITS> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: C::Room) {
        let q = modulus::<C>(room);
        for chunk in 0..ROWS / CHUNK_ROWS {
            let source = &self.source.0[chunk * CHUNK_ROWS..][..CHUNK_ROWS];
            let target: &mut [Row] = &mut self.target.0[chunk * BITS..][..BITS];
            let mut word = C::splat(room, 0);
            each_word!(PAIR => {
                let pair = canonical(room, C::load(room, &source[PAIR]), q);
                let (first, second) = E::numbers(room, pair);
                word = append::<C, BITS>(target, word, 2 * PAIR * BITS, first);
                word = append::<C, BITS>(target, word, (2 * PAIR + 1) * BITS, second);
            });
        }
    }
}

/// Puts a number behind the bits of a word; stores the word if it is full, and returns the next.
#[inline(always)]
fn append<C: Coefficients, const BITS: usize>(
    rows: &mut [Row],
    word: C,
    position: usize,
    number: C,
) -> C {
    let (index, shift) = (position / 32, position % 32);
    let word = if shift == 0 { number } else { word.or(number.shl(shift as u32)) };
    if shift + BITS >= 32 {
        rows[index] = word.row();
    }
    if shift + BITS > 32 { number.shr(32 - shift as u32) } else { word }
}

/// Tells in which words a coefficient is not below q: those are not zero.
pub(super) struct Overflows<'a>(pub(super) &'a Group);

impl<C: Coefficients> Task<C> for Overflows<'_> {
    type Output = Row;

    #[inline(always)]
    fn run(self, room: C::Room) -> Row {
        let largest = C::splat(room, (Q - 1) | (Q - 1) << 16);
        let mut above = C::splat(room, 0);
        for row in &self.0.0 {
            above = above.or(largest.sub_each(C::load(room, row)).shr_signed(15));
        }
        above.row()
    }
}
