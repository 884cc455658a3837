//! Tests of mont::one: every way to multiply pairs of numbers against num-bigint.

use std::vec::Vec;
use std::{array, eprintln, vec};

use num_bigint::BigUint;
use widelane_cpu::{Fma256, Ifma256, Ifma512, Policy, Room};
use widelane_testkit::random::Random;
use widelane_testkit::rsa::{TestKey, padded, test_keys};

use super::super::key::{CrtJob, CrtKey, CrtParts, Verdict};
use super::super::modulus::{Modulus, ShortModulus};
use super::fma256::Fma256Multiplier;
use super::pairs::{COUNT, Multiplier, Pair};
use super::products::Products;
use super::{Operation, confirms, confirms_pair, exponentiate_pair, private_crt, recombine};
use crate::digits::{DIGIT_BITS, SHORT_BITS, SHORT_MASK};
use crate::lanes::fma256_x4::with_rounding;
use crate::lanes::{Array, Fma256x4, Ifma256x4, Ifma512x8};
use crate::registers::Register;

/// The shortest modulus, the longest, or a random one.
fn modulus(bits: usize, kind: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = vec![0; bits / 8];
    match kind {
        0 => {}
        1 => bytes.fill(0xff),
        _ => random.fill(&mut bytes),
    }
    bytes[0] |= 0x80;
    bytes[bits / 8 - 1] |= 1;
    bytes
}

/// A factor below 2·m: an edge or none in particular.
fn factor(m: &BigUint, kind: usize, random: &mut Random) -> BigUint {
    match kind {
        0 => BigUint::ZERO,
        1 => BigUint::from(1u32),
        2 => m - 1u32,
        3 => m.clone(),
        4 => m * 2u32 - 1u32,
        5 => (BigUint::from(1u32) << m.bits()) - 1u32,
        _ => {
            let mut bytes = vec![0; m.bits() as usize / 8 + 8];
            random.fill(&mut bytes);
            BigUint::from_bytes_be(&bytes) % m
        }
    }
}

fn short_digits(number: &BigUint, count: usize) -> Vec<u64> {
    let digit = |i: usize| number >> (i * SHORT_BITS as usize) & BigUint::from(SHORT_MASK);
    (0..count).map(|i| digit(i).iter_u64_digits().next().unwrap_or(0)).collect()
}

fn check<L: Register<Word = u64>, M: Multiplier<L, R>, const R: usize, const LONG: usize>(
    room: L::Room,
) {
    let digits = LONG + 1;
    let mut random = Random::new(digits as u64);
    let r = BigUint::from(1u32) << (SHORT_BITS as usize * digits);
    for turn in 0..60 {
        let m: [_; COUNT] =
            array::from_fn(|i| modulus(LONG / 5 * 256, (turn + i) % 4, &mut random));
        let moduli: [_; COUNT] = array::from_fn(|i| Modulus::<LONG>::new(&m[i]));
        let m = m.map(|bytes| BigUint::from_bytes_be(&bytes));
        let mut factors = |stride: usize| -> [BigUint; COUNT] {
            array::from_fn(|i| factor(&m[i], (turn * stride + i) % 8, &mut random))
        };
        let (x, y) = (factors(1), factors(3));
        let pair = |numbers: &[BigUint; COUNT]| {
            let digits = numbers.each_ref().map(|number| short_digits(number, digits));
            Pair::<L, R>::from_short(digits.each_ref().map(|digits| &digits[..]))
        };
        let moduli = moduli.each_ref();
        let short = moduli.map(|modulus| ShortModulus::of(modulus, LONG / 5 * 256));
        let mut multiplier = M::new(room, moduli, short.each_ref());
        multiplier.set_y(room, &pair(&y));
        for operation in [Operation::Square, Operation::Multiply] {
            multiplier.set_x(room, &pair(&x));
            multiplier.run(room, operation, 1);
            for i in 0..COUNT {
                let mut product = multiplier.x(room);
                let words: Vec<u64> = product.digits_mut(i).map(|word| *word).collect();
                let z = words.iter().rev().fold(BigUint::ZERO, |z, word| (z << SHORT_BITS) + word);
                let other = if operation == Operation::Square { &x[i] } else { &y[i] };
                assert_eq!(&z * &r % &m[i], &x[i] * other % &m[i], "{digits} digits, turn {turn}");
                assert!(z < &m[i] * 3u32, "bound, {digits} digits, turn {turn}");
            }
        }
    }
}

