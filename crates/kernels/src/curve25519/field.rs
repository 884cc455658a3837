//! The field of curve25519 in lanes: integers modulo p = 2^255 − 19, five limbs of 51 bits.
//!
//! What a number may be used for is its type. Multiplications take an [`Element`], whose limbs are
//! carried, and make [`Columns`], which are not; two of them can be added or subtracted before the
//! carry, so that there is one carry for each operand of a multiplication and none besides.
//! `docs/design/curve25519.md` derives the bounds.

use super::limbs::Limbs;
use crate::digits::{CurveModulus, DIGIT_MASK};
use crate::divsteps::{Inversion, completed, excess_bits};
use crate::lanes::LaneMask;
use crate::registers::Task;

/// Bits of a limb.
pub(super) const LIMB_BITS: u32 = 51;
/// The largest limb of a number below 2^255.
pub(super) const LIMB_MASK: u64 = (1 << LIMB_BITS) - 1;
/// The limbs of p.
pub(super) const P: [u64; 5] = [LIMB_MASK - 18, LIMB_MASK, LIMB_MASK, LIMB_MASK, LIMB_MASK];

/// p for inversions, in digits of 52 bits.
const MODULUS: CurveModulus<5> =
    CurveModulus::new("7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffed");

/// A number whose limbs are carried: below 2^51 + 2^15.
#[derive(Clone, Copy)]
pub struct Element<L>(pub(super) [L; 5]);

/// A product whose limbs are still to be carried: below 2^59 − 2^14.
#[derive(Clone, Copy)]
pub(super) struct Columns<L>([L; 5]);

/// A sum or difference of products, below 2^61.
#[derive(Clone, Copy)]
pub(super) struct Sum<L>([L; 5]);

impl<L: Limbs> Element<L> {
    #[inline(always)]
    pub(super) fn room(self) -> L::Room {
        self.0[0].room()
    }

    /// The same number in all lanes; its limbs are below 2^51.
    #[inline(always)]
    pub(super) fn splat(room: L::Room, limbs: [u64; 5]) -> Self {
        let [l0, l1, l2, l3, l4] = limbs;
        Element([
            L::splat(room, l0),
            L::splat(room, l1),
            L::splat(room, l2),
            L::splat(room, l3),
            L::splat(room, l4),
        ])
    }

    /// A small number in all lanes.
    #[inline(always)]
    pub(super) fn small(room: L::Room, number: u64) -> Self {
        Self::splat(room, [number, 0, 0, 0, 0])
    }

    /// The number of 256 bits in four words, without its top bit.
    #[inline(always)]
    pub(super) fn from_words(words: [L; 4]) -> Self {
        let [w0, w1, w2, w3] = words;
        let mask = L::splat(w0.room(), LIMB_MASK);
        Element([
            w0.and(mask),
            w0.shr(51).or(w1.shl(13)).and(mask),
            w1.shr(38).or(w2.shl(26)).and(mask),
            w2.shr(25).or(w3.shl(39)).and(mask),
            w3.shr(12).and(mask),
        ])
    }

    /// The number modulo p in four words.
    #[inline(always)]
    pub(super) fn to_words(self) -> [L; 4] {
        let [l0, l1, l2, l3, l4] = self.reduced();
        [
            l0.or(l1.shl(51)),
            l1.shr(13).or(l2.shl(38)),
            l2.shr(26).or(l3.shl(25)),
            l3.shr(39).or(l4.shl(12)),
        ]
    }

    /// The limbs of the number modulo p, each below 2^51.
    #[inline(always)]
    fn reduced(self) -> [L; 5] {
        let room = self.0[0].room();
        let mask = L::splat(room, LIMB_MASK);
        // The quotient by p is 0 or 1 (the number is below 2^255 + 2^219), and it is 1 exactly if
        // adding 19 reaches 2^255.
        let [l0, l1, l2, l3, l4] = self.0;
        let carry = l0.add(L::splat(room, 19)).shr(LIMB_BITS);
        let carry = l1.add(carry).shr(LIMB_BITS);
        let carry = l2.add(carry).shr(LIMB_BITS);
        let carry = l3.add(carry).shr(LIMB_BITS);
        let quotient = l4.add(carry).shr(LIMB_BITS);
        let l0 = l0.add_nineteen_times(quotient);
        let l1 = l1.add(l0.shr(LIMB_BITS));
        let l2 = l2.add(l1.shr(LIMB_BITS));
        let l3 = l3.add(l2.shr(LIMB_BITS));
        let l4 = l4.add(l3.shr(LIMB_BITS));
        [l0.and(mask), l1.and(mask), l2.and(mask), l3.and(mask), l4.and(mask)]
    }

