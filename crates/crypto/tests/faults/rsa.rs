//! Faults: bits of the stack flip while private RSA operations run, at any moment of them. Whatever
//! that does, no signature leaves that gives away the key, as one with a single wrong half would.
//!
//! A bit may also flip in the message before anything is computed from it, or in the signature
//! after it was confirmed. What leaves then is a signature of something else, or none at all;
//! neither says anything about the key.

use std::time::Instant;

use num_bigint::BigUint;
use widelane_crypto::rsa::{Components, Outcome, PrivateJob, PrivateKey, Rsa};
use widelane_testkit::fault::{Leaves, attack};
use widelane_testkit::rooms::{self, for_each_room_of};
use widelane_testkit::rsa::{TestKey, test_keys};

/// Flips bits; panics when a signature leaves that must not.
pub fn run(full: bool) {
    let flips = if full { 2_000 } else { 200 };
    let test_keys = test_keys(2048);
    let keys: Vec<PrivateKey> = test_keys
        .iter()
        .map(|key| {
            let (n, e, p, q) = (&key.n, &key.e, &key.p, &key.q);
            let (dp, dq, qinv) = (&key.dp, &key.dq, &key.qinv);
            PrivateKey::from_components(&Components { n, e, p, q, dp, dq, qinv }).expect("good")
        })
        .collect();
    for_each_room_of(&rooms::ARITHMETIC, |room, policy| {
        let rsa = Rsa::choose(policy);
        assert_eq!(rsa.room(), room);
        let mut kernels: Vec<(usize, Box<Kernel>)> =
            vec![(rsa.lanes(), Box::new(move |jobs| rsa.private_batch(jobs)))];
        for kernel in rsa.kernels().into_iter().filter(|kernel| kernel.lanes() < rsa.lanes()) {
            kernels.push((kernel.lanes(), Box::new(move |jobs| kernel.private_batch(jobs))));
        }
        for (lanes, kernel) in &kernels {
            let keys = &keys[..*lanes];
            flip_bits(&format!("{room}, {lanes}"), flips, &test_keys, keys, kernel);
        }
    });
}

/// What executes jobs.
type Kernel = dyn Fn(&mut [PrivateJob<'_>]);

/// Attacks one operation with each of `keys`.
fn flip_bits(
    name: &str,
    flips: usize,
    test_keys: &[TestKey],
    keys: &[PrivateKey],
    kernel: &Kernel,
) {
    let began = Instant::now();
    let right = batch(kernel, keys, &INPUT).1;
    let lasts = began.elapsed();
    let judge = |(outcomes, outputs): (Vec<Outcome>, Vec<[u8; 256]>)| {
        Leaves::worst((0..keys.len()).map(|index| match outcomes[index] {
            Outcome::Done if outputs[index] == right[index] => Leaves::Right,
            Outcome::Done if reveals(&test_keys[index], &outputs[index]) => Leaves::Revealing,
            Outcome::Done => Leaves::Useless,
            Outcome::FaultDetected => Leaves::Nothing,
            _ => Leaves::Right,
        }))
    };
    attack(name, flips, lasts, || batch(kernel, keys, &INPUT), judge);
}

/// What is signed.
const INPUT: [u8; 256] = [0x42; 256];

/// Whether a wrong signature gives away a prime: whether it is right modulo one of them.
fn reveals(key: &TestKey, signature: &[u8]) -> bool {
    let [n, e, signature, input] =
        [&key.n[..], &key.e, signature, &INPUT].map(BigUint::from_bytes_be);
    let (mut one, mut other) = (n.clone(), (signature.modpow(&e, &n) + &n - input) % &n);
    while other != BigUint::ZERO {
        (one, other) = (other.clone(), one % other);
    }
    // Of right signatures, which are no matter here, it is n.
    one != BigUint::from(1u32)
}

/// One operation with each key.
fn batch(
    kernel: &Kernel,
    keys: &[PrivateKey],
    input: &[u8; 256],
) -> (Vec<Outcome>, Vec<[u8; 256]>) {
    let mut outputs = vec![[0; 256]; keys.len()];
    let mut jobs: Vec<_> = keys
        .iter()
        .zip(&mut outputs)
        .map(|(key, output)| PrivateJob::new(key, input, output))
        .collect();
    kernel(&mut jobs);
    let outcomes = jobs.iter().map(|job| job.outcome).collect();
    drop(jobs);
    (outcomes, outputs)
}
