//! Tests of mont: every operation of every room against the model, and whole batches.

use std::boxed::Box;
use std::vec::Vec;
use std::{array, eprintln, vec};

use num_bigint::BigUint;
use widelane_cpu::features::upper_halves_in_use;
use widelane_cpu::{Fma256, Ifma256, Ifma512, Policy, Room};
use widelane_testkit::random::Random;
use widelane_testkit::rsa::{TestKey, padded, test_keys};

use super::lanes::{Arithmetic, ENTRIES, LaneDigits, LaneModulus, Lookup, Product, Table};
use super::model::Model;
use super::modulus::{BlockModulus, ShortModulus};
use super::{Batches, CrtJob, CrtKey, CrtParts, Modulus, Verdict};
use crate::digits::{DIGIT_BITS, DIGIT_MASK, SHORT_BITS, bits_of};
use crate::lanes::Fma256x4;
use crate::lanes::{Ifma256x4, Ifma512x8};

fn number(digits: &[u64]) -> BigUint {
    digits.iter().rev().fold(BigUint::ZERO, |number, digit| (number << DIGIT_BITS) + digit)
}

fn digits<const D: usize>(number: &BigUint) -> [u64; D] {
    let mut rest = number.clone();
    let digits = array::from_fn(|_| {
        let digit = (&rest & BigUint::from(DIGIT_MASK)).iter_u64_digits().next().unwrap_or(0);
        rest >>= DIGIT_BITS;
        digit
    });
    assert_eq!(rest, BigUint::ZERO, "the number fits");
    digits
}

/// Says how many rooms a test visited, and that it left none out that CPUID knows of here.
fn assert_visited(test: &str, visited: usize, rooms: &[Room]) {
    eprintln!("{test}: {visited} rooms visited");
    assert_eq!(visited, rooms.iter().filter(|room| room.is_supported()).count());
}

/// A modulus of 51.2·D bits: the shortest, the longest, or a random one.
fn modulus_bytes<const D: usize>(kind: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = vec![0; D / 5 * 32];
    match kind {
        0 => {}
        1 => bytes.fill(0xff),
        _ => random.fill(&mut bytes),
    }
    bytes[0] |= 0x80;
    *bytes.last_mut().expect("not empty") |= 1;
    bytes
}

/// A factor below 3·m: an edge or none in particular.
fn factor(kind: usize, m: &BigUint, random: &mut Random) -> BigUint {
    match kind {
        0 => BigUint::ZERO,
        1 => BigUint::from(1u32),
        2 => m - 1u32,
        3 => m * 3u32 - 1u32,
        4 => (BigUint::from(1u32) << (m.bits() - 1)) - 1u32,
        _ => {
            let mut bytes = vec![0; m.bits() as usize / 8 + 8];
            random.fill(&mut bytes);
            BigUint::from_bytes_be(&bytes) % (m * 3u32)
        }
    }
}

/// Operands of one round, another number in every lane.
struct Round<const D: usize, const LANES: usize> {
    moduli: Vec<Modulus<D>>,
    modulus: Box<LaneModulus<D, LANES>>,
    x: Box<LaneDigits<D, LANES>>,
    y: Box<LaneDigits<D, LANES>>,
}

impl<const D: usize, const LANES: usize> Round<D, LANES> {
    fn new(turn: usize, random: &mut Random) -> Self {
        let moduli: Vec<Modulus<D>> = (0..LANES)
            .map(|lane| Modulus::new(&modulus_bytes::<D>((turn + lane) % 5, random)))
            .collect();
        let mut modulus = Box::new(LaneModulus::ZERO);
        modulus.fill(&array::from_fn(|lane| &moduli[lane]));
        let mut operand = |stride: usize| {
            let numbers: Vec<[u64; D]> = moduli
                .iter()
                .enumerate()
                .map(|(lane, modulus)| {
                    let m = number(&modulus.m);
                    digits(&factor((turn * stride + lane) % 8, &m, random))
                })
                .collect();
            // Above its 52 bits a digit is noise that no room may notice.
            let noise = random.next_u64() & !DIGIT_MASK;
            let mut lanes = Box::new(LaneDigits::ZERO);
            lanes.fill(|lane, i| numbers[lane][i] | noise);
            lanes
        };
        let (x, y) = (operand(1), operand(3));
        Round { moduli, modulus, x, y }
    }
}

