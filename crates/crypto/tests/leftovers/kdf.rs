//! After a key schedule has run, its secrets are nowhere but where the caller keeps them.

use std::hint::black_box;

use widelane_cpu::features::upper_halves_in_use;
use widelane_crypto::digest::Algorithm;
use widelane_crypto::kdf::tls13::{Expansion, Source};
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
    for round in 0..5 {
        let (key, output) = (&key[..bytes], &mut output[..bytes]);
        match round {
            0 => tls13::extract(kdf, key, key, output).expect("a digest's length"),
            1 => tls13::expand_label(kdf, key, b"tls13 ", b"key", b"", output)
                .expect("allowed lengths"),
            2 => tls13::extract_first(kdf, key, output).expect("a digest's length"),
            3 => expand_six(kdf, key, output),
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

/// Derives six values at once, of which the first goes to `output`.
fn expand_six(kdf: &Kdf, key: &[u8], output: &mut [u8]) {
    let mut outputs = [[0; Hash::BYTES_MAX]; 6];
    let expansions: [Expansion<'_>; 6] = std::array::from_fn(|place| {
        let (source, context) = (place % 2, &b"handshake"[place..]);
        Expansion { source, label: b"key", context, bytes: output.len() }
    });
    let ready = kdf.secret(key);
    let sources = [Source::Bytes(key), Source::Ready(&ready)];
    tls13::expand_labels(kdf, &sources, b"tls13 ", &expansions, &mut outputs)
        .expect("what TLS 1.3 has");
    output.copy_from_slice(&outputs[0][..output.len()]);
    wipe(outputs.as_flattened_mut());
}

/// Adds bytes as words of the machine hold them.
fn add(secret: &mut Secret, bytes: &[u8]) {
    let mut reversed: Vec<u8> = bytes.iter().rev().copied().collect();
    secret.add(&reversed);
    wipe(&mut reversed);
}
