//! Per-modulus precomputation of mont: what Montgomery operations need to know of a modulus.

use widelane_secret::{Mask, wipe};

use super::digits::{DIGIT_BITS, DIGIT_MASK, from_bytes};

/// An odd modulus of `D` digits and what is computed from it once per key. Wiped on drop.
///
/// Time depends on `D` and the length in bytes only, so the modulus may be a secret prime.
#[derive(Clone)]
pub struct Modulus<const D: usize> {
    /// The modulus m.
    pub(super) m: [u64; D],
    /// (m·k0 + 1) / 2^52: the multiple of m that is −1 modulo 2^52, without its lowest digit.
    pub(super) m1: [u64; D],
    /// −1/m modulo 2^52.
    pub(super) k0: u64,
    /// R mod m, where R = 2^(52·D): the number one in Montgomery form.
    pub(super) one: [u64; D],
    /// R² mod m.
    pub(super) rr: [u64; D],
    /// R³ mod m.
    pub(super) rrr: [u64; D],
}

impl<const D: usize> Modulus<D> {
    /// Prepares the odd, big-endian `bytes`, whose top bit is set.
    ///
    /// # Panics
    ///
    /// Panics if the number is even, its top bit is clear, or fewer than three spare bits are left
    /// in `D` digits: the caller validates keys before it brings them here.
    pub fn new(bytes: &[u8]) -> Self {
        let bits = bytes.len() * 8;
        assert!(bits + 3 <= D * DIGIT_BITS as usize, "the modulus is too long for {D} digits");
        assert!(
            bytes.first().is_some_and(|byte| byte >> 7 == 1),
            "the top bit of a modulus is set"
        );
        assert!(bytes.last().is_some_and(|byte| byte & 1 == 1), "a modulus is odd");
        let m = from_bytes(bytes);
        let k0 = negated_inverse(m[0]);
        let mut modulus = Modulus { m, m1: times_k0(&m, k0), k0, one: m, rr: m, rrr: m };

        // 2^bits − m = 2^bits mod m, because the top bit of m is set; then double up to R.
        modulus.one = power_of_two_minus(&m, bits);
        for _ in bits..D * DIGIT_BITS as usize {
            modulus.one = modulus.double(&modulus.one);
        }
        // 2^t·R by doubling, where 52·D is t times a power of two; then
        // R² = 2^(52·D)·R by squaring.
        let squarings = (D * DIGIT_BITS as usize).trailing_zeros();
        let mut power = modulus.one;
        for _ in 0..(D * DIGIT_BITS as usize) >> squarings {
            power = modulus.double(&power);
        }
        for _ in 0..squarings {
            power = modulus.multiply(&power, &power);
        }
        modulus.rr = power;
        modulus.rrr = modulus.multiply(&power, &power);
        modulus
    }

    /// Computes x·y·R^-1 mod m, canonical, with 64-bit multiplications.
    ///
    /// Requires x, y < m. Used once per key; batches have their own, wider way.
    pub(super) fn multiply(&self, x: &[u64; D], y: &[u64; D]) -> [u64; D] {
        let mut z = [0u64; D];
        for digit in x {
            let low = u128::from(z[0]) + u128::from(*digit) * u128::from(y[0]);
            let q = u128::from((low as u64).wrapping_mul(self.k0) & DIGIT_MASK);
            let mut carry = (low + q * u128::from(self.m[0])) >> DIGIT_BITS;
            for j in 1..D {
                carry += u128::from(z[j]) + u128::from(*digit) * u128::from(y[j]);
                carry += q * u128::from(self.m[j]);
                z[j - 1] = carry as u64 & DIGIT_MASK;
                carry >>= DIGIT_BITS;
            }
            z[D - 1] = carry as u64;
        }
        self.subtract_once(&z)
    }

    /// Computes 2·x mod m for x < m.
    fn double(&self, x: &[u64; D]) -> [u64; D] {
        let mut doubled = [0; D];
        let mut carry = 0;
        for (digit, x) in doubled.iter_mut().zip(x) {
            *digit = (x << 1 & DIGIT_MASK) | carry;
            carry = x >> (DIGIT_BITS - 1);
        }
        self.subtract_once(&doubled)
    }

    /// Computes x mod m for x < 2·m.
    fn subtract_once(&self, x: &[u64; D]) -> [u64; D] {
        let mut reduced = [0; D];
        let mut borrow = 0;
        for ((digit, x), m) in reduced.iter_mut().zip(x).zip(&self.m) {
            let difference = x.wrapping_sub(*m).wrapping_sub(borrow);
            *digit = difference & DIGIT_MASK;
            borrow = difference >> 63;
        }
        let smaller = Mask::equal(borrow, 1);
        for (digit, x) in reduced.iter_mut().zip(x) {
            *digit = smaller.select(*x, *digit);
        }
        reduced
    }
}

impl<const D: usize> Drop for Modulus<D> {
    fn drop(&mut self) {
        for digits in [&mut self.m, &mut self.m1, &mut self.one, &mut self.rr, &mut self.rrr] {
            wipe(digits);
        }
        wipe(core::slice::from_mut(&mut self.k0));
    }
}

/// Computes −1/m modulo 2^52 for odd m by Newton's iteration: each step doubles the correct bits.
fn negated_inverse(m: u64) -> u64 {
    let mut inverse = m; // 3 bits: m·m = 1 modulo 8
    for _ in 0..5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(m.wrapping_mul(inverse)));
    }
    inverse.wrapping_neg() & DIGIT_MASK
}

/// Computes (m·k0 + 1) / 2^52.
fn times_k0<const D: usize>(m: &[u64; D], k0: u64) -> [u64; D] {
    let mut product = [0; D];
    let mut carry = (u128::from(m[0]) * u128::from(k0) + 1) >> DIGIT_BITS;
    for j in 1..D {
        carry += u128::from(m[j]) * u128::from(k0);
        product[j - 1] = carry as u64 & DIGIT_MASK;
        carry >>= DIGIT_BITS;
    }
    product[D - 1] = carry as u64;
    product
}

/// Computes 2^bits − m for 0 < m < 2^bits.
fn power_of_two_minus<const D: usize>(m: &[u64; D], bits: usize) -> [u64; D] {
    let mut difference = [0; D];
    let mut borrow = 0;
    for (index, digit) in difference.iter_mut().enumerate() {
        let power = u64::from(bits / DIGIT_BITS as usize == index) << (bits % DIGIT_BITS as usize);
        let value = power.wrapping_sub(m[index]).wrapping_sub(borrow);
        *digit = value & DIGIT_MASK;
        borrow = value >> 63;
    }
    difference
}
