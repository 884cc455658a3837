//! P-256 (FIPS 186-5, SP 800-186): the curve's numbers and its reduction.

use super::curve::Curve;
use super::element::{Columns, Element, Field, Prime, Product, reduce_dense};
use super::numbers::{self, Numbers};
use super::scalar::window_count;
use super::table::Table;
use crate::digits::{CurveModulus, DIGIT_MASK};
use crate::lanes::Lanes;

/// The curve P-256, also called secp256r1 and prime256v1.
#[derive(Clone, Copy, Debug)]
pub struct P256;

/// p = 2^256 − 2^224 + 2^192 + 2^96 − 1.
pub struct P256Field;

/// n, the number of points.
pub struct P256Order;

impl Curve<5> for P256 {
    type Field = P256Field;
    type Order = P256Order;
    const NUMBERS: &'static Numbers = &numbers::P256;
    const B: [u64; 5] = P256Field::MODULUS.element(numbers::P256.b);

    #[inline(always)]
    fn base_row(window: usize, coordinate: usize, digit: usize) -> &'static [[u64; 16]] {
        &TABLE.0[window][coordinate][digit]
    }
}

/// The generator's table: 185 KiB.
static TABLE: Table<{ window_count(numbers::P256.bits, numbers::P256.base_window) }, 5, 4> =
    Table(include!(concat!(env!("OUT_DIR"), "/P256.rs")));

impl Prime<5> for P256Field {
    const MODULUS: CurveModulus<5> = CurveModulus::new(numbers::P256.p);

    /// p = −1 modulo 2^96, so that each quotient is the column itself and adds
    /// (p + 1)/2^52 = 2^44 + 2^(104+36) + (2^48 − 2^16)·2^156 above it.
    #[inline(always)]
    fn reduce<L: Lanes>(mut product: Product<Self, L, 5>) -> Columns<Self, L, 5> {
        let room = product.low[0].room();
        let low = L::splat(room, 1 << 44);
        let middle = L::splat(room, 1 << 36);
        let top = L::splat(room, (1 << 48) - (1 << 16));
        const D: usize = 5;
        each_digit!(D, i => {
            let quotient = product.low[i];
            product.update(i + 1, |column| column.add(quotient.shr_signed(52)));
            product.add_product(i + 1, quotient, low);
            product.add_product(i + 3, quotient, middle);
            product.add_product(i + 4, quotient, top);
        });
        Columns::from_digits(product.high)
    }
}

impl Field<5> for P256Field {
    /// Bits 256 and above, less one so that the result is not negative, are worth
    /// 2^224 − 2^192 − 2^96 + 1 each.
    #[inline(always)]
    fn settle<L: Lanes>(columns: Columns<Self, L, 5>) -> Element<Self, L, 5> {
        let [c0, c1, c2, c3, c4] = columns.0;
        let room = c0.room();
        let excess = c4.shr_signed(48).sub(L::splat(room, 1));
        let kept = c4.and(L::splat(room, DIGIT_MASK >> 4)).or(L::splat(room, 1 << 48));
        Columns::from_digits([
            c0.add(excess),
            c1.sub(excess.shl(44)),
            c2,
            c3.sub(excess.shl(36)),
            kept.add(excess.shl(16)),
        ])
        .carry()
    }
}

impl Prime<5> for P256Order {
    const MODULUS: CurveModulus<5> = CurveModulus::new(numbers::P256.n);

    #[inline(always)]
    fn reduce<L: Lanes>(product: Product<Self, L, 5>) -> Columns<Self, L, 5> {
        reduce_dense(product)
    }
}
