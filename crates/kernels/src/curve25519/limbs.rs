//! Products of numbers modulo 2^255 − 19 in five limbs of 51 bits, which the rooms compute in two
//! ways: by multiply-adds of integers, or by those of double-precision numbers.
//!
//! All take limbs below 2^51 + 2^15, and make columns below 2^59 − 2^14. Those from 2^255 up are
//! taken in already, times 19. `docs/design/curve25519.md` derives the bounds.

use widelane_cpu::Fma256;

use super::field::{LIMB_BITS, each};
use crate::lanes::fma256_x4::{Doubles, Row, SHORT_HIGH, SHORT_LOW};
use crate::lanes::{Fma256x4, Ifma256x4, Ifma512x8, Lanes, Portable};
use crate::registers::Register;

/// Doubles columns in place.
macro_rules! double {
    ($($column:ident),*) => {
        $(let $column = $column.add($column);)*
    };
}

/// A register that multiplies limbs. What is provided takes multiply-adds of integers.
pub trait Limbs: Lanes {
    /// The product.
    #[inline(always)]
    fn product(a: [Self; 5], b: [Self; 5]) -> [Self; 5] {
        let [a0, a1, a2, a3, a4] = a;
        let [b0, b1, b2, b3, b4] = b;
        let zero = Self::splat(a0.room(), 0);
        // High halves count twice where they arrive, because a limb is one bit short of a half.
        let c1 = zero.madd52hi(a0, b0);
        let c2 = zero.madd52hi(a0, b1);
        let c3 = zero.madd52hi(a0, b2);
        let c4 = zero.madd52hi(a0, b3);
        let c5 = zero.madd52hi(a0, b4);
        let c2 = c2.madd52hi(a1, b0);
        let c3 = c3.madd52hi(a1, b1);
        let c4 = c4.madd52hi(a1, b2);
        let c5 = c5.madd52hi(a1, b3);
        let c6 = zero.madd52hi(a1, b4);
        let c3 = c3.madd52hi(a2, b0);
        let c4 = c4.madd52hi(a2, b1);
        let c5 = c5.madd52hi(a2, b2);
        let c6 = c6.madd52hi(a2, b3);
        let c7 = zero.madd52hi(a2, b4);
        let c4 = c4.madd52hi(a3, b0);
        let c5 = c5.madd52hi(a3, b1);
        let c6 = c6.madd52hi(a3, b2);
        let c7 = c7.madd52hi(a3, b3);
        let c8 = zero.madd52hi(a3, b4);
        let c5 = c5.madd52hi(a4, b0);
        let c6 = c6.madd52hi(a4, b1);
        let c7 = c7.madd52hi(a4, b2);
        let c8 = c8.madd52hi(a4, b3);
        let c9 = zero.madd52hi(a4, b4);
        double!(c1, c2, c3, c4, c5, c6, c7, c8, c9);
        let c4 = c4.madd52lo(a4, b0);
        let c5 = c5.madd52lo(a4, b1);
        let c6 = c6.madd52lo(a4, b2);
        let c7 = c7.madd52lo(a4, b3);
        let c8 = c8.madd52lo(a4, b4);
        let c3 = c3.madd52lo(a3, b0);
        let c4 = c4.madd52lo(a3, b1);
        let c5 = c5.madd52lo(a3, b2);
        let c6 = c6.madd52lo(a3, b3);
        let c7 = c7.madd52lo(a3, b4);
        let c2 = c2.madd52lo(a2, b0);
        let c3 = c3.madd52lo(a2, b1);
        let c4 = c4.madd52lo(a2, b2);
        let c5 = c5.madd52lo(a2, b3);
        let c6 = c6.madd52lo(a2, b4);
        let c1 = c1.madd52lo(a1, b0);
        let c2 = c2.madd52lo(a1, b1);
        let c3 = c3.madd52lo(a1, b2);
        let c4 = c4.madd52lo(a1, b3);
        let c5 = c5.madd52lo(a1, b4);
        let c0 = zero.madd52lo(a0, b0);
        let c1 = c1.madd52lo(a0, b1);
        let c2 = c2.madd52lo(a0, b2);
        let c3 = c3.madd52lo(a0, b3);
        let c4 = c4.madd52lo(a0, b4);
        fold([c0, c1, c2, c3, c4], [c5, c6, c7, c8, c9])
    }

