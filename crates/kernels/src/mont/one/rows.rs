//! Multiplications of mont::one row by row: the columns move down by one lane per digit.
//!
//! A row takes one digit of the one factor, in all lanes, times the other one, and the quotients
//! that the columns before have given, times the modulus. The chain from one quotient to the next
//! is a move between lanes, two additions and a multiply-add.

use core::slice;

use widelane_secret::{hidden, wipe};

use super::super::modulus::Modulus;
use super::number::{Factors, Number};
use super::{Operation, Stream};
use crate::digits::{DIGIT_BITS, DIGIT_MASK};
use crate::lanes::{LaneMask, Lanes};
use crate::registers::Task;

/// The lowest lane.
const FIRST: LaneMask = LaneMask::from_bits(1);

/// A stream with its modulus m.
#[repr(C, align(64))]
pub(super) struct Rows<L: Lanes, const R: usize> {
    factors: Factors<L, R>,
    m: Number<L, R>,
    m1: Number<L, R>,
    k0: u64,
    /// How many rows a multiplication has.
    digits: usize,
}

impl<L: Lanes, const R: usize> Rows<L, R> {
    /// A stream whose factors are zero.
    pub(super) fn new<const D: usize>(modulus: &Modulus<D>) -> Self {
        Rows {
            factors: Factors::ZERO,
            m: Number::new(&modulus.m),
            m1: Number::new(&modulus.m1),
            k0: modulus.k0,
            digits: D,
        }
    }
}

impl<L: Lanes, const R: usize> Stream<L, R> for Rows<L, R> {
    fn factors(&mut self) -> &mut Factors<L, R> {
        &mut self.factors
    }

    fn run(&mut self, room: L::Room, operation: Operation) {
        L::call(room, Turn { stream: self, operation });
    }

    fn wipe(&mut self) {
        let Rows { factors, m, m1, k0, digits: _ } = self;
        factors.wipe();
        m.wipe();
        m1.wipe();
        wipe(slice::from_mut(k0));
    }
}

/// An operation.
struct Turn<'a, L: Lanes, const R: usize> {
    stream: &'a mut Rows<L, R>,
    operation: Operation,
}

impl<L: Lanes, const R: usize> Task<L> for Turn<'_, L, R> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: L::Room) {
        let stream = self.stream;
        let factor = match self.operation {
            Operation::Square => &stream.factors.x,
            Operation::Multiply => &stream.factors.y,
        };
        let rows = &L::flatten(&factor.0)[..stream.digits];
        let last = rows.len() - 1;
        let mut columns = Columns::zero(room);
        for row in &rows[..last] {
            columns.add_row(room, stream, L::splat(room, *row));
            columns.reduce(room);
        }
        columns.add_row(room, stream, L::splat(room, rows[last]));
        columns.finish(room, stream);
        columns.store(room, &mut stream.factors.x);
    }
}

/// The columns of a product while it is computed and reduced, row by row.
struct Columns<L, const R: usize> {
    /// The sums, from the column of this row on.
    sums: [L; R],
    /// The digit of the row before, in all lanes.
    digit: L,
    /// The quotients of the last two rows, in all lanes.
    quotients: [L; 2],
}

impl<L: Lanes, const R: usize> Columns<L, R> {
    #[inline(always)]
    fn zero(room: L::Room) -> Self {
        let zero = L::splat(room, 0);
        Columns { sums: [zero; R], digit: zero, quotients: [zero; 2] }
    }

    /// Adds what row `digit` brings to its column and those above: of four products the halves
    /// that belong here.
    ///
    /// The last quotient comes last, since it alone has to be waited for.
    #[inline(always)]
    fn add_row(&mut self, room: L::Room, stream: &Rows<L, R>, digit: L) {
        for block in 0..R {
            let x = L::load(room, &stream.factors.x.0[block]);
            let m1 = L::load(room, &stream.m1.0[block]);
            let [last, before] = self.quotients;
            let sum = L::splat(room, 0).madd52hi(m1, before);
            let sum = sum.madd52hi(x, self.digit).madd52lo(x, digit);
            self.sums[block] = self.sums[block].add(sum).madd52lo(m1, last);
        }
        self.digit = digit;
    }

    /// Goes on to the next column. What is in the lowest one above its digit is carried.
    #[inline(always)]
    fn advance(&mut self, room: L::Room) {
        let zero = L::splat(room, 0);
        let carry = self.sums[0].shr(DIGIT_BITS);
        for block in 0..R {
            let above = if block + 1 < R { self.sums[block + 1] } else { zero };
            self.sums[block] = above.shift_in(self.sums[block], L::LANES - 1);
        }
        self.sums[0] = self.sums[0].add(carry).select(FIRST, self.sums[0]);
    }

    /// Takes the lowest digit as quotient.
    #[inline(always)]
    fn reduce(&mut self, room: L::Room) {
        let quotient = self.sums[0].permute(L::splat(room, 0));
        self.quotients = [quotient, self.quotients[0]];
        self.advance(room);
    }

