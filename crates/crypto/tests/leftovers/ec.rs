//! After a key on P-256 or P-384 is dropped, no word of it is left in memory, whichever room used
//! it.

use std::hint::black_box;

use widelane_cpu::features::upper_halves_in_use;
use widelane_crypto::ec::{
    Curve, DeriveJob, Ec, GenerateJob, Outcome, PrivateKey, PublicKey, SignJob,
};
use widelane_secret::wipe;
use widelane_testkit::leftovers::Secret;
use widelane_testkit::random::Random;
use widelane_testkit::rooms::for_each_room;

use crate::{alone, deep_down, drop_twice};

#[test]
fn a_dropped_key_is_gone() {
    let _alone = alone();
    for_each_room(|room, policy| {
        let ec = Ec::choose(policy);
        assert_eq!(ec.room(), room);
        for curve in Curve::ALL {
            let (secret, key) = key(curve, room as u64);
            assert_ne!(secret.count(), 0, "a key in use is found");
            let mut public = vec![0; 1 + 2 * curve.bytes()];
            ec.generate_batch(&mut [GenerateJob::new(&key, &mut public)]);
            assert_ne!(upper_halves_in_use(), Some(true), "{room}");
            let peer = PublicKey::from_uncompressed(curve, &public).unwrap();
            let mut shared = vec![vec![0; curve.bytes()]; ec.lanes()];
            let mut jobs: Vec<_> =
                shared.iter_mut().map(|shared| DeriveJob::new(&key, &peer, shared)).collect();
            ec.derive_batch(&mut jobs);
            assert_ne!(upper_halves_in_use(), Some(true), "{room}");
            assert!(jobs.iter().all(|job| job.outcome == Outcome::Done));
            for ec in Ec::sign_kernels(policy).iter().chain([&ec]) {
                let mut signatures = vec![vec![0; 2 * curve.bytes()]; ec.lanes()];
                let mut jobs: Vec<_> = signatures
                    .iter_mut()
                    .map(|signature| SignJob::new(&key, &[1; 32], &[2; 32], signature))
                    .collect();
                ec.sign_batch(&mut jobs);
                assert_ne!(upper_halves_in_use(), Some(true), "{room}");
                assert!(jobs.iter().all(|job| job.outcome == Outcome::Done));
            }
            nonce_leaves_nothing(&ec, &key);
            assert_eq!(secret.count_in_core_file(), 0, "a core file would have the key");

            let is_whole = |key: &PrivateKey| assert!(key.as_bytes().iter().any(|byte| *byte != 0));
            deep_down(|| drop_twice(key, is_whole));
            assert_eq!(secret.count(), 0, "{room} {curve:?} leaves words of the key behind");
            let mut secret = Secret::default();
            add(&mut secret, &shared[0]);
            assert_ne!(secret.count(), 0, "the shared secret is there");
            for shared in &mut shared {
                wipe(shared);
            }
            assert_eq!(secret.count(), 0, "{room} {curve:?} leaves words of the secret behind");
        }
    });
}

/// Makes a nonce as for a signature that is made elsewhere.
#[inline(never)]
fn nonce_leaves_nothing(ec: &Ec, key: &PrivateKey) {
    let mut number = [0; 48];
    let number = &mut number[..key.curve().bytes()];
    deep_down(|| {
        let nonce = ec.nonce(key, &[1; 32], &[2; 32]).expect("a nonce");
        number.copy_from_slice(nonce.as_bytes());
    });
    let mut secret = Secret::default();
    add(&mut secret, number);
    assert_ne!(secret.count(), 0, "the nonce is there");
    wipe(number);
    assert_eq!(secret.count(), 0, "{ec:?} leaves words of the nonce behind");
}

#[inline(never)]
fn key(curve: Curve, seed: u64) -> (Secret, PrivateKey) {
    let mut bytes = vec![0; curve.bytes()];
    Random::new(seed).fill(&mut bytes);
    bytes[0] &= 0x7f;
    let mut secret = Secret::default();
    add(&mut secret, &bytes);
    let key = PrivateKey::from_bytes(curve, &bytes).unwrap();
    wipe(&mut bytes);
    black_box((secret, key))
}

/// Adds a number, as our arithmetic has it and as it lies in memory in big-endian bytes.
fn add(secret: &mut Secret, bytes: &[u8]) {
    secret.add(bytes);
    let mut reversed: Vec<_> = bytes.iter().rev().copied().collect();
    secret.add(&reversed);
    wipe(&mut reversed);
}