    /// The product, sooner: low and high halves are summed apart, so that no chain of multiply-adds
    /// is longer than five. For callers that have nothing else to compute meanwhile.
    #[inline(always)]
    fn product_soon(a: [Self; 5], b: [Self; 5]) -> [Self; 5] {
        let zero = Self::splat(a[0].room(), 0);
        let (mut low, mut high) = ([zero; 10], [zero; 10]);
        for (i, a) in a.into_iter().enumerate() {
            for (j, b) in b.into_iter().enumerate() {
                low[i + j] = low[i + j].madd52lo(a, b);
                high[i + j + 1] = high[i + j + 1].madd52hi(a, b);
            }
        }
        let column = |index: usize| low[index].add(high[index].add(high[index]));
        fold_soon(
            [column(0), column(1), column(2), column(3), column(4)],
            [column(5), column(6), column(7), column(8), column(9)],
        )
    }

    /// The square.
    #[inline(always)]
    fn square(a: [Self; 5]) -> [Self; 5] {
        let [a0, a1, a2, a3, a4] = a;
        let zero = Self::splat(a0.room(), 0);
        // High halves of unequal limbs count four times, of equal ones twice.
        let c2 = zero.madd52hi(a0, a1);
        let c3 = zero.madd52hi(a0, a2);
        let c4 = zero.madd52hi(a0, a3);
        let c5 = zero.madd52hi(a0, a4);
        let c4 = c4.madd52hi(a1, a2);
        let c5 = c5.madd52hi(a1, a3);
        let c6 = zero.madd52hi(a1, a4);
        let c6 = c6.madd52hi(a2, a3);
        let c7 = zero.madd52hi(a2, a4);
        let c8 = zero.madd52hi(a3, a4);
        double!(c2, c3, c4, c5, c6, c7, c8);
        let c1 = zero.madd52hi(a0, a0);
        let c3 = c3.madd52hi(a1, a1);
        let c5 = c5.madd52hi(a2, a2);
        let c7 = c7.madd52hi(a3, a3);
        let c9 = zero.madd52hi(a4, a4);
        let c1 = c1.madd52lo(a0, a1);
        let c2 = c2.madd52lo(a0, a2);
        let c3 = c3.madd52lo(a0, a3);
        let c4 = c4.madd52lo(a0, a4);
        let c3 = c3.madd52lo(a1, a2);
        let c4 = c4.madd52lo(a1, a3);
        let c5 = c5.madd52lo(a1, a4);
        let c5 = c5.madd52lo(a2, a3);
        let c6 = c6.madd52lo(a2, a4);
        let c7 = c7.madd52lo(a3, a4);
        double!(c1, c2, c3, c4, c5, c6, c7, c8, c9);
        let c0 = zero.madd52lo(a0, a0);
        let c2 = c2.madd52lo(a1, a1);
        let c4 = c4.madd52lo(a2, a2);
        let c6 = c6.madd52lo(a3, a3);
        let c8 = c8.madd52lo(a4, a4);
        fold([c0, c1, c2, c3, c4], [c5, c6, c7, c8, c9])
    }

    /// c + `factor`·a for columns c of a product and a factor below 2^18; below 2^60.
    #[inline(always)]
    fn add_multiple(c: [Self; 5], factor: u64, a: [Self; 5]) -> [Self; 5] {
        let room = c[0].room();
        let (zero, factor) = (Self::splat(room, 0), Self::splat(room, factor));
        let ([c0, c1, c2, c3, c4], [a0, a1, a2, a3, a4]) = (c, a);
        let h0 = zero.madd52hi(a0, factor);
        let h1 = zero.madd52hi(a1, factor);
        let h2 = zero.madd52hi(a2, factor);
        let h3 = zero.madd52hi(a3, factor);
        let h4 = zero.madd52hi(a4, factor);
        double!(h0, h1, h2, h3, h4);
        [
            c0.madd52lo(a0, factor).add_nineteen_times(h4),
            c1.madd52lo(a1, factor).add(h0),
            c2.madd52lo(a2, factor).add(h1),
            c3.madd52lo(a3, factor).add(h2),
            c4.madd52lo(a4, factor).add(h3),
        ]
    }

