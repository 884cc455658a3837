//! The field of curve25519 at compile time: how constants and the table of the base point are made.

use super::field::{LIMB_BITS, LIMB_MASK};

/// A number modulo p = 2^255 − 19, below 2^255 + 2^52.
#[derive(Clone, Copy)]
pub(super) struct Number(pub(super) [u64; 5]);

/// p − 2: the power that inverts.
const INVERSE: [u64; 4] = [u64::MAX - 20, u64::MAX, u64::MAX, u64::MAX >> 1];
/// (p − 5) / 8.
const ROOT: [u64; 4] = [u64::MAX - 2, u64::MAX, u64::MAX, u64::MAX >> 4];
/// (p − 1) / 4.
const QUARTER: [u64; 4] = [u64::MAX - 4, u64::MAX, u64::MAX, u64::MAX >> 3];

impl Number {
    pub(super) const fn small(number: u64) -> Self {
        Number([number, 0, 0, 0, 0])
    }

    pub(super) const fn add(self, other: Self) -> Self {
        let (a, b) = (self.0, other.0);
        carry([a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4]])
    }

    pub(super) const fn sub(self, other: Self) -> Self {
        // 4·p is above every number, limb by limb.
        let (a, b, limb) = (self.0, other.0, 4 * LIMB_MASK);
        carry([
            a[0] + limb - 72 - b[0],
            a[1] + limb - b[1],
            a[2] + limb - b[2],
            a[3] + limb - b[3],
            a[4] + limb - b[4],
        ])
    }

    pub(super) const fn mul(self, other: Self) -> Self {
        let (a, b) = (self.0, other.0);
        let mut columns = [0; 5];
        let mut i = 0;
        while i < 5 {
            let mut j = 0;
            while j < 5 {
                let product = a[i] as u128 * b[j] as u128;
                columns[(i + j) % 5] += if i + j < 5 { product } else { 19 * product };
                j += 1;
            }
            i += 1;
        }
        let mut limbs = [0; 5];
        let (mut rest, mut index) = (0, 0);
        while index < 5 {
            rest += columns[index];
            limbs[index] = rest as u64 & LIMB_MASK;
            rest >>= LIMB_BITS;
            index += 1;
        }
        // Below 2^61: a column is below 2^(2·52 + 7), and 19 times that is what goes around.
        limbs[0] += 19 * rest as u64;
        carry(limbs)
    }

    pub(super) const fn invert(self) -> Self {
        self.power(INVERSE)
    }

    /// A square root of numerator/denominator, if there is one; RFC 8032 section 5.1.3.
    pub(super) const fn root_of_ratio(numerator: Self, denominator: Self) -> Self {
        let cube = denominator.mul(denominator).mul(denominator);
        let seventh = cube.mul(cube).mul(denominator);
        let root = numerator.mul(cube).mul(numerator.mul(seventh).power(ROOT));
        if denominator.mul(root).mul(root).sub(numerator).is_zero() {
            root
        } else {
            root.mul(Self::root_of_minus_one())
        }
    }

    /// A square root of −1: 2 is no square, so its power (p − 1)/2 is −1.
    pub(super) const fn root_of_minus_one() -> Self {
        Self::small(2).power(QUARTER)
    }

    /// The limbs of the number below p, each below 2^51.
    pub(super) const fn canonical(self) -> [u64; 5] {
        // Reaches 2^255 where the number reaches p.
        let mut limbs = self.0;
        limbs[0] += 19;
        let quotient = ripple(&mut limbs);
        let mut limbs = self.0;
        limbs[0] += 19 * quotient;
        ripple(&mut limbs);
        limbs
    }

    const fn is_zero(self) -> bool {
        let [a, b, c, d, e] = self.canonical();
        a | b | c | d | e == 0
    }

    const fn power(self, exponent: [u64; 4]) -> Self {
        let mut power = Self::small(1);
        let mut bit = 256;
        while bit > 0 {
            bit -= 1;
            power = power.mul(power);
            if exponent[bit / 64] >> (bit % 64) & 1 == 1 {
                power = power.mul(self);
            }
        }
        power
    }
}

/// Carries limbs below 2^62.
const fn carry(mut limbs: [u64; 5]) -> Number {
    limbs[0] += 19 * ripple(&mut limbs);
    Number(limbs)
}

/// Carries every limb into the next one and returns what leaves the last one.
const fn ripple(limbs: &mut [u64; 5]) -> u64 {
    let (mut rest, mut index) = (0, 0);
    while index < 5 {
        rest += limbs[index];
        limbs[index] = rest & LIMB_MASK;
        rest >>= LIMB_BITS;
        index += 1;
    }
    rest
}
