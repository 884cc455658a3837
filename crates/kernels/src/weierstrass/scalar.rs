//! Scalars cut into signed windows, and powers with public exponents.

use super::digits::{DIGIT_BITS, DIGIT_MASK};
use super::element::{Element, Prime};
use crate::lanes::{LaneMask, Lanes, Task};

/// Secret scalars, one per lane, to be read as Σ d_i·2^(w·i) with −2^(w−1) ≤ d_i ≤ 2^(w−1).
pub(super) struct Windows<L: Lanes, const D: usize> {
    /// The digits of twice the scalar: the bit below the lowest window is zero.
    doubled: [L::Words; D],
    bits: usize,
}

impl<L: Lanes, const D: usize> Windows<L, D> {
    /// Cuts canonical scalars into windows of `bits` bits.
    #[inline(always)]
    pub fn new<P: Prime<D>>(scalar: Element<P, L, D>, bits: usize) -> Self {
        Windows { doubled: scalar.plus(scalar).carry().0.map(L::words), bits }
    }

    /// |d_i|, and where d_i is negative.
    ///
    /// The window's bits and the top bit of the window below make w + 1 bits u; d_i is ⌈u/2⌉, less
    /// 2^w if the top bit of u is set.
    #[inline(always)]
    pub fn digit(&self, room: L::Room, window: usize) -> (L, LaneMask) {
        let position = window * self.bits;
        let (index, shift) = (position / DIGIT_BITS, position % DIGIT_BITS);
        let (low, high) = (&self.doubled[index], self.doubled.get(index + 1));
        let ones = L::splat(room, (2 << self.bits) - 1);
        let top = L::splat(room, 1 << self.bits);
        let window = L::from_fn(room, |lane| {
            let high = high.map_or(0, |high| high.as_ref()[lane] << (DIGIT_BITS - shift));
            low.as_ref()[lane] >> shift | high
        })
        .and(ones);
        let negative = window.and(top).equals(top);
        let magnitude = window.xor(ones).select(negative, window);
        (magnitude.add(L::splat(room, 1)).shr::<1>(), negative)
    }
}

/// Windows of `window_bits` bits that scalars of `bits` bits have, the last one for the carry.
pub(super) const fn window_count(bits: usize, window_bits: usize) -> usize {
    bits / window_bits + 1
}

/// Inverts an element in Montgomery form, of each of two primes at once; zero gives zero.
///
/// The two chains of multiplications do not depend on each other, and fill each other's waits.
pub(super) struct InvertBoth<'a, P, Q, L, const D: usize> {
    pub first: &'a mut Element<P, L, D>,
    pub second: &'a mut Element<Q, L, D>,
}

impl<P: Prime<D>, Q: Prime<D>, L: Lanes, const D: usize> Task<L> for InvertBoth<'_, P, Q, L, D> {
    type Output = ();

    #[inline(always)]
    fn run(self, _room: L::Room) {
        let (mut first, mut second) = (Powers::new(*self.first), Powers::new(*self.second));
        for position in (0..DIGIT_BITS * D / POWER_BITS).rev() {
            for _ in 0..POWER_BITS {
                first.power = first.power.squared();
                second.power = second.power.squared();
            }
            first.multiply(position);
            second.multiply(position);
        }
        *self.first = first.power;
        *self.second = second.power;
    }
}

/// Inverts an element in Montgomery form; zero gives zero.
pub(super) struct Invert<'a, P, L, const D: usize>(pub &'a mut Element<P, L, D>);

impl<P: Prime<D>, L: Lanes, const D: usize> Task<L> for Invert<'_, P, L, D> {
    type Output = ();

    #[inline(always)]
    fn run(self, _room: L::Room) {
        let mut powers = Powers::new(*self.0);
        for position in (0..DIGIT_BITS * D / POWER_BITS).rev() {
            for _ in 0..POWER_BITS {
                powers.power = powers.power.squared();
            }
            powers.multiply(position);
        }
        *self.0 = powers.power;
    }
}

/// Bits of the exponent that one multiplication takes in. They divide a digit's 52.
const POWER_BITS: usize = 4;

/// An exponentiation by the public exponent m − 2.
struct Powers<P, L, const D: usize> {
    /// The base to the powers 0 to 15.
    table: [Element<P, L, D>; 1 << POWER_BITS],
    power: Element<P, L, D>,
}

impl<P: Prime<D>, L: Lanes, const D: usize> Powers<P, L, D> {
    #[inline(always)]
    fn new(base: Element<P, L, D>) -> Self {
        let one = Element::one(base.room());
        let mut table = [one; 1 << POWER_BITS];
        for index in 1..table.len() {
            table[index] = table[index - 1].times(base);
        }
        Powers { table, power: one }
    }

    /// Takes in the window of the exponent at `position`.
    #[inline(always)]
    fn multiply(&mut self, position: usize) {
        const { assert!(DIGIT_BITS.is_multiple_of(POWER_BITS)) };
        let per_digit = DIGIT_BITS / POWER_BITS;
        let digit = const { P::MODULUS.inverting_exponent() }[position / per_digit] & DIGIT_MASK;
        let window = digit >> (position % per_digit * POWER_BITS) & ((1 << POWER_BITS) - 1);
        if window != 0 {
            self.power = self.power.times(self.table[window as usize]);
        }
    }
}