fn columns<const D: usize, const LANES: usize>(product: &Product<D, LANES>) -> Vec<[u64; LANES]> {
    product.low.0.iter().chain(&product.high.0).copied().collect()
}

/// Every operation of a room on numbers of D digits.
fn check_operations<const D: usize, const LANES: usize>(room: impl Arithmetic<LANES>) {
    let mut random = Random::new(D as u64);
    let mut product = Box::new(Product::ZERO);
    let mut expected = Box::new(Product::ZERO);
    let mut z = Box::new(LaneDigits::<D, LANES>::ZERO);
    for turn in 0..20 {
        let round = Round::<D, LANES>::new(turn, &mut random);
        room.square(&mut product, &round.x);
        assert_ne!(upper_halves_in_use(), Some(true), "square");
        Model.square(&mut expected, &round.x);
        assert_eq!(columns(&product), columns(&expected), "square, {D} digits, turn {turn}");
        room.multiply(&mut product, &round.x, &round.y);
        assert_ne!(upper_halves_in_use(), Some(true), "multiply");
        Model.multiply(&mut expected, &round.x, &round.y);
        assert_eq!(columns(&product), columns(&expected), "multiply, {D} digits, turn {turn}");

        room.reduce(&mut z, &mut product, &round.modulus, None);
        assert_ne!(upper_halves_in_use(), Some(true), "reduce");
        let r = BigUint::from(1u32) << bits_of(D);
        for (lane, modulus) in round.moduli.iter().enumerate() {
            let (m, z) = (number(&modulus.m), number(&z.lane(lane)));
            let xy = number(&round.x.lane(lane)) * number(&round.y.lane(lane));
            assert_eq!(&z * &r % &m, &xy % &m, "reduce, {D} digits, turn {turn}, lane {lane}");
            assert!(z <= &xy / &r + &m * 2u32, "bound of reduce, {D} digits, turn {turn}");
        }
    }
}

/// Selection beside a reduction and by itself: every lane another entry, every entry in every lane.
fn check_lookups<const D: usize, const LANES: usize>(room: impl Arithmetic<LANES>) {
    let mut random = Random::new(D as u64);
    let mut table = Box::new(Table::<D, LANES>::ZERO);
    table.0.as_flattened_mut().as_flattened_mut().iter_mut().for_each(|word| {
        *word = random.next_u64() & DIGIT_MASK;
    });
    let round = Round::<D, LANES>::new(0, &mut random);
    let (mut product, mut z) = (Box::new(Product::ZERO), Box::new(LaneDigits::ZERO));
    for turn in 0..ENTRIES {
        let index = array::from_fn(|lane| ((turn + 5 * lane) % ENTRIES) as u64);
        let mut target = Box::new(LaneDigits::ZERO);
        let mut lookup = Lookup { table: &table, index, target: &mut target, digits_done: 0 };
        for _ in 0..turn % 7 {
            room.multiply(&mut product, &round.x, &round.y);
            assert_ne!(upper_halves_in_use(), Some(true), "multiply");
            room.reduce(&mut z, &mut product, &round.modulus, Some(&mut lookup));
            assert_ne!(upper_halves_in_use(), Some(true), "reduce");
        }
        room.finish(&mut lookup);
        assert_ne!(upper_halves_in_use(), Some(true), "finish");
        for (lane, entry) in index.iter().enumerate() {
            let wanted: [u64; D] = array::from_fn(|i| table.0[i][*entry as usize][lane]);
            assert_eq!(target.lane(lane), wanted, "entry {entry}, lane {lane}, turn {turn}");
        }
    }
}

fn check_room<const LANES: usize>(room: impl Arithmetic<LANES>) {
    check_operations::<20, LANES>(room);
    check_operations::<30, LANES>(room);
    check_operations::<40, LANES>(room);
    check_operations::<60, LANES>(room);
    check_operations::<80, LANES>(room);
    check_lookups::<20, LANES>(room);
    check_lookups::<30, LANES>(room);
    check_lookups::<40, LANES>(room);
}