    /// self + 19·number, for a number below 2^32.
    #[inline(always)]
    fn add_nineteen_times(self, number: Self) -> Self {
        self.madd52lo(number, Self::splat(self.room(), 19))
    }
}

impl Limbs for Ifma512x8 {}
impl Limbs for Ifma256x4 {}
impl Limbs for Portable {}

/// Takes in the columns from 2^255 up, times 19.
#[inline(always)]
fn fold<L: Lanes>(low: [L; 5], high: [L; 5]) -> [L; 5] {
    let nineteen = L::splat(low[0].room(), 19);
    each(low, high, |low, high| low.add(high.mul(nineteen)))
}

/// The same without VPMULLQ, whose product takes 15 steps on Intel's cores. The compiler would make
/// one of two shifts again; a rotation, of numbers below 2^60, it leaves as it is.
#[inline(always)]
fn fold_soon<L: Lanes>(low: [L; 5], high: [L; 5]) -> [L; 5] {
    each(low, high, |low, high| {
        let times_16 = high.shl(4).or(high.shr(u64::BITS - 4));
        low.add(high).add(high.add(high).add(times_16))
    })
}

/// By double-precision numbers. Both halves of a product come together, as multiples of 2^51 and
/// of 1, so that none of them counts twice.
impl Limbs for Fma256x4 {
    #[inline(always)]
    fn product(a: [Self; 5], b: [Self; 5]) -> [Self; 5] {
        let room = a[0].room();
        let (a, b) = (numbers(a), rows(b));
        let mut columns = load(room, &const { begin(false) });
        each_digit!(@ i => each_digit!(@ j => {
            add_product(&mut columns, i + j, a[i], &b[j]);
        }; 0 1 2 3 4); 0 1 2 3 4);
        folded(columns)
    }

    #[inline(always)]
    fn product_soon(a: [Self; 5], b: [Self; 5]) -> [Self; 5] {
        Self::product(a, b)
    }

    #[inline(always)]
    fn square(a: [Self; 5]) -> [Self; 5] {
        let room = a[0].room();
        let (a, rows) = (numbers(a), rows(a));
        let mut columns = load(room, &const { begin(true) });
        each_digit!(@ i => each_digit!(@ j => if i < j {
            add_product(&mut columns, i + j, a[i], &rows[j]);
        }; 0 1 2 3 4); 0 1 2 3 4);
        for column in &mut columns {
            *column = column.add(*column);
        }
        each_digit!(@ i => add_product(&mut columns, 2 * i, a[i], &rows[i]); 0 1 2 3 4);
        folded(columns)
    }

    #[inline(always)]
    fn add_multiple(c: [Self; 5], factor: u64, a: [Self; 5]) -> [Self; 5] {
        let room = c[0].room();
        let (a, factor) = (rows(a), Self::splat(room, factor).to_numbers());
        let mut columns = load(room, &const { begin_of_multiple() });
        each_digit!(@ i => add_product(&mut columns, i, factor, &a[i]); 0 1 2 3 4);
        let [m0, m1, m2, m3, m4, m5, ..] = columns;
        each(c, [m0.add_nineteen_times(m5), m1, m2, m3, m4], Self::add)
    }

    #[inline(always)]
    fn add_nineteen_times(self, number: Self) -> Self {
        self.add(number.mul_low(Self::splat(self.room(), 19)))
    }
}

