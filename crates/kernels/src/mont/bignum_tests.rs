//! Room portable of mont against arbitrary-precision arithmetic.

use std::vec;
use std::vec::Vec;

use num_bigint::BigUint;
use widelane_testkit::random::Random;

use super::portable::{self, Modulus, Workspace};

fn big(limbs: &[u64]) -> BigUint {
    limbs.iter().rev().fold(BigUint::ZERO, |number, limb| (number << 64u32) + limb)
}

fn limbs<const LIMBS: usize>(number: &BigUint) -> [u64; LIMBS] {
    let mut limbs = [0; LIMBS];
    for (limb, digit) in limbs.iter_mut().zip(number.iter_u64_digits()) {
        *limb = digit;
    }
    assert_eq!(big(&limbs), *number, "the number fits");
    limbs
}

fn random_limbs<const LIMBS: usize>(random: &mut Random) -> [u64; LIMBS] {
    std::array::from_fn(|_| random.next_u64())
}

/// The smallest and the largest modulus of a length, and some between.
fn moduli<const LIMBS: usize>() -> Vec<Modulus<LIMBS>> {
    let mut random = Random::new(LIMBS as u64);
    let mut smallest = [0; LIMBS];
    smallest[0] = 1;
    smallest[LIMBS - 1] = 1 << 63;
    let mut candidates = vec![smallest, [u64::MAX; LIMBS]];
    for _ in 0..4 {
        let mut candidate: [u64; LIMBS] = random_limbs(&mut random);
        candidate[0] |= 1;
        candidate[LIMBS - 1] |= 1 << 63;
        candidates.push(candidate);
    }
    candidates.iter().map(|limbs| Modulus::new(limbs).expect("odd, top bit set")).collect()
}

/// 0, 1, m - 1, and some numbers below m.
fn residues<const LIMBS: usize>(m: &BigUint) -> Vec<[u64; LIMBS]> {
    let mut random = Random::new(m.bits());
    let mut residues = vec![BigUint::ZERO, BigUint::from(1u32), m - 1u32];
    residues.extend((0..3).map(|_| big(&random_limbs::<LIMBS>(&mut random)) % m));
    residues.iter().map(limbs).collect()
}

fn arithmetic_agrees<const LIMBS: usize>() {
    let r = BigUint::from(1u32) << (64 * LIMBS);
    for modulus in moduli::<LIMBS>() {
        let m = big(modulus.limbs());
        let residues = residues::<LIMBS>(&m);
        let mut workspace = Workspace::new();
        let mut z = [0; LIMBS];
        for x in &residues {
            modulus.enter_montgomery(&mut z, x);
            assert_eq!(big(&z), big(x) * &r % &m);
            for y in &residues {
                modulus.multiply(&mut z, x, y);
                assert_eq!(big(&z) * &r % &m, big(x) * big(y) % &m);
                assert!(big(&z) < m);

                z = *x;
                portable::add_modulo(&mut z, y, modulus.limbs());
                assert_eq!(big(&z), (big(x) + big(y)) % &m);

                z = *x;
                modulus.subtract(&mut z, y);
                assert_eq!(big(&z), (big(x) + &m - big(y)) % &m);

                z = *x;
                assert_eq!(portable::subtract(&mut z, y), big(x) < big(y));

                // Any low half goes with a high half below m.
                for low in [*y, [u64::MAX; LIMBS]] {
                    modulus.reduce_wide(&mut z, &low, x, &mut workspace);
                    assert_eq!(big(&z), (big(x) * &r + big(&low)) % &m);
                }
            }
        }
        z = [u64::MAX; LIMBS];
        modulus.reduce(&mut z);
        assert_eq!(big(&z), (&r - 1u32) % &m);
    }
}

#[test]
fn arithmetic_agrees_at_every_length() {
    arithmetic_agrees::<16>();
    arithmetic_agrees::<24>();
    arithmetic_agrees::<32>();
    arithmetic_agrees::<48>();
    arithmetic_agrees::<64>();
}

fn exponentiation_agrees<const LIMBS: usize>() {
    let mut random = Random::new(LIMBS as u64);
    let mut workspace = Workspace::new();
    let mut z = [0; LIMBS];
    for modulus in moduli::<LIMBS>() {
        let m = big(modulus.limbs());
        let mut small = [0; LIMBS];
        small[0] = 2;
        let exponents = [[0; LIMBS], small, [u64::MAX; LIMBS], random_limbs::<LIMBS>(&mut random)];
        for base in residues(&m) {
            for exponent in &exponents {
                modulus.exponentiate(&mut z, &base, exponent, &mut workspace);
                assert_eq!(big(&z), big(&base).modpow(&big(exponent), &m));
            }
        }
    }
}

#[test]
fn exponentiation_agrees_for_primes_of_every_size() {
    exponentiation_agrees::<16>();
    exponentiation_agrees::<24>();
    exponentiation_agrees::<32>();
}

fn public_exponentiation_agrees<const LIMBS: usize>() {
    let mut workspace = Workspace::new();
    let mut z = [0; LIMBS];
    for modulus in moduli::<LIMBS>() {
        let m = big(modulus.limbs());
        for base in residues(&m) {
            for exponent in [3, 5, 17, 65537, (1 << 32) + 1, (1 << 33) - 1] {
                modulus.exponentiate_public_vartime(&mut z, &base, exponent, &mut workspace);
                assert_eq!(big(&z), big(&base).modpow(&BigUint::from(exponent), &m));
            }
        }
    }
}

#[test]
fn public_exponentiation_agrees_for_moduli_of_every_size() {
    public_exponentiation_agrees::<32>();
    public_exponentiation_agrees::<48>();
    public_exponentiation_agrees::<64>();
}

#[test]
fn full_products_agree() {
    let mut random = Random::new(7);
    let operands: [[u64; 16]; 3] =
        [[0; 16], [u64::MAX; 16], std::array::from_fn(|_| random.next_u64())];
    let mut z = [0; 32];
    for x in &operands {
        for y in &operands {
            for addend in &operands {
                portable::multiply_wide(&mut z, x, y, addend);
                assert_eq!(big(&z), big(x) * big(y) + big(addend));
            }
        }
    }
}

#[test]
fn even_and_short_moduli_are_refused() {
    let mut even = [u64::MAX; 16];
    even[0] -= 1;
    assert!(Modulus::new(&even).is_none());
    let mut short = [u64::MAX; 16];
    short[15] >>= 1;
    assert!(Modulus::new(&short).is_none());
}
