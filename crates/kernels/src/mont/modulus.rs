//! Per-modulus precomputation of mont: what Montgomery operations need to know of a modulus.

use widelane_secret::{Mask, wipe};

use crate::digits::{
    DIGIT_BITS, DIGIT_MASK, SHORT_BITS, SHORT_MASK, bits_of, from_bytes, inverse, repack,
};

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
    /// For reductions by four digits at once.
    pub(super) by_four: BlockModulus<4, D>,
}

/// What reductions by `W` digits at once know of a modulus of `D` digits.
#[derive(Clone)]
pub(super) struct BlockModulus<const W: usize, const D: usize> {
    /// −1/m modulo 2^(52·W).
    pub(super) k: [u64; W],
    /// (m·k + 1) / 2^(52·W): the multiple of m that is −1 modulo 2^(52·W), without its lowest
    /// digits.
    pub(super) m1: [u64; D],
    /// R² mod m, where R = 2^(52·D') and D' is D rounded up to a multiple of `W`.
    pub(super) rr: [u64; D],
}

/// What reductions by half products know of a modulus m of `D` digits, which has `D` + 1 digits of
/// 51 bits there; R is 2^(51·(D + 1)).
#[derive(Clone)]
pub(super) struct ShortModulus<const D: usize> {
    /// −1/m modulo R, in digits of 51 bits but for the last one.
    pub(super) inverse: [u64; D],
    /// The last digit of −1/m.
    pub(super) inverse_top: u64,
    /// R² mod m, in digits of 52 bits.
    pub(super) rr: [u64; D],
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
        assert!(bits + 3 <= bits_of(D), "the modulus is too long for {D} digits");
        assert!(
            bytes.first().is_some_and(|byte| byte >> 7 == 1),
            "the top bit of a modulus is set"
        );
        assert!(bytes.last().is_some_and(|byte| byte & 1 == 1), "a modulus is odd");
        let m = from_bytes(bytes);
        let k0 = inverse(m[0]).wrapping_neg() & DIGIT_MASK;
        let mut modulus = Modulus {
            m,
            m1: BlockModulus::<1, D>::new(&m, k0).m1,
            k0,
            one: m,
            rr: m,
            rrr: m,
            by_four: BlockModulus::new(&m, k0),
        };

