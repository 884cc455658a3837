//! Tests of ML-KEM's parts: compression of every number, packing, and the transform, in every room.

use std::boxed::Box;
use std::vec;

use widelane_cpu::{Avx2, Avx512, Policy, Room, Vbmi512};
use widelane_testkit::random::Random;
use widelane_testkit::rooms::supported_of;

use super::group::{COEFFICIENTS, FromBuffers, ToBuffers};
use super::numbers::{Q, ROWS};
use super::packing::{Compressed, Encoding, Meaning, Pack, Plain, Unpack};
use super::transform::{Forward, Inverse, Products, TimesGamma};
use super::*;
use crate::coefficients::{Avx2Pairs, Avx512Pairs, PortablePairs, Row, Vbmi512Pairs};

/// Calls `test` in every room.
macro_rules! tour {
    ($test:ident) => {
        let mut visited = vec![Room::Portable];
        $test::<PortablePairs>(());
        if let Some(room) = Avx2::enter(&Policy::open()) {
            $test::<Avx2Pairs>(room);
            visited.push(Room::Avx2);
        }
        if let Some(room) = Avx512::enter(&Policy::open()) {
            $test::<Avx512Pairs>(room);
            visited.push(Room::Avx512);
        }
        if let Some(room) = Vbmi512::enter(&Policy::open()) {
            $test::<Vbmi512Pairs>(room);
            visited.push(Room::Vbmi512);
        }
        assert_eq!(
            visited,
            supported_of(&[Room::Portable, Room::Avx2, Room::Avx512, Room::Vbmi512])
        );
    };
}

type Polynomial = [u16; COEFFICIENTS];

fn get(group: &Group, lane: usize) -> Polynomial {
    core::array::from_fn(|index| {
        let (pair, half) = (index / 2 % ROWS, index / 2 / ROWS);
        (group.0[pair].0[lane + 8 * half] >> (16 * (index % 2))) as u16
    })
}

fn put(group: &mut Group, lane: usize, coefficients: &Polynomial) {
    for (index, [first, second]) in coefficients.as_chunks().0.iter().enumerate() {
        let word = u32::from(*first) | u32::from(*second) << 16;
        group.0[index % ROWS].0[lane + 8 * (index / ROWS)] = word;
    }
}

/// A coefficient as a number below q.
fn number(coefficient: u16) -> u32 {
    i32::from(coefficient.cast_signed()).rem_euclid(Q as i32) as u32
}

/// The number that stands behind `bits`·`index` bits.
fn field(bytes: &[u8], bits: usize, index: usize) -> u32 {
    (0..bits).fold(0, |sum, bit| {
        let at = bits * index + bit;
        sum | u32::from(bytes[at / 8] >> (at % 8) & 1) << bit
    })
}

/// Packs all numbers below q, and unpacks all bytes.
fn packs_as<C: Coefficients, M: Meaning + Encoding, const BITS: usize>(
    room: C::Room,
    encode: impl Fn(u32) -> u32,
    decode: impl Fn(u32) -> u32,
) {
    let (mut group, mut packed) = (Box::new(Group::ZERO), Box::new(Group::ZERO));
    let mut buffers = [const { Buffer::ZERO }; JOBS_MAX];
    for first in (0..Q).step_by(COEFFICIENTS * JOBS_MAX) {
        let of_lane = |lane: usize| -> Polynomial {
            core::array::from_fn(|index| ((first as usize + 8 * index + lane) % Q as usize) as u16)
        };
        (0..JOBS_MAX).for_each(|lane| put(&mut group, lane, &of_lane(lane)));
        C::call(room, Pack::<M, BITS>::new(&group, &mut packed));
        C::call(room, ToBuffers { packed: &packed, bits: BITS, buffers: &mut buffers });
        for (lane, buffer) in buffers.iter().enumerate() {
            let mut bytes = vec![0; 32 * BITS];
            buffer.copy_bytes(&mut bytes);
            for (index, coefficient) in of_lane(lane).into_iter().enumerate() {
                let got = field(&bytes, BITS, index);
                assert_eq!(got, encode(coefficient.into()), "{coefficient} by {BITS} bits");
            }
        }
    }
    let mut random = Random::new(BITS as u64);
    let mut bytes = [vec![0; 32 * BITS], vec![0; 32 * BITS]];
    bytes.iter_mut().for_each(|bytes| random.fill(bytes));
    for (lane, buffer) in buffers.iter_mut().enumerate() {
        buffer.put_bytes(&bytes[lane % 2]);
    }
    C::call(room, FromBuffers { buffers: &buffers, bits: BITS, target: &mut group });
    C::call(room, Unpack::<M, BITS>::new(&mut group));
    for lane in 0..JOBS_MAX {
        for (index, got) in get(&group, lane).into_iter().enumerate() {
            let expected = decode(field(&bytes[lane % 2], BITS, index));
            assert_eq!(u32::from(got), expected, "{BITS} bits");
        }
    }
}