    /// In which lanes the number is zero modulo p.
    #[inline(always)]
    pub(super) fn is_zero(self) -> LaneMask {
        let [l0, l1, l2, l3, l4] = self.reduced();
        let zero = L::splat(l0.room(), 0);
        l0.or(l1).or(l2.or(l3)).or(l4).equals(zero)
    }

    /// In which lanes the number modulo p is odd.
    #[inline(always)]
    pub(super) fn is_odd(self) -> LaneMask {
        self.reduced()[0].shl(63).top_bit()
    }

    /// The product.
    #[inline(always)]
    pub(super) fn mul(self, other: Self) -> Columns<L> {
        Columns(L::product(self.0, other.0))
    }

    /// The product, sooner: for who has nothing else to do meanwhile.
    #[inline(always)]
    pub(super) fn mul_soon(self, other: Self) -> Columns<L> {
        Columns(L::product_soon(self.0, other.0))
    }

    /// The square.
    #[inline(always)]
    pub(super) fn square(self) -> Columns<L> {
        Columns(L::square(self.0))
    }

    /// The sum.
    #[inline(always)]
    pub(super) fn plus(self, other: Self) -> Sum<L> {
        Sum(each(self.0, other.0, L::add))
    }

    /// The difference.
    #[inline(always)]
    pub(super) fn minus(self, other: Self) -> Sum<L> {
        Columns(self.0).minus(Columns(other.0))
    }

    /// The number where the mask is set, `other` elsewhere.
    #[inline(always)]
    pub(super) fn select(self, mask: LaneMask, other: Self) -> Self {
        Element(each(self.0, other.0, |yes, no| yes.select(mask, no)))
    }

    /// The numbers of the lanes that `index` says.
    #[inline(always)]
    pub(super) fn permute(self, index: L) -> Self {
        Element(each(self.0, [index; 5], L::permute))
    }
}

impl<L: Limbs> From<Element<L>> for Columns<L> {
    #[inline(always)]
    fn from(element: Element<L>) -> Self {
        Columns(element.0)
    }
}

#[cfg(test)]
impl<L: Copy> Columns<L> {
    pub(super) fn columns(&self) -> [L; 5] {
        self.0
    }
}

impl<L: Limbs> Columns<L> {
    /// Carries every limb into the next one.
    #[inline(always)]
    pub(super) fn carry(self) -> Element<L> {
        carry(self.0)
    }

    /// The sum.
    #[inline(always)]
    pub(super) fn plus(self, other: Self) -> Sum<L> {
        Sum(each(self.0, other.0, L::add))
    }

    /// The difference.
    #[inline(always)]
    pub(super) fn minus(self, other: Self) -> Sum<L> {
        Sum(each(plus_multiple_of_p::<8, L>(self.0), other.0, L::sub))
    }

    /// The sum where the mask is set, and elsewhere what `other` has more.
    #[inline(always)]
    pub(super) fn plus_or_from(self, mask: LaneMask, other: Self) -> Sum<L> {
        let (sum, difference) = (self.plus(other), other.minus(self));
        Sum(each(sum.0, difference.0, |yes, no| yes.select(mask, no)))
    }

    /// The number where the mask is set, `other` elsewhere.
    #[inline(always)]
    pub(super) fn select(self, mask: LaneMask, other: Self) -> Self {
        Columns(each(self.0, other.0, |yes, no| yes.select(mask, no)))
    }

    /// The numbers of the lanes that `index` says.
    #[inline(always)]
    pub(super) fn permute(self, index: L) -> Self {
        Columns(each(self.0, [index; 5], L::permute))
    }

    /// The difference to twice the other product.
    #[inline(always)]
    pub(super) fn minus_twice(self, other: Self) -> Sum<L> {
        let twice = each(other.0, other.0, L::add);
        Sum(each(plus_multiple_of_p::<9, L>(self.0), twice, L::sub))
    }

    /// The sum with `factor`·element, factor < 2^18.
    #[inline(always)]
    pub(super) fn plus_small(self, factor: u64, element: Element<L>) -> Sum<L> {
        Sum(L::add_multiple(self.0, factor, element.0))
    }
}

impl<L: Limbs> Sum<L> {
    /// Carries every limb into the next one.
    #[inline(always)]
    pub(super) fn carry(self) -> Element<L> {
        carry(self.0)
    }
}

/// Squares a number `count` times.
struct SquareTimes<L> {
    element: Element<L>,
    count: usize,
}

impl<L: Limbs> Task<L> for SquareTimes<L> {
    type Output = Element<L>;

    #[inline(always)]
    fn run(self, _room: L::Room) -> Element<L> {
        let mut element = self.element;
        for _ in 0..self.count {
            element = element.square().carry();
        }
        element
    }
}

