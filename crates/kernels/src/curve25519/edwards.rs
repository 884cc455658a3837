//! The group of Ed25519 in lanes: −x² + y² = 1 + d·x²·y² (Hisil, Wong, Carter and Dawson, 2008).

use super::field::Element;
use super::limbs::Limbs;
use super::table::{BASE, D, ROOT_OF_MINUS_ONE, WINDOW_BITS, WINDOWS, Window};
use crate::lanes::LaneMask;

/// A point X : Y : Z.
#[derive(Clone, Copy)]
pub(super) struct Projective<L> {
    /// Y + X.
    plus: Element<L>,
    /// Y − X.
    minus: Element<L>,
    /// 2·Z.
    twice_z: Element<L>,
}

/// A point X : Y : Z with T = X·Y/Z.
#[derive(Clone, Copy)]
pub(super) struct Point<L> {
    projective: Projective<L>,
    t: Element<L>,
}

/// A point X : Y : Z = E·F : G·H : F·G, of which T = E·H.
struct Factors<L> {
    e: Element<L>,
    f: Element<L>,
    g: Element<L>,
    h: Element<L>,
}

/// A point to be added, or a multiple of all its coordinates.
#[derive(Clone, Copy)]
pub(super) struct Addend<L> {
    /// Y + X.
    plus: Element<L>,
    /// Y − X.
    minus: Element<L>,
    /// 2·d·T.
    product: Element<L>,
    /// Z, if it is not 1.
    z: Option<Element<L>>,
}

/// A scalar below 2^254 as digits −15 to 16, the lowest first, in words of 64 bits.
pub(super) struct Digits<L>(pub(super) [L; WINDOWS]);

impl<L: Limbs> Projective<L> {
    /// Twice the point.
    ///
    /// With the usual names of a = −1, dbl-2008-hwcd: (Y + X)² and (Y − X)² give 2·E and −2·H, the
    /// product of both is G; F and H come out negated, and so all coordinates.
    #[inline(always)]
    fn double(self) -> Factors<L> {
        let (plus, minus) = (self.plus.square(), self.minus.square());
        let g = self.plus.mul(self.minus);
        let c = self.twice_z.square();
        Factors {
            e: plus.minus(minus).carry(),
            f: c.minus_twice(g).carry(),
            g: g.plus(g).carry(),
            h: plus.plus(minus).carry(),
        }
    }

    /// 2^count times the point, count > 0.
    #[inline(always)]
    pub(super) fn double_times(self, count: usize) -> Point<L> {
        let mut point = self;
        for _ in 1..count {
            point = point.double().projective();
        }
        point.double().point()
    }

    /// 2·Y.
    #[inline(always)]
    fn twice_y(self) -> Element<L> {
        self.plus.plus(self.minus).carry()
    }

    /// The coordinate u = (Z + Y) / (Z − Y) of the point on curve25519.
    #[inline(always)]
    pub(super) fn montgomery_u(self) -> Element<L> {
        let twice_y = self.twice_y();
        let denominator = self.twice_z.minus(twice_y).carry();
        self.twice_z.plus(twice_y).carry().mul(denominator.invert()).carry()
    }

    /// The 32 bytes of RFC 8032 section 5.1.2: y, and the lowest bit of x at the top.
    #[inline(always)]
    pub(super) fn encode(self) -> [L; 4] {
        let reciprocal = self.twice_z.invert();
        let y = self.twice_y().mul(reciprocal).carry();
        let x = self.plus.minus(self.minus).carry().mul(reciprocal).carry();
        let zero = L::splat(reciprocal.room(), 0);
        let top = L::splat(reciprocal.room(), 1 << 63);
        let [w0, w1, w2, w3] = y.to_words();
        [w0, w1, w2, w3.or(top.select(x.is_odd(), zero))]
    }
}

impl<L: Limbs> Factors<L> {
    #[inline(always)]
    fn projective(self) -> Projective<L> {
        let (x, y, z) = (self.e.mul(self.f), self.g.mul(self.h), self.f.mul(self.g));
        Projective {
            plus: y.plus(x).carry(),
            minus: y.minus(x).carry(),
            twice_z: z.plus(z).carry(),
        }
    }