#[test]
fn every_operation_equals_the_model_in_every_room() {
    check_room::<3>(Model);
    let mut visited = 0;
    if let Some(room) = Ifma512::enter(&Policy::open()) {
        check_room(room);
        visited += 1;
    }
    if let Some(room) = Ifma256::enter(&Policy::open()) {
        check_room(room);
        visited += 1;
    }
    assert_visited("operations", visited, &[Room::Ifma256, Room::Ifma512]);
}

fn check_moduli<const D: usize>() {
    let mut random = Random::new(D as u64);
    for kind in 0..6 {
        let bytes = modulus_bytes::<D>(kind, &mut random);
        let modulus = Modulus::<D>::new(&bytes);
        let m = BigUint::from_bytes_be(&bytes);
        let r = BigUint::from(1u32) << bits_of(D);
        assert_eq!(number(&modulus.m), m);
        assert_eq!((number(&modulus.m1) << DIGIT_BITS) - 1u32, &m * modulus.k0);
        assert_eq!(number(&modulus.one), &r % &m);
        assert_eq!(number(&modulus.rr), &r * &r % &m);
        assert_eq!(number(&modulus.rrr), &r * &r * &r % &m);
        check_blocks(&modulus.by_four, &m);
        check_blocks(&modulus.by_eight(), &m);
        let r = BigUint::from(1u32) << (SHORT_BITS as usize * (D + 1));
        let short = ShortModulus::of(&modulus, 8 * bytes.len());
        let inverse = short.inverse.iter().chain([&short.inverse_top]);
        let inverse =
            inverse.rev().fold(BigUint::ZERO, |number, digit| (number << SHORT_BITS) + digit);
        assert_eq!((inverse * &m + 1u32) % &r, BigUint::ZERO);
        assert_eq!(number(&short.rr), &r * &r % &m);
    }
}

fn check_blocks<const W: usize, const D: usize>(blocks: &BlockModulus<W, D>, m: &BigUint) {
    let block = BigUint::from(1u32) << bits_of(W);
    assert_eq!(number(&blocks.m1) * &block - 1u32, m * number(&blocks.k));
    let r = BigUint::from(1u32) << bits_of(D.next_multiple_of(W));
    assert_eq!(number(&blocks.rr), &r * &r % m);
}

#[test]
fn precomputation_equals_num_bigint() {
    check_moduli::<20>();
    check_moduli::<30>();
    check_moduli::<40>();
    check_moduli::<60>();
    check_moduli::<80>();
}

fn prepare<const HALF: usize, const FULL: usize>(key: &TestKey) -> CrtKey<HALF, FULL> {
    let TestKey { n, p, q, dp, dq, qinv, .. } = key;
    CrtKey::new(&CrtParts { n, e: exponent(key), p, q, dp, dq, qinv })
}

fn exponent(key: &TestKey) -> u64 {
    key.e.iter().fold(0, |e, byte| e << 8 | u64::from(*byte))
}

