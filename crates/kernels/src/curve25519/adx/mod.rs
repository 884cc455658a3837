//! Room adx of curve25519: the Montgomery ladder of one job in general-purpose registers.
//!
//! A step of the ladder is that of `ladder.rs`; `docs/design/curve25519.md` says why its products
//! stand in this order.
//!
//! Requires: the token of the room.
//! Ensures: what `x25519` computes in the room `portable`.
//! Secrets: scalar, point, result. Branches and addresses depend on none.

mod field;
mod inverse;
#[cfg(test)]
mod tests;

use widelane_cpu::Adx;
use widelane_secret::Mask;

use self::field::{Element, Factor};
use super::ladder::{changes, clamp};
use super::scalar::words;
use crate::lanes::{LaneMask, Portable};

/// A point x : z, as x + z and x − z.
#[derive(Clone, Copy)]
struct Point {
    plus: Factor,
    minus: Factor,
}

/// Writes X25519(scalar, point) and says in lane 0 whether it is zero.
#[inline(never)]
pub(super) fn x25519(
    room: Adx,
    scalar: &[u8; 32],
    point: &[u8; 32],
    result: &mut [u8; 32],
) -> LaneMask {
    let u = Element::from_words(room, words(point));
    let mut changes = changes::<Portable>(clamp(words(scalar)));
    // The highest bit of a scalar is that of 254 and always set: what follows is twice the point,
    // and the point. Of 253 to 3 each is looked at; the lower ones are zero.
    let mut summed = Point::from((u, Element::small(room, 1)));
    let mut doubled = Point::from(summed.double());
    changes[3] <<= 2;
    for (word, bits) in changes.into_iter().zip([61, 64, 64, 62]).rev() {
        let mut word = word;
        for _ in 0..bits {
            (doubled, summed) = step(&doubled, &summed, &u, word >> 63);
            word <<= 1;
        }
    }
    let last = changes[0] >> 2 & 1;
    let point = doubled.select(last, &summed);
    let (x, z) = Point::from(Point::from(point.double()).double()).double();
    let words = x.mul(&z.invert()).to_words();
    for (bytes, word) in result.as_chunks_mut().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    let zero = Mask::is_zero(words.into_iter().fold(0, |seen, word| seen | word));
    LaneMask::from_bits(zero.word() as u8 & 1)
}

impl From<(Element, Element)> for Point {
    #[inline(always)]
    fn from((x, z): (Element, Element)) -> Self {
        Point { plus: x.plus(&z), minus: x.minus(&z) }
    }
}

impl Point {
    /// self where the bit is 0, other where it is 1.
    #[inline(always)]
    fn select(&self, bit: u64, other: &Point) -> Point {
        let (plus, minus) = (&other.plus, &other.minus);
        Point { plus: self.plus.select(bit, plus), minus: self.minus.select(bit, minus) }
    }

    /// Twice the point: x and z.
    #[inline(never)]
    fn double(&self) -> (Element, Element) {
        let (plus, minus) = (self.plus.square(), self.minus.square());
        let difference = plus.minus(&minus);
        (plus.mul(&minus), difference.mul(&difference.times_a24_plus(&plus)))
    }
}

/// Twice one of two points whose difference is u : 1 (the right one where the bit `second` is 1),
/// and the sum of both.
#[inline(always)]
fn step(left: &Point, right: &Point, u: &Element, second: u64) -> (Point, Point) {
    let chosen = left.select(second, right);
    let other = left.minus.mul(&right.plus);
    let cross = left.plus.mul(&right.minus);
    let minus = chosen.minus.square();
    let difference = cross.minus(&other);
    let sum = cross.plus(&other);
    let plus = chosen.plus.square();
    let e = plus.minus(&minus);
    let difference = difference.square();
    let factor = e.times_a24_plus(&plus);
    let doubled_x = plus.mul(&minus);
    let summed_z = difference.mul(u);
    let doubled_z = factor.mul(&e);
    let summed_x = sum.square();
    let summed = Point::from((summed_x, summed_z));
    (Point::from((doubled_x, doubled_z)), summed)
}
