//! After a key schedule has run, its secrets are nowhere but where the caller keeps them.

use std::hint::black_box;

use widelane_cpu::features::upper_halves_in_use;
use widelane_crypto::digest::Algorithm;
use widelane_crypto::kdf::{Hash, Kdf, tls12, tls13};
use widelane_secret::wipe;
use widelane_testkit::leftovers::Secret;
use widelane_testkit::random::Random;
use widelane_testkit::rooms::for_each_room_of;

use crate::alone;

#[test]
fn secrets_are_gone() {
    let _alone = alone();
    for (hash, algorithm) in Hash::ALL.into_iter().zip([Algorithm::Sha256, Algorithm::Sha384]) {
        for_each_room_of(algorithm.rooms(), |room, policy| {
            secrets_are_gone_in(&Kdf::choose(hash, policy));
            assert_eq!(Kdf::choose(hash, policy).room(), room);
        });
    }
}

fn secrets_are_gone_in(kdf: &Kdf) {
    let (mut key, mut output) = ([0; 48], [0; 48]);
    let bytes = kdf.hash().bytes();
    Random::new(bytes as u64).fill(&mut key[..bytes]);
    for round in 0..3 {
        let (key, output) = (&key[..bytes], &mut output[..bytes]);
        match round {
            0 => tls13::extract(kdf, key, key, output).expect("a digest's length"),
            1 => tls13::expand_label(kdf, key, b"tls13 ", b"key", b"", output)
                .expect("allowed lengths"),
            _ => tls12::prf(kdf, key, b"master secret", output),
        }
        assert_ne!(upper_halves_in_use(), Some(true), "{kdf:?}, round {round}");
        black_box(&mut *output);
        let mut secret = Secret::default();
        add(&mut secret, output);
        assert_ne!(secret.count(), 0, "a secret in use is found");
        wipe(output);
        assert_eq!(secret.count(), 0, "{kdf:?}, round {round} leaves its output behind");
    }
    let mut secret = Secret::default();
    add(&mut secret, &key[..bytes]);
    assert_ne!(secret.count(), 0, "a secret in use is found");
    wipe(&mut key);
    assert_eq!(secret.count(), 0, "{kdf:?} leaves its key behind");
}

/// Adds bytes as words of the machine hold them.
fn add(secret: &mut Secret, bytes: &[u8]) {
    let mut reversed: Vec<u8> = bytes.iter().rev().copied().collect();
    secret.add(&reversed);
    wipe(&mut reversed);
}
