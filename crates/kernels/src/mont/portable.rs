//! Room portable of mont: arithmetic on 64-bit limbs, one job at a time. Secret-independent.
//!
//! Numbers are little-endian arrays of `LIMBS` limbs, radix 2^64; R is 2^(64·LIMBS). This room is
//! the path without AVX-512 IFMA and the oracle of the other rooms, so it prefers few lines to few
//! cycles.

use widelane_secret::{Mask, wipe};

use crate::digits::inverse;

/// Bits of the exponent that one table lookup consumes; five is best from 1024 to 2048 bits.
const WINDOW_BITS: usize = 5;
/// Powers of the base in the table.
const TABLE_ENTRIES: usize = 1 << WINDOW_BITS;

/// A modulus m with what Montgomery arithmetic needs to know of it; wiped when dropped.
#[derive(Clone)]
pub struct Modulus<const LIMBS: usize> {
    limbs: [u64; LIMBS],
    /// -1/m mod 2^64.
    k0: u64,
    /// R^2 mod m.
    rr: [u64; LIMBS],
}

/// Scratch memory of the operations that touch secrets, wiped when dropped.
pub struct Workspace<const LIMBS: usize> {
    accumulator: [u64; LIMBS],
    power: [u64; LIMBS],
    entry: [u64; LIMBS],
    table: [[u64; LIMBS]; TABLE_ENTRIES],
}

impl<const LIMBS: usize> Modulus<LIMBS> {
    /// Prepares `limbs` as a modulus; `None` unless it is odd and its top bit is set.
    ///
    /// Secrets: `limbs`, but for the fact that it is refused.
    pub fn new(limbs: &[u64; LIMBS]) -> Option<Self> {
        if limbs[0] & 1 == 0 || limbs[LIMBS - 1] >> 63 == 0 {
            return None;
        }
        let k0 = inverse(limbs[0]).wrapping_neg();
        let mut modulus = Modulus { limbs: *limbs, k0, rr: [0; LIMBS] };
        // With its top bit set, R mod m is 2^(64·LIMBS) - m: the Montgomery form of 1. Doublings
        // make it that of 2^d, and each squaring doubles d until it is 64·LIMBS, the Montgomery
        // form of R.
        let mut power = [0; LIMBS];
        subtract(&mut power, limbs);
        let squarings = (64 * LIMBS).trailing_zeros();
        for _ in 0..(64 * LIMBS) >> squarings {
            let addend = power;
            add_modulo(&mut power, &addend, limbs);
        }
        let mut square = [0; LIMBS];
        for _ in 0..squarings {
            modulus.multiply(&mut square, &power, &power);
            power = square;
        }
        modulus.rr = power;
        wipe(&mut power);
        wipe(&mut square);
        Some(modulus)
    }

    /// The modulus itself.
    pub fn limbs(&self) -> &[u64; LIMBS] {
        &self.limbs
    }

    /// Computes x = x - y mod m.
    ///
    /// Requires: x, y < m.
    /// Secrets:  x, y, m. Branches and addresses depend on none.
    pub fn subtract(&self, x: &mut [u64; LIMBS], y: &[u64; LIMBS]) {
        let mask = mask_of(subtract(x, y));
        let mut carry = false;
        for (x, m) in x.iter_mut().zip(&self.limbs) {
            (*x, carry) = x.carrying_add(m & mask, carry);
        }
    }

    /// Brings x < 2^(64·LIMBS) below m.
    ///
    /// Secrets:  x, m. Branches and addresses depend on none.
    pub fn reduce(&self, x: &mut [u64; LIMBS]) {
        // The top bit of m is set, so x < 2m.
        reduce_once(x, 0, &self.limbs);
    }

    /// Computes z = x·y·R^-1 mod m.
    ///
    /// Requires: x < m or y < m.
    /// Ensures:  z < m.
    /// Secrets:  x, y, m. Branches and addresses depend on none.
    /// Cost:     2·LIMBS² multiplications of 64 bits.
    pub fn multiply(&self, z: &mut [u64; LIMBS], x: &[u64; LIMBS], y: &[u64; LIMBS]) {
        z.fill(0);
        let mut top = 0;
        for y in y {
            // z = (z + x·y + quotient·m) / 2^64; the quotient makes the division exact.
            let (sum, mut carry) = x[0].carrying_mul_add(*y, z[0], 0);
            let quotient = sum.wrapping_mul(self.k0);
            let (_, mut carry_reduction) = quotient.carrying_mul_add(self.limbs[0], sum, 0);
            for i in 1..LIMBS {
                let sum;
                (sum, carry) = x[i].carrying_mul_add(*y, z[i], carry);
                (z[i - 1], carry_reduction) =
                    quotient.carrying_mul_add(self.limbs[i], sum, carry_reduction);
            }
            let (sum, overflow) = carry.carrying_add(carry_reduction, false);
            let (sum, overflow_top) = sum.carrying_add(top, false);
            z[LIMBS - 1] = sum;
            top = overflow as u64 + overflow_top as u64;
        }
        reduce_once(z, top, &self.limbs);
    }