    /// Makes the lowest digit vanish by Montgomery's own quotient, which keeps the result of a
    /// reduction below 3·m, and adds what all rows have left for the columns above.
    #[inline(always)]
    fn finish(&mut self, room: L::Room, stream: &Rows<L, R>) {
        let zero = L::splat(room, 0);
        let lowest = self.sums[0].permute(zero);
        let quotient = zero.madd52lo(lowest, L::splat(room, stream.k0));
        for block in 0..R {
            let m = L::load(room, &stream.m.0[block]);
            self.sums[block] = self.sums[block].madd52lo(m, quotient);
        }
        self.advance(room);
        for block in 0..R {
            let x = L::load(room, &stream.factors.x.0[block]);
            let m = L::load(room, &stream.m.0[block]);
            let m1 = L::load(room, &stream.m1.0[block]);
            let sum = zero.madd52hi(x, self.digit).madd52hi(m1, self.quotients[0]);
            self.sums[block] = self.sums[block].madd52hi(m, quotient).add(sum);
        }
    }

    /// Stores the digits. What is above the 52 bits of one is of no consequence.
    ///
    /// Once every column has given what is above its digit to the next one, no more than one is
    /// left to be carried from any of them. Where this happens an addition tells: it carries over
    /// the lanes that would pass it on.
    #[inline(always)]
    fn store(&self, room: L::Room, target: &mut Number<L, R>) {
        let mask = L::splat(room, DIGIT_MASK);
        let lanes = (1 << L::LANES) - 1;
        let mut digits = self.sums;
        let (mut full, mut over) = (0u128, 0u128);
        let mut below = L::splat(room, 0);
        #[expect(clippy::needless_range_loop, reason = "a chain of iterators is not unrolled")]
        for block in 0..R {
            let carry = self.sums[block].shr(DIGIT_BITS);
            let digit = self.sums[block].and(mask).add(carry.shift_in(below, 1));
            below = carry;
            // One by one, or LLVM would gather them in a vector register.
            let bits = |mask: LaneMask| u128::from(hidden(u64::from(mask.bits()) & lanes));
            full |= bits(digit.equals(mask)) << (block * L::LANES);
            over |= bits(mask.less_than(digit)) << (block * L::LANES);
            digits[block] = digit;
        }
        let carried = ((over << 1) + full) ^ full;
        let one = L::splat(room, 1);
        for (block, (target, digit)) in target.0.iter_mut().zip(digits).enumerate() {
            let here = LaneMask::from_bits((carried >> (block * L::LANES)) as u8);
            *target = digit.add(one).select(here, digit).row();
        }
    }
}

#[cfg(test)]
mod tests {
    use widelane_cpu::{Ifma256, Ifma512, Policy};
    use widelane_testkit::random::Random;

    use super::*;
    use crate::lanes::{Ifma256x4, Ifma512x8};

    /// Carries columns.
    struct Carry<'a, L: Lanes, const R: usize> {
        columns: &'a Number<L, R>,
        target: &'a mut Number<L, R>,
    }

    impl<L: Lanes, const R: usize> Task<L> for Carry<'_, L, R> {
        type Output = ();

        #[inline(always)]
        fn run(self, room: L::Room) {
            let mut columns = Columns::zero(room);
            for (sum, words) in columns.sums.iter_mut().zip(&self.columns.0) {
                *sum = L::load(room, words);
            }
            columns.store(room, self.target);
        }
    }

    /// Columns full of carries that go on through digits that are all ones, and others.
    fn check_carries<L: Lanes, const R: usize, const D: usize>(room: L::Room) {
        let mut random = Random::new(D as u64);
        for _ in 0..1000 {
            let columns: [u64; D] = core::array::from_fn(|_| match random.below(8) {
                0 => 0,
                1 => DIGIT_MASK + 1,
                2 => random.next_u64() >> 3,
                3 => 1,
                _ => DIGIT_MASK,
            });
            let mut carry = 0;
            let wanted: [u64; D] = core::array::from_fn(|i| {
                carry += columns[i];
                let digit = carry & DIGIT_MASK;
                carry >>= DIGIT_BITS;
                digit
            });
            let mut target = Number::<L, R>::ZERO;
            L::call(room, Carry { columns: &Number::new(&columns), target: &mut target });
            assert_eq!(target.digits(), wanted, "{columns:x?}");
        }
    }

    #[test]
    fn carries_pass_through_any_number_of_full_digits() {
        if let Some(room) = Ifma512::enter(&Policy::open()) {
            check_carries::<Ifma512x8, 3, 24>(room);
            check_carries::<Ifma512x8, 5, 40>(room);
        }
        if let Some(room) = Ifma256::enter(&Policy::open()) {
            check_carries::<Ifma256x4, 5, 20>(room);
            check_carries::<Ifma256x4, 10, 40>(room);
        }
    }
}
