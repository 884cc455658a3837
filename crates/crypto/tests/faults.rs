//! Faults: bits of the stack flip while private RSA operations run, at any moment of them. Whatever
//! that does, no wrong signature leaves.
//!
//! `-- --full` flips ten times as many.

use std::time::{Duration, Instant};

use widelane_crypto::rsa::{Components, Outcome, PrivateJob, PrivateKey, Rsa};
use widelane_testkit::fault::{Ending, disturb};
use widelane_testkit::random::Random;
use widelane_testkit::rooms::{for_each_room, supported};
use widelane_testkit::rsa::test_keys;

/// Every result was right.
const RIGHT: i32 = 0;
/// A result was wrong, was found out, and did not leave.
const FOUND_OUT: i32 = 1;
/// A wrong result left.
const WRONG: i32 = 2;

fn main() {
    let full = std::env::args().any(|argument| argument == "--full");
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
    let mut random = Random::new(7);
    let visited = for_each_room(|room, policy| {
        let rsa = Rsa::choose(policy);
        assert_eq!(rsa.room(), room);
        let keys = &keys[..rsa.lanes()];
        let began = Instant::now();
        let right = batch(rsa, keys).1;
        let lasts = began.elapsed();
        let [mut found_out, mut harmless, mut died] = [0; 3];
        for _ in 0..flips {
            let after = Duration::from_nanos(random.below(lasts.as_nanos() as usize) as u64);
            let work = |_: &mut ()| {
                let (outcomes, outputs) = batch(rsa, keys);
                let is_wrong = |index: usize| {
                    outcomes[index] == Outcome::Done && outputs[index] != right[index]
                };
                let is_found_out = outcomes.contains(&Outcome::FaultDetected);
                match (0..keys.len()).any(is_wrong) {
                    true => WRONG,
                    false if is_found_out => FOUND_OUT,
                    false => RIGHT,
                }
            };
            match disturb(|| (), work, after, &mut random) {
                Ending::Answered(WRONG) => panic!("a wrong signature left {room}"),
                Ending::Answered(FOUND_OUT) => found_out += 1,
                Ending::Died => died += 1,
                Ending::Answered(_) | Ending::Undisturbed => harmless += 1,
            }
        }
        eprintln!("{room}: {found_out} found out, {harmless} without effect, {died} crashed");
        assert!(found_out > 0, "no flipped bit had an effect in {room}");
    });
    assert_eq!(visited, supported());
}

/// One operation with each key.
fn batch(rsa: Rsa, keys: &[PrivateKey]) -> (Vec<Outcome>, Vec<[u8; 256]>) {
    let input = [0x42; 256];
    let mut outputs = vec![[0; 256]; keys.len()];
    let mut jobs: Vec<_> = keys
        .iter()
        .zip(&mut outputs)
        .map(|(key, output)| PrivateJob::new(key, &input, output))
        .collect();
    rsa.private_batch(&mut jobs);
    let outcomes = jobs.iter().map(|job| job.outcome).collect();
    drop(jobs);
    (outcomes, outputs)
}