fn compresses<C: Coefficients>(room: C::Room) {
    // FIPS 203, 4.7 and 4.8, with divisions.
    let encode = |bits: u32| move |x: u32| (((x << bits) + Q / 2) / Q) & ((1 << bits) - 1);
    let decode = |bits: u32| move |y: u32| (Q * y + (1 << (bits - 1))) >> bits;
    packs_as::<C, Compressed<1>, 1>(room, encode(1), decode(1));
    packs_as::<C, Compressed<4>, 4>(room, encode(4), decode(4));
    packs_as::<C, Compressed<5>, 5>(room, encode(5), decode(5));
    packs_as::<C, Compressed<10>, 10>(room, encode(10), decode(10));
    packs_as::<C, Compressed<11>, 11>(room, encode(11), decode(11));
    packs_as::<C, Plain, 12>(room, |x| x, |y| y);
}

#[test]
fn every_number_is_compressed_as_by_division() {
    tour!(compresses);
}

/// The product modulo x^256 + 1.
fn product(a: &Polynomial, b: &Polynomial) -> [u32; COEFFICIENTS] {
    let mut sums = [0u64; COEFFICIENTS];
    for (i, a) in a.iter().enumerate() {
        for (j, b) in b.iter().enumerate() {
            let term = u64::from(number(*a) * number(*b) % Q);
            // x^256 is −1.
            let term = if i + j < COEFFICIENTS { term } else { u64::from(Q) - term };
            sums[(i + j) % COEFFICIENTS] += term;
        }
    }
    sums.map(|sum| (sum % u64::from(Q)) as u32)
}

fn multiplies<C: Coefficients>(room: C::Room) {
    let mut random = Random::new(7);
    let polynomials: [Polynomial; 4] = core::array::from_fn(|which| {
        core::array::from_fn(|_| match which {
            // The largest, then any.
            0 | 1 => (Q - 1) as u16,
            _ => random.below(Q as usize) as u16,
        })
    });
    let mut groups = vec![Group::ZERO; 4];
    for lane in 0..JOBS_MAX {
        for (which, group) in groups.iter_mut().enumerate() {
            put(group, lane, &polynomials[(which + lane) % 4]);
        }
    }
    for group in &mut groups {
        C::call(room, Forward(group));
        let coefficients = group.0.iter().flat_map(|row| row.0).flat_map(|word| [word, word >> 16]);
        let sizes = coefficients.map(|word| (word as u16).cast_signed().unsigned_abs());
        assert!(sizes.map(u32::from).all(|size| size <= 2 * Q / 3));
    }
    let mut scaled = vec![Group::ZERO; 2];
    for (source, target) in groups[2..].iter().zip(&mut scaled) {
        C::call(room, TimesGamma { source, target });
    }
    let mut target = Box::new(Group::ZERO);
    let task: Products<'_, 2, false> = Products {
        multiplicands: groups.first_chunk().unwrap(),
        multipliers: [&groups[2], &groups[3]],
        times_gamma: [&scaled[0], &scaled[1]],
        choices: &[Row::ZERO; 2],
        target: &mut target,
    };
    C::call(room, task);
    C::call(room, Inverse(&mut target));
    for lane in 0..JOBS_MAX {
        let at = |which: usize| &polynomials[(which + lane) % 4];
        let (one, other) = (product(at(0), at(2)), product(at(1), at(3)));
        let got = get(&target, lane).map(number);
        let expected: [u32; COEFFICIENTS] =
            core::array::from_fn(|index| (one[index] + other[index]) % Q);
        assert_eq!(got, expected, "lane {lane}");
    }
}

#[test]
fn products_of_transformed_polynomials_are_those_of_polynomials() {
    tour!(multiplies);
}