/// Computes the power 2^250 − 1, of which the exponent that matters is made.
struct LongPower<L>(Element<L>);

impl<L: Limbs> Task<L> for LongPower<L> {
    type Output = Element<L>;

    #[inline(always)]
    fn run(self, _room: L::Room) -> Self::Output {
        let LongPower(x) = self;
        let x2 = x.square().carry();
        let x9 = x2.square_times(2).mul(x).carry();
        let x11 = x9.mul(x2).carry();
        // Of 2^n − 1 each, as n grows.
        let x5 = x11.square().carry().mul(x9).carry();
        let x10 = x5.square_times(5).mul(x5).carry();
        let x20 = x10.square_times(10).mul(x10).carry();
        let x40 = x20.square_times(20).mul(x20).carry();
        let x50 = x40.square_times(10).mul(x10).carry();
        let x100 = x50.square_times(50).mul(x50).carry();
        let x200 = x100.square_times(100).mul(x100).carry();
        x200.square_times(50).mul(x50).carry()
    }
}

/// Inverts a number by divsteps.
struct Invert<L>(Element<L>);

impl<L: Limbs> Task<L> for Invert<L> {
    type Output = Element<L>;

    #[inline(always)]
    fn run(self, room: L::Room) -> Element<L> {
        const BITS: usize = MODULUS.bits();
        let number = digits_of_words(self.0.to_words());
        let [inversion] = completed([Inversion::of(number, &const { MODULUS })], BITS);
        let quotient = Sum(limbs_of_digits(inversion.quotient())).carry();
        quotient.mul(Element::small(room, const { 1 << excess_bits(BITS) })).carry()
    }
}

/// Digits of 52 bits from four words.
#[inline(always)]
fn digits_of_words<L: Limbs>([w0, w1, w2, w3]: [L; 4]) -> [L; 5] {
    let mask = L::splat(w0.room(), DIGIT_MASK);
    [
        w0.and(mask),
        w0.shr(52).or(w1.shl(12)).and(mask),
        w1.shr(40).or(w2.shl(24)).and(mask),
        w2.shr(28).or(w3.shl(36)).and(mask),
        w3.shr(16),
    ]
}

/// Limbs, the highest of which has all that is left, from digits of 52 bits.
#[inline(always)]
fn limbs_of_digits<L: Limbs>([d0, d1, d2, d3, d4]: [L; 5]) -> [L; 5] {
    let mask = L::splat(d0.room(), LIMB_MASK);
    [
        d0.and(mask),
        d0.shr(51).or(d1.shl(1)).and(mask),
        d1.shr(50).or(d2.shl(2)).and(mask),
        d2.shr(49).or(d3.shl(3)).and(mask),
        d3.shr(48).or(d4.shl(4)),
    ]
}

impl<L: Limbs> Element<L> {
    /// The number to the power 2^count.
    #[inline(always)]
    fn square_times(self, count: usize) -> Self {
        L::call(self.room(), SquareTimes { element: self, count })
    }

    /// 1/self, or zero for zero.
    #[inline(always)]
    pub(super) fn invert(self) -> Self {
        L::call(self.room(), Invert(self))
    }

    /// The power (p − 5) / 8 = 2^252 − 3.
    #[inline(always)]
    pub(super) fn power_p_minus_5_over_8(self) -> Self {
        L::call(self.room(), LongPower(self)).square_times(2).mul(self).carry()
    }
}

#[inline(always)]
fn carry<L: Limbs>(columns: [L; 5]) -> Element<L> {
    let room = columns[0].room();
    let mask = L::splat(room, LIMB_MASK);
    let [l0, l1, l2, l3, l4] = columns.map(|column| column.and(mask));
    let [h0, h1, h2, h3, h4] = columns.map(|column| column.shr(LIMB_BITS));
    Element([l0.add_nineteen_times(h4), l1.add(h0), l2.add(h1), l3.add(h2), l4.add(h3)])
}

/// Adds p·2^BITS, so that something as large can be subtracted.
#[inline(always)]
fn plus_multiple_of_p<const BITS: u32, L: Limbs>(columns: [L; 5]) -> [L; 5] {
    let room = columns[0].room();
    each(columns, P, |column, limb| column.add(L::splat(room, limb << BITS)))
}

/// Applies `operation` to limb after limb.
#[inline(always)]
pub(super) fn each<A: Copy, B: Copy, C>(
    a: [A; 5],
    b: [B; 5],
    operation: impl Fn(A, B) -> C,
) -> [C; 5] {
    [
        operation(a[0], b[0]),
        operation(a[1], b[1]),
        operation(a[2], b[2]),
        operation(a[3], b[3]),
        operation(a[4], b[4]),
    ]
}
