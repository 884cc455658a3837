//! Scalar multiplication: of the generator by a comb of tables, of any point by signed windows.

use super::curve::Curve;
use super::element::Element;
use super::point::{Add, Affine, Double, Jacobian};
use super::scalar::{Windows, window_count};
use crate::lanes::{LaneMask, Lanes};
use crate::registers::Task;

/// Computes k·G for a canonical scalar k, and where the product is infinity (where k is zero).
///
/// Goes from the lowest window up, so that the sum so far is always nearer to zero than the entry
/// that is added: the two are never equal or opposite (`docs/design/nist-curves.md`).
pub(super) struct MultiplyBase<C: Curve<D>, L, const D: usize>(pub Element<C::Order, L, D>);

impl<C: Curve<D>, L: Lanes, const D: usize> Task<L> for MultiplyBase<C, L, D> {
    type Output = (Jacobian<C, L, D>, LaneMask);

    #[inline(always)]
    fn run(self, room: L::Room) -> Self::Output {
        let windows = Windows::new(self.0, C::BASE_WINDOW);
        let zero = L::splat(room, 0);
        let mut sum = base_entry(room, 0, zero).jacobian();
        let mut infinite = LaneMask::ALL;
        for window in 0..window_count(8 * C::BYTES, C::BASE_WINDOW) {
            let (magnitude, negative) = windows.digit(room, window);
            let entry = base_entry(room, window, magnitude);
            add_entry(&mut sum, &mut infinite, entry, magnitude, negative);
        }
        (sum, infinite)
    }
}

/// Adds the entry for a digit to a sum, or its opposite where the digit is negative.
#[inline(always)]
pub(super) fn add_entry<C: Curve<D>, L: Lanes, const D: usize>(
    sum: &mut Jacobian<C, L, D>,
    infinite: &mut LaneMask,
    entry: Affine<C, L, D>,
    magnitude: L,
    negative: LaneMask,
) {
    let entry = Affine { x: entry.x, y: entry.y.negated(negative) };
    let none = magnitude.equals(L::splat(magnitude.room(), 0));
    let next = entry.jacobian().select(*infinite, sum.plus_affine(entry));
    *sum = sum.select(none, next);
    *infinite = *infinite & none;
}

/// The entry for a digit of a window; some entry for zero.
#[inline(always)]
pub(super) fn base_entry<C: Curve<D>, L: Lanes, const D: usize>(
    room: L::Room,
    window: usize,
    magnitude: L,
) -> Affine<C, L, D> {
    let index = magnitude.sub(L::splat(room, 1));
    let zero = L::splat(room, 0);
    let (mut x, mut y) = ([zero; D], [zero; D]);
    for digit in 0..D {
        x[digit] = pick(C::base_row(window, 0, digit), index);
        y[digit] = pick(C::base_row(window, 1, digit), index);
    }
    Affine { x: Element::from_digits(x), y: Element::from_digits(y) }
}

/// The entries that `index` says, modulo their number: 32 or 64, in rows of 16.
#[inline(always)]
fn pick<L: Lanes>(rows: &[[u64; 16]], index: L) -> L {
    let by_bit_4 = index.shl(59).top_bit();
    let low = L::pick(&rows[1], index).select(by_bit_4, L::pick(&rows[0], index));
    if rows.len() == 2 {
        return low;
    }
    let high = L::pick(&rows[3], index).select(by_bit_4, L::pick(&rows[2], index));
    high.select(index.shl(58).top_bit(), low)
}

/// Bits of a scalar that one entry of a point's table stands for.
const WINDOW_BITS: usize = 5;
/// Multiples of a point in its table.
const ENTRIES: usize = 1 << (WINDOW_BITS - 1);

/// Computes k·Q for a canonical scalar k other than zero and a point Q that is not infinity.
///
/// The sum so far is a multiple of 32 and the entry at most 16 times Q, so that the two are never
/// equal or opposite (`docs/design/nist-curves.md`).
pub(super) struct Multiply<C: Curve<D>, L, const D: usize> {
    pub scalar: Element<C::Order, L, D>,
    pub point: Affine<C, L, D>,
}

impl<C: Curve<D>, L: Lanes, const D: usize> Task<L> for Multiply<C, L, D> {
    type Output = Jacobian<C, L, D>;

    #[inline(always)]
    fn run(self, room: L::Room) -> Self::Output {
        let windows = Windows::new(self.scalar, WINDOW_BITS);
        let table = multiples(room, self.point);
        let zero = L::splat(room, 0);
        let mut sum = table[0];
        let mut infinite = LaneMask::ALL;
        for window in (0..window_count(8 * C::BYTES, WINDOW_BITS)).rev() {
            L::call(room, Double { point: &mut sum, times: WINDOW_BITS });
            let (magnitude, negative) = windows.digit(room, window);
            let mut entry = entry(room, &table, magnitude);
            entry.y = entry.y.negated(negative);
            let none = magnitude.equals(zero);
            let mut next = sum;
            L::call(room, Add { point: &mut next, addend: &entry });
            sum = sum.select(none, entry.select(infinite, next));
            infinite = infinite & none;
        }
        sum
    }
}

/// The multiples 1 to 16 of a point.
#[inline(always)]
fn multiples<C: Curve<D>, L: Lanes, const D: usize>(
    room: L::Room,
    point: Affine<C, L, D>,
) -> [Jacobian<C, L, D>; ENTRIES] {
    let point = point.jacobian();
    let mut table = [point; ENTRIES];
    for half in 1..=ENTRIES / 2 {
        let mut multiple = table[half - 1];
        L::call(room, Double { point: &mut multiple, times: 1 });
        table[2 * half - 1] = multiple;
        if 2 * half < ENTRIES {
            L::call(room, Add { point: &mut multiple, addend: &point });
            table[2 * half] = multiple;
        }
    }
    table
}

/// The entry for a digit, read by reading all; some entry for zero.
#[inline(always)]
fn entry<C: Curve<D>, L: Lanes, const D: usize>(
    room: L::Room,
    table: &[Jacobian<C, L, D>; ENTRIES],
    magnitude: L,
) -> Jacobian<C, L, D> {
    let mut entry = table[0];
    for (index, candidate) in table.iter().enumerate().skip(1) {
        let wanted = magnitude.equals(L::splat(room, index as u64 + 1));
        entry = candidate.select(wanted, entry);
    }
    entry
}