        // 2^bits − m = 2^bits mod m, because the top bit of m is set; then double up to R.
        modulus.one = power_of_two_minus(&m, bits);
        for _ in bits..bits_of(D) {
            modulus.one = modulus.double(&modulus.one);
        }
        // 2^t·R by doubling, where 52·D is t times a power of two; then
        // R² = 2^(52·D)·R by squaring.
        let squarings = bits_of(D).trailing_zeros();
        let mut power = modulus.one;
        for _ in 0..bits_of(D) >> squarings {
            power = modulus.double(&power);
        }
        for _ in 0..squarings {
            power = modulus.multiply(&power, &power);
        }
        modulus.rr = power;
        modulus.rrr = modulus.multiply(&power, &power);
        modulus.by_four.rr = modulus.rr_of_blocks::<4>();
        modulus
    }

    /// What reductions by eight digits at once know of this modulus.
    pub(super) fn by_eight(&self) -> BlockModulus<8, D> {
        let mut blocks = BlockModulus::new(&self.m, self.k0);
        blocks.rr = self.rr_of_blocks::<8>();
        blocks
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

    /// Computes R² mod m for D rounded up to a multiple of `W`.
    fn rr_of_blocks<const W: usize>(&self) -> [u64; D] {
        let digits_more = D.next_multiple_of(W) - D;
        (0..2 * bits_of(digits_more)).fold(self.rr, |power, _| self.double(&power))
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

    /// Computes x mod m for x < 3·m.
    pub(super) fn canonical(&self, x: &[u64; D]) -> [u64; D] {
        self.subtract_once(&self.subtract_once(x))
    }

    /// Computes x − y mod m for x < m and y < 2·m.
    pub(super) fn subtract(&self, x: &[u64; D], y: &[u64; D]) -> [u64; D] {
        let mut difference = [0; D];
        let mut carry = 0;
        for (i, digit) in difference.iter_mut().enumerate() {
            let sum = (x[i] + 2 * self.m[i]).cast_signed() - y[i].cast_signed() + carry;
            *digit = sum.cast_unsigned() & DIGIT_MASK;
            carry = sum >> DIGIT_BITS;
        }
        self.canonical(&difference)
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

impl<const W: usize, const D: usize> BlockModulus<W, D> {
    /// Prepares m, of which −1/m modulo 2^52 is `k0`; but for `rr`.
    fn new(m: &[u64; D], k0: u64) -> Self {
        // A reduction of one: what is added to make the low digits vanish is m·k.
        let mut m1 = [0u64; D];
        m1[0] = 1;
        let k = core::array::from_fn(|_| {
            let digit = m1[0].wrapping_mul(k0) & DIGIT_MASK;
            let mut carry = 0;
            for j in 0..D {
                carry += u128::from(m1[j]) + u128::from(digit) * u128::from(m[j]);
                if j > 0 {
                    m1[j - 1] = carry as u64 & DIGIT_MASK;
                }
                carry >>= DIGIT_BITS;
            }
            m1[D - 1] = carry as u64;
            digit
        });
        BlockModulus { k, m1, rr: *m }
    }

    /// All of it, whatever `W` is: the inverse, the multiple and R².
    pub(super) const fn parts(&self) -> (&[u64], &[u64; D], &[u64; D]) {
        (&self.k, &self.m1, &self.rr)
    }
}

impl<const W: usize, const D: usize> Drop for BlockModulus<W, D> {
    fn drop(&mut self) {
        wipe(&mut self.k);
        wipe(&mut self.m1);
        wipe(&mut self.rr);
    }
}

impl<const D: usize> ShortModulus<D> {
    /// Prepares a modulus of so many bits.
    pub(super) fn of(modulus: &Modulus<D>, bits: usize) -> Self {
        let k0 = modulus.k0;
        let mut digits = [[0; D]; 2];
        repack::<DIGIT_BITS, SHORT_BITS>(&modulus.m, digits.as_flattened_mut());
        let (low, top) = (&digits[0], digits[1][0]);
        // A reduction of one: what is added to make the low digits vanish is m·inverse.
        let mut rest = [0u64; D];
        rest[0] = 1;
        let mut rest_top = 0;
        let mut next = || {
            let digit = rest[0].wrapping_mul(k0) & SHORT_MASK;
            let mut carry = 0;
            for j in 0..D {
                carry += u128::from(rest[j]) + u128::from(digit) * u128::from(low[j]);
                if j > 0 {
                    rest[j - 1] = carry as u64 & SHORT_MASK;
                }
                carry >>= SHORT_BITS;
            }
            carry += u128::from(rest_top) + u128::from(digit) * u128::from(top);
            rest[D - 1] = carry as u64 & SHORT_MASK;
            rest_top = (carry >> SHORT_BITS) as u64;
            digit
        };
        let inverse = core::array::from_fn(|_| next());
        let inverse_top = next();
        wipe(digits.as_flattened_mut());
        wipe(&mut rest);
        // R² by as many doublings as make it 2^(52·D) together with a multiplication.
        let mut rr = power_of_two_minus(&modulus.m, bits);
        for _ in bits..2 * SHORT_BITS as usize * (D + 1) - bits_of(D) {
            rr = modulus.double(&rr);
        }
        rr = modulus.multiply(&rr, &modulus.rr);
        ShortModulus { inverse, inverse_top, rr }
    }
}

impl<const D: usize> Drop for ShortModulus<D> {
    fn drop(&mut self) {
        wipe(&mut self.inverse);
        wipe(core::slice::from_mut(&mut self.inverse_top));
        wipe(&mut self.rr);
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