    /// Computes z = x mod m for a number of twice the length.
    ///
    /// Requires: x = `low` + R·`high` < R·m.
    /// Ensures:  z < m.
    /// Secrets:  x, m. Branches and addresses depend on none.
    pub fn reduce_wide(
        &self,
        z: &mut [u64; LIMBS],
        low: &[u64; LIMBS],
        high: &[u64; LIMBS],
        workspace: &mut Workspace<LIMBS>,
    ) {
        // high·R mod m, plus low.
        self.multiply(z, high, &self.rr);
        workspace.entry = *low;
        self.reduce(&mut workspace.entry);
        add_modulo(z, &workspace.entry, &self.limbs);
    }

    /// Computes z = R·x mod m, the Montgomery form of x.
    ///
    /// Secrets:  x, m. Branches and addresses depend on none.
    pub fn enter_montgomery(&self, z: &mut [u64; LIMBS], x: &[u64; LIMBS]) {
        self.multiply(z, x, &self.rr);
    }

    /// Computes z = base^exponent mod m.
    ///
    /// Ensures:  z < m.
    /// Secrets:  base, exponent, m. Branches and addresses depend on none: the exponent always
    ///           counts as 64·LIMBS bits, and each lookup reads the whole table.
    /// Cost:     1.2·64·LIMBS multiplications modulo m.
    pub fn exponentiate(
        &self,
        z: &mut [u64; LIMBS],
        base: &[u64; LIMBS],
        exponent: &[u64; LIMBS],
        workspace: &mut Workspace<LIMBS>,
    ) {
        let Workspace { accumulator, power, entry, table } = workspace;
        let one = one();
        self.multiply(&mut table[0], &self.rr, &one);
        self.multiply(&mut table[1], &self.rr, base);
        for index in 2..TABLE_ENTRIES {
            let (lower, upper) = table.split_at_mut(index);
            self.multiply(&mut upper[0], &lower[index - 1], &lower[1]);
        }

        let bits = 64 * LIMBS;
        let mut position = (bits - 1) / WINDOW_BITS * WINDOW_BITS;
        select(accumulator, table, window(exponent, position));
        while position > 0 {
            position -= WINDOW_BITS;
            for _ in 0..WINDOW_BITS {
                self.multiply(power, accumulator, accumulator);
                core::mem::swap(power, accumulator);
            }
            select(entry, table, window(exponent, position));
            self.multiply(power, accumulator, entry);
            core::mem::swap(power, accumulator);
        }
        self.multiply(z, accumulator, &one);
    }

    /// Computes z = base^exponent mod m for a public exponent, in time that depends on it.
    ///
    /// Requires: `exponent` odd and at least 3; base < m.
    /// Ensures:  z < m.
    /// Secrets:  base, m. Branches and addresses depend on `exponent` alone.
    pub fn exponentiate_public_vartime(
        &self,
        z: &mut [u64; LIMBS],
        base: &[u64; LIMBS],
        exponent: u64,
        workspace: &mut Workspace<LIMBS>,
    ) {
        debug_assert!(exponent & 1 == 1 && exponent >= 3);
        let Workspace { accumulator, power, entry, .. } = workspace;
        self.multiply(entry, base, &self.rr);
        *accumulator = *entry;
        for bit in (0..exponent.ilog2()).rev() {
            self.multiply(power, accumulator, accumulator);
            if bit == 0 {
                // The last factor, in plain form, also takes the product out of Montgomery form.
                self.multiply(z, power, base);
            } else if exponent >> bit & 1 == 1 {
                self.multiply(accumulator, power, entry);
            } else {
                core::mem::swap(power, accumulator);
            }
        }
    }
}

impl<const LIMBS: usize> Drop for Modulus<LIMBS> {
    fn drop(&mut self) {
        wipe(&mut self.limbs);
        wipe(core::slice::from_mut(&mut self.k0));
        wipe(&mut self.rr);
    }
}

