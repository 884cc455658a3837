//! The numbers of ML-KEM: the modulus, roots of unity, and Montgomery's constants.
//!
//! Coefficients are 16-bit words. A factor c that is known beforehand is kept as c·R mod q with
//! R = 2^16, balanced, beside that times 1/q mod R: so a product takes three multiplications.

use crate::coefficients::{PAIRS, POLYNOMIALS, Row};

/// The modulus.
pub const Q: u32 = 3329;

/// 1/q modulo 2^16.
pub(super) const Q_INVERSE: u32 = 62209;

/// 2^15/q, rounded.
pub(super) const BARRETT: u32 = 10;

/// Registers that a polynomial takes.
pub const ROWS: usize = 64;

/// A root of unity of order 256.
const ZETA: u32 = 17;

/// 2^16 modulo q.
const R: u32 = (1 << 16) % Q;

const fn power(base: u32, exponent: u32) -> u32 {
    let (mut result, mut left) = (1, exponent);
    while left > 0 {
        result = result * base % Q;
        left -= 1;
    }
    result
}

/// ζ^BitRev7(k).
const fn zeta(k: usize) -> u32 {
    power(ZETA, (k as u32).reverse_bits() >> 25)
}

/// Two factors, for the coefficients of a pair, and both times 1/q.
#[derive(Clone, Copy)]
pub(super) struct Factors {
    pub(super) factors: u32,
    pub(super) over_q: u32,
}

impl Factors {
    /// Factors that multiply coefficients by numbers below q.
    pub(super) const fn new(first: u32, second: u32) -> Self {
        let (first, second) = (balanced(first * R % Q), balanced(second * R % Q));
        Factors { factors: pair(first, second), over_q: pair(over_q(first), over_q(second)) }
    }

    const fn both(number: u32) -> Self {
        Factors::new(number, number)
    }
}

/// The representative of a number below q between −q/2 and q/2, in 16 bits.
const fn balanced(number: u32) -> u32 {
    if number > Q / 2 { number.wrapping_sub(Q) & 0xffff } else { number }
}

const fn over_q(word: u32) -> u32 {
    word.wrapping_mul(Q_INVERSE) & 0xffff
}

const fn pair(first: u32, second: u32) -> u32 {
    first | second << 16
}

/// A register's factors: those of the first half, those of the second.
pub(super) type FactorRows = [Row; 2];

const fn rows(first: Factors, second: Factors) -> FactorRows {
    let mut rows = [Row([first.factors; PAIRS]), Row([first.over_q; PAIRS])];
    let mut index = POLYNOMIALS;
    while index < PAIRS {
        rows[0].0[index] = second.factors;
        rows[1].0[index] = second.over_q;
        index += 1;
    }
    rows
}

/// Factors of the layers of the transform behind the first: those of a layer of 2^m blocks from
/// 2^(m − 1) on, the first half of its blocks beside the second.
pub(super) static FORWARD: [FactorRows; ROWS] = {
    let mut table = [rows(Factors::both(0), Factors::both(0)); ROWS];
    let mut index = 1;
    while index < ROWS {
        let blocks = 2 << index.ilog2();
        let block = index - blocks / 2;
        let (first, second) = (zeta(blocks + block), zeta(blocks + blocks / 2 + block));
        table[index] = rows(Factors::both(first), Factors::both(second));
        index += 1;
    }
    table
};

/// The same for the inverse transform.
pub(super) static INVERSE: [FactorRows; ROWS] = {
    let mut table = [rows(Factors::both(0), Factors::both(0)); ROWS];
    let mut index = 1;
    while index < ROWS {
        let blocks = 2 << index.ilog2();
        let block = index - blocks / 2;
        let last = 2 * blocks - 1;
        let (first, second) = (zeta(last - block), zeta(last - blocks / 2 - block));
        table[index] = rows(Factors::both(first), Factors::both(second));
        index += 1;
    }
    table
};

/// For every pair, one and the root γ modulo whose x² − γ it is a residue.
pub(super) static GAMMAS: [FactorRows; ROWS] = {
    const fn gamma(index: usize) -> u32 {
        power(ZETA, 2 * ((index as u32).reverse_bits() >> 25) + 1)
    }
    let mut table = [rows(Factors::both(0), Factors::both(0)); ROWS];
    let mut index = 0;
    while index < ROWS {
        let (first, second) = (gamma(index), gamma(ROWS + index));
        table[index] = rows(Factors::new(1, first), Factors::new(1, second));
        index += 1;
    }
    table
};

/// The factor of the first layer.
pub(super) const FIRST_LAYER: Factors = Factors::both(zeta(1));

/// R: what a sum of products lost.
pub(super) const RESTORING: Factors = Factors::both(R);

/// R/128: what a sum of products lost, over what the inverse transform multiplies by.
pub(super) const SCALING: Factors = Factors::both(R * power(128, Q - 2) % Q);

/// The factor of the last layer of the inverse transform, scaled.
pub(super) const LAST_LAYER: Factors = Factors::both(zeta(1) * (R * power(128, Q - 2) % Q) % Q);
