//! Points of a curve, one per lane, and the addition law where it needs no cases.

use super::curve::Curve;
use super::element::Element;
use crate::lanes::{LaneMask, Lanes};
use crate::registers::Task;

/// Coordinates of a curve.
pub(super) type Coordinate<C, L, const D: usize> = Element<<C as Curve<D>>::Field, L, D>;

/// A point (x, y) in each lane, never infinity.
pub(super) struct Affine<C: Curve<D>, L, const D: usize> {
    pub x: Coordinate<C, L, D>,
    pub y: Coordinate<C, L, D>,
}

/// A point (x/z², y/z³) in each lane; infinity where z is zero.
pub(super) struct Jacobian<C: Curve<D>, L, const D: usize> {
    pub x: Coordinate<C, L, D>,
    pub y: Coordinate<C, L, D>,
    pub z: Coordinate<C, L, D>,
}

impl<C: Curve<D>, L: Lanes, const D: usize> Clone for Affine<C, L, D> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<C: Curve<D>, L: Lanes, const D: usize> Copy for Affine<C, L, D> {}

impl<C: Curve<D>, L: Lanes, const D: usize> Clone for Jacobian<C, L, D> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<C: Curve<D>, L: Lanes, const D: usize> Copy for Jacobian<C, L, D> {}

impl<C: Curve<D>, L: Lanes, const D: usize> Affine<C, L, D> {
    /// self where the mask is set, other elsewhere.
    #[inline(always)]
    pub fn select(self, mask: LaneMask, other: Self) -> Self {
        Affine { x: self.x.select(mask, other.x), y: self.y.select(mask, other.y) }
    }

    /// The same point with z = 1.
    #[inline(always)]
    pub fn jacobian(self) -> Jacobian<C, L, D> {
        Jacobian { x: self.x, y: self.y, z: Element::one(self.x.room()) }
    }

    /// In which lanes the point satisfies the equation of the curve.
    #[inline(always)]
    pub fn is_on_curve(self) -> LaneMask {
        let Affine { x, y } = self;
        let b = Element::splat(x.room(), &C::B);
        // y² − (x² − 3)·x − b, where 3 is one three times over.
        let one = Element::one(x.room());
        let factor = x.squared().minus(one).minus(one).minus(one).settle();
        y.squared().minus(factor.times(x)).minus(b).settle().canonical().is_zero()
    }
}

impl<C: Curve<D>, L: Lanes, const D: usize> Jacobian<C, L, D> {
    /// 2·self; infinity stays infinity.
    #[inline(always)]
    pub fn doubled(self) -> Self {
        let Jacobian { x, y, z } = self;
        let delta = z.squared();
        let gamma = y.squared();
        let beta = x.times(gamma);
        let tangent = x.minus(delta).settle().product(x.plus(delta).settle()).reduce();
        let alpha = tangent.plus_columns(tangent).plus_columns(tangent).settle();
        let beta_4 = beta.columns().shl(2);
        let x3 = alpha.square().reduce().minus_columns(beta_4.shl(1)).settle();
        let y3 =
            alpha.product(beta_4.minus(x3).settle()).minus::<3>(gamma.square()).reduce().settle();
        let z3 = y.product(z).reduce().shl(1).settle();
        Jacobian { x: x3, y: y3, z: z3 }
    }

    /// self + other where neither is infinity and they differ in x, and r, the difference of y at
    /// some scale. Where x is the same, the sum is infinity; where r is zero, too, the points are
    /// equal.
    #[inline(always)]
    pub fn plus(self, other: Self) -> (Self, Coordinate<C, L, D>) {
        let other_zz = other.z.squared();
        let x1 = self.x.times(other_zz);
        let y1 = self.y.times(other_zz.times(other.z));
        let zz = self.z.squared();
        let h = other.x.product(zz).reduce().minus(x1).settle();
        let r = other.y.product(zz.times(self.z)).reduce().minus(y1).settle();
        let (x, y) = chord(x1, y1, h, r);
        (Jacobian { x, y, z: self.z.times(other.z).times(h) }, r)
    }