/// Runs one batch and returns its verdicts and outputs.
fn run_batch<const HALF: usize, const FULL: usize>(
    jobs: &[(&CrtKey<HALF, FULL>, Vec<u8>)],
    run: impl Fn(&mut [CrtJob<'_, HALF, FULL>]),
) -> Vec<(Verdict, Vec<u8>)> {
    let mut outputs = vec![vec![0xa5; jobs[0].1.len()]; jobs.len()];
    let mut batch: Vec<CrtJob<'_, HALF, FULL>> = jobs
        .iter()
        .zip(&mut outputs)
        .map(|((key, input), output)| CrtJob { key, input, output, verdict: Verdict::Pending })
        .collect();
    run(&mut batch);
    let verdicts: Vec<Verdict> = batch.iter().map(|job| job.verdict).collect();
    verdicts.into_iter().zip(outputs).collect()
}

/// Every batch size, mixed keys, edge and random inputs.
fn check_batches<const HALF: usize, const FULL: usize>(
    lanes: usize,
    run: impl Fn(&mut [CrtJob<'_, HALF, FULL>]),
) {
    let bytes = FULL / 5 * 32;
    let keys = test_keys(8 * bytes);
    let prepared: Vec<CrtKey<HALF, FULL>> = keys.iter().map(prepare).collect();
    let mut random = Random::new(HALF as u64);
    let mut turn = 0;
    for job_count in (1..=lanes).chain([lanes; 2]) {
        let chosen: Vec<(usize, BigUint)> = (0..job_count)
            .map(|_| {
                turn += 1;
                let key = &keys[turn % keys.len()];
                let n = BigUint::from_bytes_be(&key.n);
                let input = match turn % 7 {
                    // A multiple of one prime, which is zero in one half.
                    6 => BigUint::from_bytes_be(&key.q),
                    kind => factor(kind, &n, &mut random) % &n,
                };
                (turn % keys.len(), input)
            })
            .collect();
        let jobs: Vec<_> =
            chosen.iter().map(|(key, input)| (&prepared[*key], padded(input, bytes))).collect();
        for ((key, input), (verdict, output)) in chosen.iter().zip(run_batch(&jobs, &run)) {
            let [n, d] = [&keys[*key].n, &keys[*key].d].map(|bytes| BigUint::from_bytes_be(bytes));
            assert_eq!(verdict, Verdict::Done, "key {key} in a batch of {job_count}");
            assert_eq!(BigUint::from_bytes_be(&output), input.modpow(&d, &n), "key {key}");
        }
    }
}

/// Bad jobs among good ones: each gets its verdict and zeros, and the others do not notice.
fn check_verdicts<const HALF: usize, const FULL: usize>(
    run: impl Fn(&mut [CrtJob<'_, HALF, FULL>]),
) {
    let keys = test_keys(FULL / 5 * 256);
    let good = prepare::<HALF, FULL>(&keys[0]);
    let mut damaged = keys[0].clone();
    *damaged.dp.last_mut().expect("not empty") ^= 4;
    let damaged = prepare::<HALF, FULL>(&damaged);
    let mut input = keys[0].n.clone();
    *input.last_mut().expect("not empty") -= 1;

    let jobs = [
        (&good, input.clone()),
        (&damaged, padded(&BigUint::from(3u32), input.len())),
        (&good, keys[0].n.clone()),
        (&good, input),
    ];
    let results = run_batch(&jobs, &run);
    let verdicts: Vec<Verdict> = results.iter().map(|result| result.0).collect();
    assert_eq!(verdicts, [Verdict::Done, Verdict::Fault, Verdict::OutOfRange, Verdict::Done]);
    // (−1)^d = −1 for the odd d of every key.
    assert_eq!(results[0].1, jobs[0].1);
    assert_eq!(results[3].1, jobs[0].1);
    assert!(results[1].1.iter().chain(&results[2].1).all(|byte| *byte == 0));
}

/// A kernel, which gets as many jobs at once as it takes.
fn check_kernel<const HALF: usize, const FULL: usize>(
    jobs_max: usize,
    kernel: impl Fn(&mut [CrtJob<'_, HALF, FULL>]),
) {
    let run = |jobs: &mut [CrtJob<'_, HALF, FULL>]| {
        for jobs in jobs.chunks_mut(jobs_max) {
            kernel(jobs);
            assert_ne!(upper_halves_in_use(), Some(true), "kernel for {jobs_max}");
        }
    };
    check_batches(jobs_max, run);
    check_verdicts(run);
}

fn check_kernels<L: Batches>(room: L::Room) {
    for &lanes in L::KERNELS {
        check_kernel::<20, 40>(lanes, |jobs| L::private_crt(room, lanes, jobs));
    }
}

/// With checks for overflows, which the other sizes need no more than this one; whoever tests
/// crypto compiles all of them, and compares them with OpenSSL.
#[test]
fn rsa_2048_batches_equal_num_bigint_in_every_room() {
    let mut visited = 0;
    if let Some(room) = Ifma512::enter(&Policy::open()) {
        check_kernels::<Ifma512x8>(room);
        visited += 1;
    }
    if let Some(room) = Ifma256::enter(&Policy::open()) {
        check_kernels::<Ifma256x4>(room);
        visited += 1;
    }
    if let Some(room) = Fma256::enter(&Policy::open()) {
        check_kernels::<Fma256x4>(room);
        visited += 1;
    }
    assert_visited("private operations", visited, &[Room::Ifma256, Room::Ifma512, Room::Fma256]);
}
