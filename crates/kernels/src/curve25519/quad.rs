//! The Montgomery ladder of curve25519 for few jobs: four lanes work on one job at once.
//!
//! A step of the ladder is three multiplications in a row, of four numbers each. What it computes
//! is what `ladder.rs` computes; `docs/design/curve25519.md` lists the lanes.

use super::bytes::{load_each, store_each};
use super::field::{Columns, Element};
use super::ladder::{A24, changes, clamp};
use super::limbs::Limbs;
use crate::lanes::LaneMask;
use crate::registers::Task;

/// How many lanes a job has.
pub(super) const WIDTH: usize = 4;

/// The first lane of each job.
const FIRST: LaneMask = LaneMask::from_bits(0b0001_0001);
/// The second lane of each job.
const SECOND: LaneMask = LaneMask::from_bits(0b0010_0010);
/// The last lane of each job.
const LAST: LaneMask = LaneMask::from_bits(0b1000_1000);
/// Every other lane, beginning with the first one.
const EVEN: LaneMask = LaneMask::from_bits(0b0101_0101);

/// One batch of the function X25519.
pub(super) struct Ladder<'a> {
    pub(super) scalars: &'a [&'a [u8; 32]],
    pub(super) points: &'a [&'a [u8; 32]],
    pub(super) results: &'a mut [[u8; 32]],
}

/// What all steps have in common.
struct Steps<L> {
    /// 1, 0, 1, u.
    factors: Element<L>,
    /// (A − 2) / 4.
    a24: Element<L>,
    /// Of lanes 0 and 1 with each other, of 2 and 3 with each other.
    exchange: L,
    /// What lanes the factors of the first products are in if the left point is doubled.
    left: [L; 2],
    /// The same for the right point.
    right: [L; 2],
}

impl<L: Limbs> Task<L> for Ladder<'_> {
    /// Whose result is zero, one bit per job.
    type Output = LaneMask;

    #[inline(always)]
    fn run(self, room: L::Room) -> LaneMask {
        const { assert!(L::LANES.is_multiple_of(WIDTH), "no lane is without a job") };
        let u = Element::<L>::from_words(load_each::<WIDTH, L>(room, self.points));
        let (zero, one) = (Element::<L>::small(room, 0), Element::<L>::small(room, 1));
        let steps = Steps::new(room, u);
        // 1 : 0 and u : 1.
        let points = u.select(LaneMask::from_bits(0b0100_0100), zero);
        let points = one.select(LaneMask::from_bits(0b1001_1001), points);
        let mut points = steps.sums(points.into());
        let words: [L; 4] = changes(clamp(load_each::<WIDTH, L>(room, self.scalars)));
        for (mut word, bits) in words.into_iter().zip([64, 64, 64, 63]).rev() {
            if bits < 64 {
                word = word.shl(1);
            }
            for _ in 0..bits {
                points = steps.step(points, word.top_bit());
                word = word.shl(1);
            }
        }
        // x + z and x − z of the point wanted are in the first two lanes.
        let minus = points.permute(steps.exchange);
        let (x, z) = (points.plus(minus).carry(), points.minus(minus).carry());
        let result = x.mul(z.invert()).carry();
        store_each::<WIDTH, L>(result.to_words(), self.results);
        let zero = result.is_zero().bits();
        LaneMask::from_bits(zero & 1 | (zero >> (WIDTH - 1)) & 2)
    }
}

impl<L: Limbs> Steps<L> {
    #[inline(always)]
    fn new(room: L::Room, u: Element<L>) -> Self {
        let order = |lanes: [usize; WIDTH]| {
            L::from_fn(room, |lane| (lane / WIDTH * WIDTH + lanes[lane % WIDTH]) as u64)
        };
        Steps {
            factors: u.select(LAST, Element::small(room, 1)),
            a24: Element::small(room, A24),
            exchange: order([1, 0, 3, 2]),
            left: [order([0, 1, 0, 1]), order([0, 1, 3, 2])],
            right: [order([2, 3, 0, 1]), order([2, 3, 3, 2])],
        }
    }

    /// x + z, x − z of both points, from x, z.
    #[inline(always)]
    fn sums(&self, points: Columns<L>) -> Element<L> {
        points.plus_or_from(EVEN, points.permute(self.exchange)).carry()
    }

    /// Twice one of two points (the right one where `second` is set), and the sum of both.
    #[inline(always)]
    fn step(&self, points: Element<L>, second: LaneMask) -> Element<L> {
        let [one, other] = [
            points.permute(self.right[0].select(second, self.left[0])),
            points.permute(self.right[1].select(second, self.left[1])),
        ];
        // P, Q, S, T.
        let products = one.mul_soon(other);
        let exchanged = products.permute(self.exchange);
        // Q, P − Q, S + T, S − T.
        let sums = products.plus_or_from(EVEN, exchanged).carry();
        let sums = exchanged.carry().select(FIRST, sums);
        // P·Q, 121665·(P − Q), (S + T)², (S − T)².
        let other = products.carry().select(FIRST, self.a24.select(SECOND, sums));
        let next = sums.mul_soon(other);
        // The second one plus P; then all but the third one have a factor to come.
        let zero = Columns::from(Element::small(sums.room(), 0));
        let next = next.plus(exchanged.select(SECOND, zero)).carry();
        self.sums(next.mul_soon(sums.select(SECOND, self.factors)))
    }
}