impl<const LIMBS: usize> Workspace<LIMBS> {
    /// Makes a clean workspace.
    pub const fn new() -> Self {
        Workspace {
            accumulator: [0; LIMBS],
            power: [0; LIMBS],
            entry: [0; LIMBS],
            table: [[0; LIMBS]; TABLE_ENTRIES],
        }
    }
}

impl<const LIMBS: usize> Default for Workspace<LIMBS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const LIMBS: usize> Drop for Workspace<LIMBS> {
    fn drop(&mut self) {
        wipe(&mut self.accumulator);
        wipe(&mut self.power);
        wipe(&mut self.entry);
        wipe(self.table.as_flattened_mut());
    }
}

/// Computes z = x·y + addend in full length; `z` is the low half, then the high half.
///
/// Requires: z.len() = x.len() + y.len(); addend.len() = x.len().
/// Secrets:  x, y, addend. Branches and addresses depend on none.
pub fn multiply_wide(z: &mut [u64], x: &[u64], y: &[u64], addend: &[u64]) {
    debug_assert_eq!(z.len(), x.len() + y.len());
    debug_assert_eq!(addend.len(), x.len());
    z.fill(0);
    z[..addend.len()].copy_from_slice(addend);
    for (offset, y) in y.iter().enumerate() {
        let mut carry = 0;
        for (z, x) in z[offset..].iter_mut().zip(x) {
            (*z, carry) = x.carrying_mul_add(*y, *z, carry);
        }
        z[offset + x.len()] = carry;
    }
}

/// Computes x = x - y modulo R and returns whether y was the larger.
///
/// Secrets:  x, y. Branches and addresses depend on none.
pub fn subtract<const LIMBS: usize>(x: &mut [u64; LIMBS], y: &[u64; LIMBS]) -> bool {
    let mut borrow = false;
    for (x, y) in x.iter_mut().zip(y) {
        (*x, borrow) = x.borrowing_sub(*y, borrow);
    }
    borrow
}

/// Computes x = x + y mod m for any m, odd or even.
///
/// Requires: x, y < m.
/// Secrets:  x, y, m. Branches and addresses depend on none.
pub fn add_modulo<const LIMBS: usize>(x: &mut [u64; LIMBS], y: &[u64; LIMBS], m: &[u64; LIMBS]) {
    let mut carry = false;
    for (x, y) in x.iter_mut().zip(y) {
        (*x, carry) = x.carrying_add(*y, carry);
    }
    reduce_once(x, carry as u64, m);
}

/// Subtracts m from `top`·R + x unless the difference is negative.
fn reduce_once<const LIMBS: usize>(x: &mut [u64; LIMBS], top: u64, m: &[u64; LIMBS]) {
    let mut borrow = false;
    for (x, m) in x.iter().zip(m) {
        (_, borrow) = x.borrowing_sub(*m, borrow);
    }
    let (_, negative) = top.borrowing_sub(0, borrow);
    let mask = !mask_of(negative);
    let mut borrow = false;
    for (x, m) in x.iter_mut().zip(m) {
        (*x, borrow) = x.borrowing_sub(m & mask, borrow);
    }
}

/// Reads entry `index` of `table` by reading all of it.
fn select<const LIMBS: usize>(
    entry: &mut [u64; LIMBS],
    table: &[[u64; LIMBS]; TABLE_ENTRIES],
    index: u64,
) {
    entry.fill(0);
    for (candidate_index, candidate) in (0..).zip(table) {
        let mask = Mask::equal(index, candidate_index).word();
        for (entry, candidate) in entry.iter_mut().zip(candidate) {
            *entry |= candidate & mask;
        }
    }
}

/// The `WINDOW_BITS` bits of `exponent` from `position` up.
fn window<const LIMBS: usize>(exponent: &[u64; LIMBS], position: usize) -> u64 {
    let (limb, bit) = (position / 64, position % 64);
    let low = exponent[limb] >> bit;
    let high = if bit > 64 - WINDOW_BITS && limb + 1 < LIMBS {
        exponent[limb + 1] << (64 - bit)
    } else {
        0
    };
    (low | high) & (TABLE_ENTRIES as u64 - 1)
}

/// All ones for `true`, zero for `false`, in a form the compiler cannot turn back into a branch.
fn mask_of(condition: bool) -> u64 {
    Mask::equal(condition as u64, 1).word()
}

/// The number one.
const fn one<const LIMBS: usize>() -> [u64; LIMBS] {
    let mut one = [0; LIMBS];
    one[0] = 1;
    one
}
