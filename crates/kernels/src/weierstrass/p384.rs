//! P-384 (FIPS 186-5, SP 800-186): the curve's numbers and its reduction.

use super::curve::Curve;
use super::element::{Columns, Element, Field, Prime, Product, reduce_dense};
use super::numbers::{self, Numbers};
use super::scalar::window_count;
use super::table::Table;
use crate::digits::{CurveModulus, DIGIT_MASK};
use crate::lanes::Lanes;

/// The curve P-384, also called secp384r1.
#[derive(Clone, Copy, Debug)]
pub struct P384;

/// p = 2^384 − 2^128 − 2^96 + 2^32 − 1.
pub struct P384Field;

/// n, the number of points.
pub struct P384Order;

impl Curve<8> for P384 {
    type Field = P384Field;
    type Order = P384Order;
    const NUMBERS: &'static Numbers = &numbers::P384;
    const B: [u64; 8] = P384Field::MODULUS.element(numbers::P384.b);

    #[inline(always)]
    fn base_row(window: usize, coordinate: usize, digit: usize) -> &'static [[u64; 16]] {
        &TABLE.0[window][coordinate][digit]
    }
}

/// The generator's table: 260 KiB.
static TABLE: Table<{ window_count(numbers::P384.bits, numbers::P384.base_window) }, 8, 2> =
    Table(include!(concat!(env!("OUT_DIR"), "/P384.rs")));

impl Prime<8> for P384Field {
    const MODULUS: CurveModulus<8> = CurveModulus::new(numbers::P384.p);

    /// p·(2^32 + 1) is −1 modulo 2^52, so that each quotient but the last is the column itself and
    /// adds (p·(2^32 + 1) + 1)/2^52 = 2^12 − 2^44 − 2^(52+25) − 2^(104+4) + 2^(312+20) + 2^364
    /// above it. The last quotient is Montgomery's own, for the bound.
    #[inline(always)]
    fn reduce<L: Lanes>(mut product: Product<Self, L, 8>) -> Columns<Self, L, 8> {
        let room = product.low[0].room();
        let mask = L::splat(room, DIGIT_MASK);
        // Negative constants have a 2^52 added, which is taken off again one digit higher.
        let first = L::splat(room, (1 << 52) - (1 << 44) + (1 << 12));
        let second = L::splat(room, (1 << 52) - (1 << 25) - 1);
        let top = L::splat(room, 1 << 20);
        each_digit!(@ i => {
            let column = product.low[i];
            let quotient = column.and(mask);
            product.update(i + 1, |sum| sum.add(column.shr_signed(52)));
            product.add_product(i + 1, column, first);
            product.add_product(i + 2, column, second);
            product.update(i + 3, |sum| sum.sub(quotient).sub(quotient.shl(4)));
            product.add_product(i + 7, column, top);
            product.update(i + 8, |sum| sum.add(quotient));
        }; 0 1 2 3 4 5 6);

        let column = product.low[7];
        let quotient = column.add(column.shl(32)).and(mask);
        let lowest = L::splat(room, (1 << 32) - 1);
        let first = L::splat(room, (1 << 52) - (1 << 44));
        let second = L::splat(room, (1 << 52) - (1 << 24) - 1);
        product.add_product(7, quotient, lowest);
        let carry = product.low[7].shr_signed(52);
        product.update(8, |sum| sum.add(carry));
        product.add_product(8, quotient, first);
        product.add_product(9, quotient, second);
        product.update(10, |sum| sum.sub(quotient));
        product.add_product(14, quotient, top);
        Columns::from_digits(product.high)
    }
}

impl Field<8> for P384Field {
    /// Bits 384 and above, less one so that the result is not negative, are worth
    /// 2^128 + 2^96 − 2^32 + 1 each.
    #[inline(always)]
    fn settle<L: Lanes>(columns: Columns<Self, L, 8>) -> Element<Self, L, 8> {
        let [c0, c1, c2, c3, c4, c5, c6, c7] = columns.0;
        let room = c0.room();
        let excess = c7.shr_signed(20).sub(L::splat(room, 1));
        let kept = c7.and(L::splat(room, (1 << 20) - 1)).or(L::splat(room, 1 << 20));
        Columns::from_digits([
            c0.add(excess).sub(excess.shl(32)),
            c1.add(excess.shl(44)),
            c2.add(excess.shl(24)),
            c3,
            c4,
            c5,
            c6,
            kept,
        ])
        .carry()
    }
}

impl Prime<8> for P384Order {
    const MODULUS: CurveModulus<8> = CurveModulus::new(numbers::P384.n);

    #[inline(always)]
    fn reduce<L: Lanes>(product: Product<Self, L, 8>) -> Columns<Self, L, 8> {
        reduce_dense(product)
    }
}
