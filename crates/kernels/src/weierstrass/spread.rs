//! Multiples of the generator for a job that has all lanes: each takes a share of the windows.

use super::curve::Curve;
use super::element::Element;
use super::multiply::{add_entry, base_entry};
use super::point::{Add, Affine, Jacobian};
use super::scalar::{Windows, window_count};
use crate::lanes::{LaneMask, Lanes};
use crate::registers::Task;

/// The lanes that share one multiple, of which two are computed: the first of those of the second.
pub(super) const fn half<L: Lanes>() -> usize {
    L::LANES / 2
}

/// Computes k·G in lane 0 and (n − k)·G in the first lane of the upper half, for canonical scalars
/// that all lanes have in common, and where these are infinity.
///
/// Lane j of a half adds up the entries of windows j, j + half, and so on, from the lowest window
/// up; then the lanes add up their sums, pair by pair. What an addition adds is never equal or
/// opposite, but in the last one of a scalar or two, whose result is then infinity
/// (`docs/design/nist-curves.md`).
pub(super) struct MultiplyBaseSpread<C: Curve<D>, L, const D: usize> {
    pub k: Element<C::Order, L, D>,
    pub negative_k: Element<C::Order, L, D>,
}

impl<C: Curve<D>, L: Lanes, const D: usize> Task<L> for MultiplyBaseSpread<C, L, D> {
    type Output = (Jacobian<C, L, D>, LaneMask);

    #[inline(always)]
    fn run(self, room: L::Room) -> Self::Output {
        const { assert!(L::LANES >= 4 && L::LANES.is_power_of_two()) };
        let lower_half = LaneMask::from_bits((1 << half::<L>()) - 1);
        let windows = Windows::new(self.k.select(lower_half, self.negative_k), C::BASE_WINDOW);
        let mut sum = base_entry(room, 0, L::splat(room, 0)).jacobian();
        let mut infinite = LaneMask::ALL;
        for first in (0..window_count(8 * C::BYTES, C::BASE_WINDOW)).step_by(half::<L>()) {
            let (magnitude, negative) = windows.digits(room, |lane| first + lane % half::<L>());
            let entry = entry_of_each(room, first, magnitude);
            add_entry(&mut sum, &mut infinite, entry, magnitude, negative);
        }
        let mut distance = half::<L>() / 2;
        while distance > 0 {
            let partner = L::from_fn(room, |lane| (lane ^ distance) as u64);
            add_partner(room, &mut sum, &mut infinite, partner);
            distance /= 2;
        }
        (sum, infinite)
    }
}

/// The entries for digits of as many windows, from `first` on, as share a multiple; some entry for
/// zero, and where there is no window.
#[inline(always)]
fn entry_of_each<C: Curve<D>, L: Lanes, const D: usize>(
    room: L::Room,
    first: usize,
    magnitude: L,
) -> Affine<C, L, D> {
    let mut entry = base_entry(room, first, magnitude);
    for share in 1..half::<L>() {
        if first + share < window_count(8 * C::BYTES, C::BASE_WINDOW) {
            let lanes = LaneMask::from_bits((1 | 1 << half::<L>()) << share);
            entry = base_entry(room, first + share, magnitude).select(lanes, entry);
        }
    }
    entry
}

/// Adds the sum of lane `partner` to that of each lane.
#[inline(always)]
fn add_partner<C: Curve<D>, L: Lanes, const D: usize>(
    room: L::Room,
    sum: &mut Jacobian<C, L, D>,
    infinite: &mut LaneMask,
    partner: L,
) {
    let (zero, one) = (L::splat(room, 0), L::splat(room, 1));
    let addend = sum.permute(partner);
    let addend_infinite = one.select(*infinite, zero).permute(partner).equals(one);
    let mut next = *sum;
    L::call(room, Add { point: &mut next, addend: &addend });
    *sum = addend.select(*infinite, sum.select(addend_infinite, next));
    *infinite = *infinite & addend_infinite;
}
