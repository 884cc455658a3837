//! The Montgomery ladder of curve25519 (RFC 7748 section 5): one scalar and one point per lane.

use super::bytes::{load, store};
use super::field::{Columns, Element};
use super::limbs::Limbs;
use crate::lanes::LaneMask;
use crate::registers::Task;

/// (A − 2) / 4 of the curve v² = u³ + A·u² + u.
pub(super) const A24: u64 = 121665;

/// One batch of the function X25519.
pub(super) struct Ladder<'a> {
    pub(super) scalars: &'a [&'a [u8; 32]],
    pub(super) points: &'a [&'a [u8; 32]],
    pub(super) results: &'a mut [[u8; 32]],
}

/// A point x : z, as x + z and x − z.
#[derive(Clone, Copy)]
struct Point<L> {
    plus: Element<L>,
    minus: Element<L>,
}

impl<L: Limbs> Task<L> for Ladder<'_> {
    /// In which lanes the result is zero.
    type Output = LaneMask;

    #[inline(always)]
    fn run(self, room: L::Room) -> LaneMask {
        let u = Element::<L>::from_words(load(room, self.points));
        let zero = Element::<L>::small(room, 0);
        let one = Element::<L>::small(room, 1);
        let (mut doubled, mut summed) = (Point::new(one, zero), Point::new(u, one));
        // The bits of 254 to 3; the lower ones are zero.
        let mut words: [L; 4] = changes(clamp(load(room, self.scalars)));
        words[3] = words[3].shl(1);
        for (word, bits) in words.into_iter().zip([61, 64, 64, 63]).rev() {
            let mut word = word;
            for _ in 0..bits {
                (doubled, summed) = step(doubled, summed, u, word.top_bit());
                word = word.shl(1);
            }
        }
        let last = words[0].shl(61).top_bit();
        let doubled = summed.select(last, doubled);
        let doubled = Point::from(doubled.double());
        let doubled = Point::from(doubled.double());
        let (x, z) = doubled.double();
        let result = x.carry().mul(z.carry().invert()).carry();
        store(result.to_words(), self.results);
        result.is_zero()
    }
}

impl<L: Limbs> Point<L> {
    #[inline(always)]
    fn new(x: Element<L>, z: Element<L>) -> Self {
        Point { plus: x.plus(z).carry(), minus: x.minus(z).carry() }
    }

    #[inline(always)]
    fn select(self, mask: LaneMask, other: Self) -> Self {
        Point {
            plus: self.plus.select(mask, other.plus),
            minus: self.minus.select(mask, other.minus),
        }
    }

    /// Twice the point: x and z.
    #[inline(always)]
    fn double(self) -> (Columns<L>, Columns<L>) {
        let (plus, minus) = (self.plus.square(), self.minus.square());
        let difference = plus.minus(minus).carry();
        let x = plus.carry().mul(minus.carry());
        let z = difference.mul(plus.plus_small(A24, difference).carry());
        (x, z)
    }
}

impl<L: Limbs> From<(Columns<L>, Columns<L>)> for Point<L> {
    #[inline(always)]
    fn from((x, z): (Columns<L>, Columns<L>)) -> Self {
        Point { plus: x.plus(z).carry(), minus: x.minus(z).carry() }
    }
}

/// Twice one of two points whose difference is u : 1 (the right one where `second` is set), and the
/// sum of both.
///
/// The products stand in an order in which none waits for the one before it: a core sees some two
/// of them at a time, and one takes longer than its instructions take to start.
#[inline(always)]
fn step<L: Limbs>(
    left: Point<L>,
    right: Point<L>,
    u: Element<L>,
    second: LaneMask,
) -> (Point<L>, Point<L>) {
    let chosen = right.select(second, left);
    let (cross, other) = (right.minus.mul(left.plus), right.plus.mul(left.minus));
    let (plus, minus) = (chosen.plus.square(), chosen.minus.square());
    let difference = cross.minus(other).carry().square();
    let sum = cross.plus(other).carry().square();
    let e = plus.minus(minus).carry();
    let doubled_x = plus.carry().mul(minus.carry());
    let summed_z = difference.carry().mul(u);
    let doubled_z = e.mul(plus.plus_small(A24, e).carry());
    ((doubled_x, doubled_z).into(), (sum, summed_z).into())
}

/// Makes a private key a scalar: a multiple of 8 with bit 254 as its highest.
#[inline(always)]
pub(super) fn clamp<L: Limbs>(words: [L; 4]) -> [L; 4] {
    let [w0, w1, w2, w3] = words;
    let room = w0.room();
    let low = L::splat(room, !7);
    let high = L::splat(room, u64::MAX >> 2);
    [w0.and(low), w1, w2, w3.and(high).or(L::splat(room, 1 << 62))]
}

/// Where a bit differs from the next higher one: there the ladder changes sides.
#[inline(always)]
pub(super) fn changes<L: Limbs>(words: [L; 4]) -> [L; 4] {
    let [w0, w1, w2, w3] = words;
    [
        w0.xor(w0.shr(1).or(w1.shl(63))),
        w1.xor(w1.shr(1).or(w2.shl(63))),
        w2.xor(w2.shr(1).or(w3.shl(63))),
        w3.xor(w3.shr(1)),
    ]
}
