//! Inversion of elements in Montgomery form.

use super::element::{Element, Prime};
use crate::divsteps::{Inversion, completed, excess_bits};
use crate::lanes::{LaneMask, Lanes};
use crate::registers::Task;

/// Inverts an element in Montgomery form; zero gives zero.
pub(super) struct Invert<'a, P, L, const D: usize>(pub &'a mut Element<P, L, D>);

impl<P: Prime<D>, L: Lanes, const D: usize> Task<L> for Invert<'_, P, L, D> {
    type Output = ();

    #[inline(always)]
    fn run(self, _room: L::Room) {
        let [inversion] = completed([begun(*self.0)], P::MODULUS.bits());
        *self.0 = finished(inversion.quotient());
    }
}

/// Inverts an element in Montgomery form, of each of two primes as long as each other; zero gives
/// zero.
///
/// The two chains of steps do not depend on each other, and fill each other's waits.
pub(super) struct InvertBoth<'a, P, Q, L, const D: usize> {
    pub first: &'a mut Element<P, L, D>,
    pub second: &'a mut Element<Q, L, D>,
}

impl<P: Prime<D>, Q: Prime<D>, L: Lanes, const D: usize> Task<L> for InvertBoth<'_, P, Q, L, D> {
    type Output = ();

    #[inline(always)]
    fn run(self, _room: L::Room) {
        const { assert!(P::MODULUS.bits() == Q::MODULUS.bits()) };
        let both = [begun(*self.first), begun(*self.second)];
        let [first, second] = completed(both, P::MODULUS.bits());
        *self.first = finished(first.quotient());
        *self.second = finished(second.quotient());
    }
}

/// Does the same for numbers that all lanes have in common: one in the lowest lane, the other in
/// all the others.
pub(super) struct InvertSideBySide<'a, P, Q, L, const D: usize> {
    pub first: &'a mut Element<P, L, D>,
    pub second: &'a mut Element<Q, L, D>,
}

impl<P, Q, L, const D: usize> Task<L> for InvertSideBySide<'_, P, Q, L, D>
where
    P: Prime<D>,
    Q: Prime<D>,
    L: Lanes,
{
    type Output = ();

    #[inline(always)]
    fn run(self, room: L::Room) {
        const { assert!(P::MODULUS.bits() == Q::MODULUS.bits() && L::LANES > 1) };
        let lowest = LaneMask::from_bits(1);
        let (first, second) = (begun(*self.first), begun(*self.second));
        let [both] = completed([first.select(lowest, second)], P::MODULUS.bits());
        let mut quotients = [both.quotient(); 2];
        for (lane, quotient) in (0..).zip(&mut quotients) {
            for digit in quotient {
                *digit = digit.permute(L::splat(room, lane));
            }
        }
        let [first, second] = quotients;
        (*self.first, *self.second) = (finished(first), finished(second));
    }
}

/// The inversion of an element, of which no step has been taken.
#[inline(always)]
fn begun<P: Prime<D>, L: Lanes, const D: usize>(number: Element<P, L, D>) -> Inversion<L, D> {
    Inversion::of(number.canonical().0, &const { P::MODULUS })
}

/// Takes away the powers of two that the steps and Montgomery's form have left.
#[inline(always)]
fn finished<P: Prime<D>, L: Lanes, const D: usize>(quotient: [L; D]) -> Element<P, L, D> {
    let factor = const {
        let modulus = P::MODULUS;
        modulus.doubled(modulus.rrr, excess_bits(modulus.bits()))
    };
    let room = quotient[0].room();
    Element::from_digits(quotient).times(Element::splat(room, &factor))
}
