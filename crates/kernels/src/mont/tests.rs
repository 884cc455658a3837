//! Tests of mont: every room against num-bigint, and against the model.

use std::vec::Vec;
use std::{eprintln, vec};

use num_bigint::BigUint;
use widelane_cpu::{Ifma256, Ifma512, Policy};

use super::primes::{PRIMES_1024, PRIMES_1536, PRIMES_2048};
use super::{CrtJob, CrtKey, CrtParts, Verdict, ifma256_x4, ifma512_x8};

/// Big-endian numbers of a test key.
struct TestKey {
    n: BigUint,
    e: u64,
    d: BigUint,
    parts: [Vec<u8>; 6],
}

impl TestKey {
    fn new(p: &str, q: &str, e: u64) -> Self {
        let number = |hex: &str| BigUint::parse_bytes(hex.as_bytes(), 16).expect("a hex number");
        let (p, q, one) = (number(p), number(q), BigUint::from(1u32));
        let (p1, q1) = (&p - &one, &q - &one);
        let n = &p * &q;
        let d = BigUint::from(e).modinv(&(&p1 * &q1)).expect("e is invertible");
        let qinv = q.modinv(&p).expect("q is invertible");
        let parts = [&n, &p, &q, &(&d % &p1), &(&d % &q1), &qinv].map(BigUint::to_bytes_be);
        TestKey { n, e, d, parts }
    }

    fn prepare<const HALF: usize, const FULL: usize>(&self) -> CrtKey<HALF, FULL> {
        let [n, p, q, dp, dq, qinv] = &self.parts;
        CrtKey::new(&CrtParts { n, e: self.e, p, q, dp, dq, qinv })
    }
}

/// Six keys of one size with different primes, in both orders, and different public exponents.
fn test_keys(primes: &[&str; 4]) -> Vec<TestKey> {
    let pairs =
        [(0, 1, 65537), (1, 0, 65537), (2, 3, 3), (0, 2, 0x1_0000_0001), (3, 1, 5), (1, 2, 17)];
    pairs
        .into_iter()
        .filter(|(p, q, e)| {
            let divides = |prime: usize| {
                let prime = BigUint::parse_bytes(primes[prime].as_bytes(), 16).expect("hex");
                (prime - 1u32) % *e == BigUint::ZERO
            };
            !divides(*p) && !divides(*q)
        })
        .map(|(p, q, e)| TestKey::new(primes[p], primes[q], e))
        .collect()
}

/// Reproducible bytes (xorshift64*).
struct Bytes(u64);

impl Bytes {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: &BigUint) -> BigUint {
        let bytes: Vec<u8> = (0..bound.bits() / 8 + 8).map(|_| self.next() as u8).collect();
        BigUint::from_bytes_be(&bytes) % bound
    }
}

fn padded(number: &BigUint, length: usize) -> Vec<u8> {
    let bytes = number.to_bytes_be();
    let mut padded = vec![0; length - bytes.len()];
    padded.extend(bytes);
    padded
}

/// Runs one size through one room: edges and random inputs, every batch size, mixed keys.
fn check_size<const HALF: usize, const FULL: usize>(
    primes: &[&str; 4],
    lanes: usize,
    run: impl Fn(&mut [CrtJob<'_, HALF, FULL>]),
) {
    let keys = test_keys(primes);
    assert!(keys.len() >= 4, "too few keys are left");
    let prepared: Vec<CrtKey<HALF, FULL>> = keys.iter().map(TestKey::prepare).collect();
    let length = keys[0].n.bits().div_ceil(8) as usize;
    let mut random = Bytes(HALF as u64);
    let mut turn = 0;
    for jobs in (1..=lanes).chain([lanes; 3]) {
        let chosen: Vec<usize> = (0..jobs).map(|job| (turn + job) % keys.len()).collect();
        let inputs: Vec<BigUint> = chosen
            .iter()
            .map(|key| {
                turn += 1;
                let n = &keys[*key].n;
                match turn % 8 {
                    0 => BigUint::ZERO,
                    1 => BigUint::from(1u32),
                    2 => n - 1u32,
                    // All digits but the top ones full: the longest carries.
                    3 => (BigUint::from(1u32) << (length * 8 - 1)) - 1u32,
                    4 => BigUint::from_bytes_be(&keys[*key].parts[2]),
                    _ => random.below(n),
                }
            })
            .collect();
        let bytes: Vec<Vec<u8>> = inputs.iter().map(|input| padded(input, length)).collect();
        let mut outputs = vec![vec![0xa5; length]; jobs];
        let mut batch: Vec<CrtJob<'_, HALF, FULL>> = chosen
            .iter()
            .zip(&bytes)
            .zip(&mut outputs)
            .map(|((key, input), output)| CrtJob {
                key: &prepared[*key],
                input,
                output,
                verdict: Verdict::Pending,
            })
            .collect();
        run(&mut batch);
        for (job, (key, input)) in chosen.iter().zip(&inputs).enumerate() {
            assert_eq!(batch[job].verdict, Verdict::Done, "job {job} of {jobs}");
            let expected = input.modpow(&keys[*key].d, &keys[*key].n);
            assert_eq!(BigUint::from_bytes_be(batch[job].output), expected, "job {job} of {jobs}");
        }
    }
}

/// Runs every size through every room that is open, and answers how many were.
fn for_each_room<const HALF: usize, const FULL: usize>(primes: &[&str; 4]) -> usize {
    let mut visited = 0;
    if let Some(room) = Ifma512::enter(&Policy::open()) {
        check_size::<HALF, FULL>(primes, ifma512_x8::LANES, |jobs| {
            ifma512_x8::private_crt(room, jobs);
        });
        visited += 1;
    }
    if let Some(room) = Ifma256::enter(&Policy::open()) {
        check_size::<HALF, FULL>(primes, ifma256_x4::LANES, |jobs| {
            ifma256_x4::private_crt(room, jobs);
        });
        visited += 1;
    }
    eprintln!("{HALF} digits: {visited} batch rooms visited");
    visited
}

/// Batch rooms that this machine has, by CPUID alone.
fn rooms_here() -> usize {
    use widelane_cpu::Room;
    [Room::Ifma256, Room::Ifma512].into_iter().filter(|room| room.is_supported()).count()
}

#[test]
fn rsa_2048_equals_num_bigint_in_every_room() {
    assert_eq!(for_each_room::<20, 40>(&PRIMES_1024), rooms_here());
}

#[test]
fn rsa_3072_equals_num_bigint_in_every_room() {
    assert_eq!(for_each_room::<30, 60>(&PRIMES_1536), rooms_here());
}

#[test]
fn rsa_4096_equals_num_bigint_in_every_room() {
    assert_eq!(for_each_room::<40, 80>(&PRIMES_2048), rooms_here());
}