/// Limbs as double-precision numbers.
#[inline(always)]
fn numbers(limbs: [Fma256x4; 5]) -> [Doubles; 5] {
    let [l0, l1, l2, l3, l4] = limbs;
    [l0.to_numbers(), l1.to_numbers(), l2.to_numbers(), l3.to_numbers(), l4.to_numbers()]
}

/// The same in memory.
#[inline(always)]
fn rows(limbs: [Fma256x4; 5]) -> [Row; 5] {
    let mut rows = [Row::ZERO; 5];
    for (row, number) in rows.iter_mut().zip(numbers(limbs)) {
        row.store(number);
    }
    rows
}

/// The same words in all lanes of each column.
#[inline(always)]
fn load(room: Fma256, columns: &[u64; 10]) -> [Fma256x4; 10] {
    let mut registers = [Fma256x4::splat(room, 0); 10];
    for (register, column) in registers.iter_mut().zip(columns) {
        *register = Fma256x4::splat(room, *column);
    }
    registers
}

/// Adds the low half of a product to a column, and the high half to the next one.
#[inline(always)]
fn add_product(columns: &mut [Fma256x4; 10], index: usize, a: Doubles, b: &Row) {
    let sums = [columns[index], columns[index + 1]];
    [columns[index], columns[index + 1]] = Fma256x4::add_short_product(sums, a, b);
}

/// Takes in the columns from 2^255 up, times 19; the highest one may be negative.
#[inline(always)]
fn folded([c0, c1, c2, c3, c4, c5, c6, c7, c8, c9]: [Fma256x4; 10]) -> [Fma256x4; 5] {
    each([c0, c1, c2, c3, c4], [c5, c6, c7, c8, c9], |low, high| {
        low.add(high).add(high.add(high).add(high.shl(4)))
    })
}

/// A multiple of 2^51, added to a column to keep it positive: its low halves, at most five, are
/// together above −2^53.
const POSITIVE: u64 = 1 << 53;
/// The same amount in units of the next column, from which it is subtracted.
const POSITIVE_CARRY: u64 = POSITIVE >> LIMB_BITS;

/// By how much the bit patterns of so many low and high halves exceed the halves themselves.
const fn excess(low: usize, high: usize) -> u64 {
    SHORT_LOW.wrapping_mul(low as u64).wrapping_add(SHORT_HIGH.wrapping_mul(high as u64))
}

/// How many limbs i have a limb j with i + j = `column`.
const fn pairs(column: usize) -> usize {
    if column < 5 { column + 1 } else { 9_usize.saturating_sub(column) }
}

/// The initial columns of a product or a square. Those of a square are doubled after the products
/// of different limbs were added, and before the squares of limbs are.
const fn begin(is_square: bool) -> [u64; 10] {
    let (mut columns, mut index) = ([0; 10], 0);
    while index < 10 {
        let (low, high) = (pairs(index), if index > 0 { pairs(index - 1) } else { 0 });
        let positive = if index < 9 { POSITIVE } else { 0 };
        let carried = if index > 0 { POSITIVE_CARRY } else { 0 };
        let positive = positive.wrapping_sub(carried);
        columns[index] = if is_square {
            let squares = excess(low % 2, high % 2);
            // Both numbers are even.
            (positive.wrapping_sub(squares) / 2).wrapping_sub(excess(low / 2, high / 2))
        } else {
            positive.wrapping_sub(excess(low, high))
        };
        index += 1;
    }
    columns
}

/// The initial six columns of a product with one limb. The carry of the fifth one is subtracted
/// from the first one, times 19, and not from the sixth one, which so is never negative.
const fn begin_of_multiple() -> [u64; 10] {
    let (mut columns, mut index) = ([0; 10], 1);
    columns[0] = (POSITIVE - 19 * POSITIVE_CARRY).wrapping_sub(excess(1, 0));
    while index < 5 {
        columns[index] = (POSITIVE - POSITIVE_CARRY).wrapping_sub(excess(1, 1));
        index += 1;
    }
    columns[5] = 0u64.wrapping_sub(excess(0, 1));
    columns
}