    #[inline(always)]
    fn point(self) -> Point<L> {
        let t = self.e.mul(self.h).carry();
        Point { projective: self.projective(), t }
    }
}

impl<L: Limbs> Point<L> {
    /// 0 : 1 : 1.
    #[inline(always)]
    pub(super) fn neutral(room: L::Room) -> Self {
        let (zero, one) = (Element::small(room, 0), Element::small(room, 1));
        let projective = Projective { plus: one, minus: one, twice_z: Element::small(room, 2) };
        Point { projective, t: zero }
    }

    /// The sum, or the difference where the mask is set, of any two points.
    #[inline(always)]
    pub(super) fn add(self, addend: Addend<L>, negative: LaneMask) -> Self {
        let Projective { plus, minus, twice_z } = self.projective;
        let addend_plus = addend.minus.select(negative, addend.plus);
        let addend_minus = addend.plus.select(negative, addend.minus);
        let a = minus.mul(addend_minus);
        let b = plus.mul(addend_plus);
        let c = self.t.mul(addend.product);
        let d = match addend.z {
            Some(z) => twice_z.mul(z),
            None => twice_z.into(),
        };
        let (f, g) = (d.minus(c).carry(), d.plus(c).carry());
        Factors {
            e: b.minus(a).carry(),
            f: g.select(negative, f),
            g: f.select(negative, g),
            h: b.plus(a).carry(),
        }
        .point()
    }

    /// A point to be added.
    #[inline(always)]
    pub(super) fn addend(self) -> Addend<L> {
        let Projective { plus, minus, twice_z } = self.projective;
        let room = twice_z.room();
        Addend {
            plus: plus.plus(plus).carry(),
            minus: minus.plus(minus).carry(),
            product: self.t.mul(Element::splat(room, FOUR_D)).carry(),
            z: Some(twice_z),
        }
    }

    #[inline(always)]
    pub(super) fn projective(self) -> Projective<L> {
        self.projective
    }

    /// The point that 32 bytes encode, and in which lanes they do (RFC 8032 section 5.1.3).
    #[inline(always)]
    pub(super) fn decode(words: [L; 4]) -> (Self, LaneMask) {
        let room = words[0].room();
        let (one, d) = (Element::small(room, 1), Element::splat(room, D.canonical()));
        let y = Element::from_words(words);
        let [w0, w1, w2, w3] = y.to_words();
        let canonical = w0.equals(words[0])
            & w1.equals(words[1])
            & w2.equals(words[2])
            & w3.shl(1).equals(words[3].shl(1));

        // x² = u/v.
        let yy = y.square().carry();
        let u = yy.minus(one).carry();
        let v = yy.mul(d).plus(one.into()).carry();
        let v3 = v.square().carry().mul(v).carry();
        let v7 = v3.square().carry().mul(v).carry();
        let power = u.mul(v7).carry().power_p_minus_5_over_8();
        let x = u.mul(v3).carry().mul(power).carry();
        let vxx = x.square().carry().mul(v).carry();
        let is_root = vxx.minus(u).carry().is_zero();
        let is_root_of_negated = vxx.plus(u).carry().is_zero();
        let root_of_minus_one = Element::splat(room, ROOT_OF_MINUS_ONE.canonical());
        let x = x.select(is_root, x.mul(root_of_minus_one).carry());

        let odd = words[3].top_bit();
        let negated = Element::small(room, 0).minus(x).carry();
        let valid = canonical & (is_root | is_root_of_negated) & !(odd & x.is_zero());
        let x = negated.select(x.is_odd() ^ odd, x);
        let projective = Projective {
            plus: y.plus(x).carry(),
            minus: y.minus(x).carry(),
            twice_z: Element::small(room, 2),
        };
        (Point { projective, t: x.mul(y).carry() }, valid)
    }