    /// self + other under the same conditions, for a point with z = 1.
    #[inline(always)]
    pub fn plus_affine(self, other: Affine<C, L, D>) -> Self {
        let zz = self.z.squared();
        let h = other.x.product(zz).reduce().minus(self.x).settle();
        let r = other.y.product(zz.times(self.z)).reduce().minus(self.y).settle();
        let (x, y) = chord(self.x, self.y, h, r);
        Jacobian { x, y, z: self.z.times(h) }
    }

    /// self + other for all points but other = infinity; `infinite` tells where self is infinity.
    #[inline(always)]
    pub fn plus_any(self, infinite: LaneMask, other: Self) -> Self {
        let room = self.x.room();
        let mut sum = self;
        let r = L::call(room, Add { point: &mut sum, addend: &other });
        // z is zero where the points have one x; they are equal where r is zero too.
        let equal = sum.z.canonical().is_zero() & r.canonical().is_zero();
        let mut doubled = other;
        L::call(room, Double { point: &mut doubled, times: 1 });
        other.select(infinite, doubled.select(equal, sum))
    }

    /// The point of lane `index` in each lane.
    #[inline(always)]
    pub fn permute(self, index: L) -> Self {
        Jacobian { x: self.x.permute(index), y: self.y.permute(index), z: self.z.permute(index) }
    }

    /// The point of one lane in all lanes.
    #[inline(always)]
    pub fn of_lane(self, lane: usize) -> Self {
        self.permute(L::splat(self.x.room(), lane as u64))
    }

    /// self where the mask is set, other elsewhere.
    #[inline(always)]
    pub fn select(self, mask: LaneMask, other: Self) -> Self {
        Jacobian {
            x: self.x.select(mask, other.x),
            y: self.y.select(mask, other.y),
            z: self.z.select(mask, other.z),
        }
    }

    /// (x, y), given the inverse of z.
    #[inline(always)]
    pub fn affine(self, z_inverse: Coordinate<C, L, D>) -> Affine<C, L, D> {
        let square = z_inverse.squared();
        Affine { x: self.x.times(square), y: self.y.times(square.times(z_inverse)) }
    }
}

/// The third point of a chord, less its z: `h` and `r` are the differences of x and y at one scale.
#[inline(always)]
fn chord<P: super::element::Field<D>, L: Lanes, const D: usize>(
    x1: Element<P, L, D>,
    y1: Element<P, L, D>,
    h: Element<P, L, D>,
    r: Element<P, L, D>,
) -> (Element<P, L, D>, Element<P, L, D>) {
    let hh = h.squared();
    let hhh = h.times(hh);
    let v = x1.times(hh);
    let x3 = r.square().reduce().minus(hhh).minus(v).minus(v).settle();
    let y3 = r.product(v.minus(x3).settle()).minus::<0>(y1.product(hhh)).reduce().settle();
    (x3, y3)
}

/// Doubles a point a number of times.
pub(super) struct Double<'a, C: Curve<D>, L, const D: usize> {
    pub point: &'a mut Jacobian<C, L, D>,
    pub times: usize,
}

impl<C: Curve<D>, L: Lanes, const D: usize> Task<L> for Double<'_, C, L, D> {
    type Output = ();

    #[inline(always)]
    fn run(self, _room: L::Room) {
        for _ in 0..self.times {
            *self.point = self.point.doubled();
        }
    }
}

/// Adds a point that is known to differ in x: see [`Jacobian::plus`], whose r it returns.
pub(super) struct Add<'a, C: Curve<D>, L, const D: usize> {
    pub point: &'a mut Jacobian<C, L, D>,
    pub addend: &'a Jacobian<C, L, D>,
}

impl<C: Curve<D>, L: Lanes, const D: usize> Task<L> for Add<'_, C, L, D> {
    type Output = Coordinate<C, L, D>;

    #[inline(always)]
    fn run(self, _room: L::Room) -> Self::Output {
        let (sum, r) = self.point.plus(*self.addend);
        *self.point = sum;
        r
    }
}
