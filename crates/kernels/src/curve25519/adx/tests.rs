//! Tests of room adx of curve25519 against plain integers, the RFC and the room portable.

use std::vec::Vec;

use num_bigint::BigUint;
use widelane_cpu::Policy;
use widelane_testkit::random::Random;

use super::super::x25519 as in_lanes;
use super::*;
use crate::lanes::Portable;

/// The token, where there is one to be had.
fn room() -> Option<Adx> {
    let room = Adx::enter(&Policy::open());
    if room.is_none() {
        std::eprintln!("this CPU has no room adx");
    }
    room
}

fn p() -> BigUint {
    BigUint::from(2u8).pow(255) - 19u8
}

fn integer(limbs: [u64; 4]) -> BigUint {
    limbs.iter().rev().fold(BigUint::ZERO, |sum, limb| (sum << 64u32) + *limb)
}

/// What is at an edge below 2^255 + 2^210 and, if `all`, below 2^256, and numbers at random.
fn numbers(all: bool) -> Vec<[u64; 4]> {
    const MAX: u64 = u64::MAX;
    let mut numbers = std::vec![
        [0; 4],
        [1, 0, 0, 0],
        [MAX, 0, 0, 0],
        [0, MAX, MAX, MAX >> 1],
        [MAX - 19, MAX, MAX, MAX >> 1],
        [MAX - 18, MAX, MAX, MAX >> 1],
        [MAX - 17, MAX, MAX, MAX >> 1],
        [MAX, MAX, MAX, MAX >> 1],
        [0, 0, 0, 1 << 63],
        [18, 0, 0, 1 << 63],
        [MAX, MAX, MAX, (1 << 63) + (1 << 18) - 1],
    ];
    if all {
        numbers.extend([
            [MAX - 38, MAX, MAX, MAX],
            [MAX - 37, MAX, MAX, MAX],
            [MAX - 36, MAX, MAX, MAX],
            [MAX; 4],
            [MAX, 0, MAX, MAX],
            [0, 0, 0, MAX],
        ]);
    }
    let mut random = Random::new(if all { 256 } else { 255 });
    for _ in 0..100 {
        let [l0, l1, l2, l3] = std::array::from_fn(|_| random.next_u64());
        numbers.push([l0, l1, l2, if all { l3 } else { l3 >> 1 }]);
    }
    numbers
}

#[test]
fn the_field_agrees_with_plain_integers() {
    let Some(room) = room() else { return };
    let same = |element: Element, expected: BigUint, what: &str| {
        let canonical = integer(element.to_words());
        assert!(
            integer(element.limbs()) < (BigUint::from(1u8) << 255) + (BigUint::from(1u8) << 210)
        );
        assert_eq!(canonical, expected % p(), "{what}");
    };
    let large = p() << 2;
    for a in numbers(true) {
        let factor = Factor::from_limbs(room, a);
        same(factor.square(), integer(a).pow(2), "a²");
        for b in numbers(true) {
            let product = factor.mul(&Factor::from_limbs(room, b));
            same(product, integer(a) * integer(b), "a·b");
        }
        for b in numbers(false) {
            let element = Element::from_limbs(room, b);
            let sum = factor.times_a24_plus(&element);
            same(sum, integer(b) + integer(a) * 121665u32, "b + 121665·a");
        }
    }
    let one = Factor::from_limbs(room, [1, 0, 0, 0]);
    for a in numbers(false) {
        let element = Element::from_limbs(room, a);
        same(element, integer(a), "a");
        same(element.invert(), integer(a).modpow(&(p() - 2u8), &p()), "1/a");
        for b in numbers(false) {
            let other = Element::from_limbs(room, b);
            same(element.plus(&other).mul(&one), integer(a) + integer(b), "a + b");
            same(element.minus(&other).mul(&one), &large + integer(a) - integer(b), "a − b");
            let chosen = [0, 1].map(|bit| element.select(bit, &other).mul(&one));
            same(chosen[0], integer(a), "the first");
            same(chosen[1], integer(b), "the second");
        }
    }
}

#[test]
fn the_ladder_agrees_with_the_one_in_lanes() {
    let Some(room) = room() else { return };
    let mut random = Random::new(1);
    let mut number = |round: usize| {
        let mut bytes = [0; 32];
        match round % 8 {
            0 => bytes[0] = (round / 8) as u8,
            // p, 2^255 and around, with the highest bit and without it.
            1 => {
                bytes = [0xff; 32];
                bytes[0] = 0xe0 + (round / 8 % 32) as u8;
                bytes[31] = 0x7f | (round / 256 % 2 * 0x80) as u8;
            }
            2 => bytes[round / 8 % 32] = 1 << (round % 7),
            _ => random.fill(&mut bytes),
        }
        bytes
    };
    for round in 0..2000 {
        let (point, scalar) = (number(round), number(7 * round + 2));
        let (mut result, mut expected) = ([1; 32], [[0; 32]]);
        let zero = x25519(room, &scalar, &point, &mut result);
        let expected_zero = in_lanes::<Portable>((), &[&scalar], &[&point], &mut expected);
        assert_eq!(result, expected[0], "{point:x?} {scalar:x?}");
        assert_eq!(zero.declassify(0), expected_zero.declassify(0));
    }
}

/// RFC 7748 section 5.2: a thousand iterations.
#[test]
fn the_iterated_vector_comes_out() {
    let Some(room) = room() else { return };
    let mut point = [0; 32];
    point[0] = 9;
    let mut scalar = point;
    for _ in 0..1000 {
        let mut result = [0; 32];
        x25519(room, &scalar, &point, &mut result);
        (scalar, point) = (result, scalar);
    }
    let first_bytes = [0x68, 0x4c, 0xf5, 0x9b, 0xa8, 0x33, 0x09, 0x55];
    assert_eq!(scalar[..8], first_bytes);
}