    /// scalar·B for a scalar below 2^254.
    #[inline(always)]
    pub(super) fn multiple_of_base(room: L::Room, scalar: [L; 4]) -> Self {
        let digits = Digits::new(scalar);
        let mut point = Point::neutral(room);
        for (index, window) in BASE.iter().enumerate() {
            let (magnitude, negative) = signed(digits.0[index]);
            point = point.add(Addend::from_window(window, magnitude), negative);
        }
        point
    }
}

impl<L: Limbs> Addend<L> {
    /// Entry 1 to 16 of a window, or the neutral point for 0.
    #[inline(always)]
    pub(super) fn from_window(window: &Window, magnitude: L) -> Self {
        let room = magnitude.room();
        let neutral = magnitude.equals(L::splat(room, 0));
        let index = magnitude.sub(L::splat(room, 1));
        let (zero, one) = (Element::small(room, 0), Element::small(room, 1));
        Addend {
            plus: one.select(neutral, pick(&window.plus, index)),
            minus: one.select(neutral, pick(&window.minus, index)),
            product: zero.select(neutral, pick(&window.product, index)),
            z: None,
        }
    }

    /// Point 1 to 16 of a list, all of which is read, or the neutral point for 0.
    #[inline(always)]
    pub(super) fn from_multiples(multiples: &[Self; 16], magnitude: L) -> Self {
        let room = magnitude.room();
        let (zero, one) = (Element::small(room, 0), Element::small(room, 1));
        let mut chosen = Addend { plus: one, minus: one, product: zero, z: Some(one) };
        for (number, multiple) in (1..).zip(multiples) {
            let mask = magnitude.equals(L::splat(room, number));
            chosen.plus = multiple.plus.select(mask, chosen.plus);
            chosen.minus = multiple.minus.select(mask, chosen.minus);
            chosen.product = multiple.product.select(mask, chosen.product);
            if let (Some(yes), Some(no)) = (multiple.z, chosen.z) {
                chosen.z = Some(yes.select(mask, no));
            }
        }
        chosen
    }
}

impl<L: Limbs> Digits<L> {
    #[inline(always)]
    pub(super) fn new(scalar: [L; 4]) -> Self {
        let room = scalar[0].room();
        let (zero, one) = (L::splat(room, 0), L::splat(room, 1));
        let radix = L::splat(room, 1 << WINDOW_BITS);
        let mask = L::splat(room, (1 << WINDOW_BITS) - 1);
        let half = L::splat(room, 1 << (WINDOW_BITS - 1));
        let [mut w0, mut w1, mut w2, mut w3] = scalar;
        let mut carry = zero;
        let mut digits = [zero; WINDOWS];
        for digit in &mut digits {
            let value = w0.and(mask).add(carry);
            let above = half.less_than(value);
            *digit = value.sub(radix).select(above, value);
            carry = one.select(above, zero);
            w0 = w0.shr(WINDOW_BITS).or(w1.shl(64 - WINDOW_BITS));
            w1 = w1.shr(WINDOW_BITS).or(w2.shl(64 - WINDOW_BITS));
            w2 = w2.shr(WINDOW_BITS).or(w3.shl(64 - WINDOW_BITS));
            w3 = w3.shr(WINDOW_BITS);
        }
        Digits(digits)
    }
}

/// The magnitude of a digit, and where it is negative.
#[inline(always)]
pub(super) fn signed<L: Limbs>(digit: L) -> (L, LaneMask) {
    let negative = digit.top_bit();
    (L::splat(digit.room(), 0).sub(digit).select(negative, digit), negative)
}

/// Entry `index` of every row.
#[inline(always)]
fn pick<L: Limbs>(rows: &[[u64; 16]; 5], index: L) -> Element<L> {
    Element([
        L::pick(&rows[0], index),
        L::pick(&rows[1], index),
        L::pick(&rows[2], index),
        L::pick(&rows[3], index),
        L::pick(&rows[4], index),
    ])
}

/// 4·d.
const FOUR_D: [u64; 5] = D.add(D).add(D.add(D)).canonical();