#[test]
fn products_of_pairs_equal_num_bigint() {
    check::<Array<8>, Products<Array<8>, 6, 4, 21>, 6, 20>(());
    check::<Array<4>, Products<Array<4>, 11, 2, 21>, 11, 20>(());

    let policy = Policy::open();
    let mut visited = 0;
    if let Some(room) = Ifma512::enter(&policy) {
        check::<Ifma512x8, Products<Ifma512x8, 6, 4, 21>, 6, 20>(room);
        check::<Ifma512x8, Products<Ifma512x8, 8, 4, 31>, 8, 30>(room);
        check::<Ifma512x8, Products<Ifma512x8, 11, 4, 41>, 11, 40>(room);
        visited += 1;
    }
    if let Some(room) = Ifma256::enter(&policy) {
        check::<Ifma256x4, Products<Ifma256x4, 11, 2, 21>, 11, 20>(room);
        visited += 1;
    }
    if let Some(room) = Fma256::enter(&policy) {
        check::<Fma256x4, Fma256Multiplier<11>, 11, 20>(room);
        check::<Fma256x4, Fma256Multiplier<16>, 16, 30>(room);
        check::<Fma256x4, Fma256Multiplier<21>, 21, 40>(room);
        visited += 1;
    }
    let rooms = [Room::Ifma512, Room::Ifma256, Room::Fma256];
    assert_eq!(visited, rooms.into_iter().filter(|room| room.is_supported()).count());
}

fn prepared(key: &TestKey) -> CrtKey<20, 40> {
    let TestKey { n, e, p, q, dp, dq, qinv, .. } = key;
    let e = e.iter().fold(0, |e, byte| e << 8 | u64::from(*byte));
    CrtKey::new(&CrtParts { n, e, p, q, dp, dq, qinv })
}

/// Both exponentiations of a private operation, and its check.
fn check_powers<L: Register<Word = u64>, M: Multiplier<L, R>, const R: usize>(room: L::Room) {
    let key = &test_keys(2048)[0];
    let TestKey { n, p, q, dp, dq, .. } = key;
    let prepared = prepared(key);
    let [n, p, q, dp, dq] = [n, p, q, dp, dq].map(|bytes| BigUint::from_bytes_be(bytes));
    let mut random = Random::new(20);
    for turn in 0..4 {
        let number = factor(&n, turn, &mut random) % &n;
        let digits = prepared.modulus_digits(&padded(&number, 256));
        let powers = exponentiate_pair::<M, L, R, 20, 40>(room, &prepared, &digits);
        for (power, (m, exponent)) in powers.iter().zip([(&p, &dp), (&q, &dq)]) {
            let power =
                power.iter().rev().fold(BigUint::ZERO, |z, digit| (z << DIGIT_BITS) + digit);
            assert_eq!(power, number.modpow(exponent, m), "turn {turn}");
        }
        let mut result = recombine(&prepared, &powers[0], &powers[1]);
        let confirms =
            |result: &[u64; 40]| confirms_pair::<M, L, R, 20, 40>(room, &prepared, &digits, result);
        assert!(confirms(&result), "turn {turn}");
        result[turn] ^= 1;
        assert!(!confirms(&result), "turn {turn}");
    }
}

/// Products of double-precision numbers are rounded to nearest whatever the program has set, which
/// it finds again.
#[test]
fn the_rounding_mode_of_the_program_does_not_matter() {
    let Some(room) = Fma256::enter(&Policy::open()) else {
        eprintln!("room fma256 is closed here: nothing was tested");
        return;
    };
    let test_key = &test_keys(2048)[0];
    let key = &prepared(test_key);
    let input = &[0x42; 256];
    let expected = test_key.private(input);
    for mode in 0..4 {
        let mut output = [0; 256];
        let mut job = CrtJob { key, input, output: &mut output, verdict: Verdict::Pending };
        let found = with_rounding(mode, || {
            private_crt::<Fma256x4, _, _>(room, &mut job);
            confirms::<Fma256x4, _, _>(room, key, input, &expected)
        });
        assert_eq!((job.verdict, found), (Verdict::Done, (true, true)), "mode {mode}");
        assert_eq!(output[..], expected[..], "mode {mode}");
    }
}

#[test]
fn powers_of_pairs_equal_num_bigint() {
    check_powers::<Array<8>, Products<Array<8>, 6, 4, 21>, 6>(());
    check_powers::<Array<4>, Products<Array<4>, 11, 2, 21>, 11>(());
    if let Some(room) = Fma256::enter(&Policy::open()) {
        check_powers::<Fma256x4, Fma256Multiplier<11>, 11>(room);
    }
}
