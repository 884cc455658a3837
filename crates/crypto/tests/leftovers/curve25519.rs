//! After a key on curve25519 is dropped, no word of it is left in memory, whichever room used it.

use std::hint::black_box;

use openssl::sha::sha512;
use widelane_cpu::Room;
use widelane_cpu::features::upper_halves_in_use;
use widelane_crypto::ed25519::{Ed25519, SignJob, SigningKey};
use widelane_crypto::x25519::{DeriveJob, GenerateJob, PrivateKey, X25519};
use widelane_secret::wipe;
use widelane_testkit::leftovers::Secret;
use widelane_testkit::random::Random;
use widelane_testkit::rooms::{self, for_each_room, for_each_room_of};

use crate::{alone, deep_down, drop_twice};

#[test]
fn a_dropped_key_is_gone() {
    let _alone = alone();
    for_each_room_of(&rooms::X25519, |room, policy| {
        let x25519 = X25519::choose(policy);
        assert_eq!(x25519.room(), room);
        for x25519 in X25519::derive_kernels(policy).iter().chain([&x25519]) {
            agree(room, x25519);
        }
    });
    for_each_room(|room, policy| {
        let (secret, key) = ed25519_key(room as u64);
        let ed25519 = Ed25519::choose(policy);
        assert_eq!(ed25519.room(), room);
        let mut signatures = vec![[0; 64]; ed25519.lanes()];
        let mut jobs: Vec<_> = signatures
            .iter_mut()
            .map(|signature| SignJob::new(&key, b"message", signature))
            .collect();
        ed25519.sign_batch(&mut jobs);
        assert_ne!(upper_halves_in_use(), Some(true), "{room}");
        assert_ne!(secret.count(), 0, "a key in use is found");
        assert_eq!(secret.count_in_core_file(), 0, "a core file would have the key");
        deep_down(|| drop_twice(key, |_| ()));
        assert_eq!(secret.count(), 0, "{room} leaves words of the signing key behind");
    });
}

fn agree(room: Room, x25519: &X25519) {
    let (secret, key) = x25519_key(room as u64);
    let mut publics = vec![[0; 32]; x25519.lanes()];
    let mut jobs: Vec<_> =
        publics.iter_mut().map(|public| GenerateJob::new(&key, public)).collect();
    x25519.generate_batch(&mut jobs);
    assert_ne!(upper_halves_in_use(), Some(true), "{room}");
    let peer = publics[0];
    let mut shared = vec![[0; 32]; x25519.lanes()];
    let mut jobs: Vec<_> =
        shared.iter_mut().map(|shared| DeriveJob::new(&key, &peer, shared)).collect();
    x25519.derive_batch(&mut jobs);
    assert_ne!(upper_halves_in_use(), Some(true), "{room}");
    assert_ne!(secret.count(), 0, "a key in use is found");
    deep_down(|| drop_twice(key, |_| ()));
    let jobs = x25519.lanes();
    assert_eq!(secret.count(), 0, "{room} x{jobs} leaves words of the private key behind");
    let mut secret = Secret::default();
    add(&mut secret, &shared[0]);
    assert_ne!(secret.count(), 0, "a secret in use is found");
    wipe(shared.as_flattened_mut());
    assert_eq!(secret.count(), 0, "{room} x{jobs} leaves words of the shared secret behind");
}

#[inline(never)]
fn x25519_key(seed: u64) -> (Secret, PrivateKey) {
    let mut bytes = random_bytes(seed);
    let mut secret = Secret::default();
    add(&mut secret, &bytes);
    let key = PrivateKey::from_bytes(&bytes);
    wipe(&mut bytes);
    black_box((secret, key))
}

#[inline(never)]
fn ed25519_key(seed: u64) -> (Secret, SigningKey) {
    let mut bytes = random_bytes(1000 + seed);
    let mut digest = sha512(&bytes);
    let mut secret = Secret::default();
    // The second half is the prefix; the scalar itself is kept reduced.
    add(&mut secret, digest[32..].try_into().expect("half of the digest"));
    let key = SigningKey::from_seed(&bytes);
    wipe(&mut bytes);
    wipe(&mut digest);
    black_box((secret, key))
}

fn random_bytes(seed: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    Random::new(seed).fill(&mut bytes);
    bytes
}

/// Adds a little-endian number.
fn add(secret: &mut Secret, number: &[u8; 32]) {
    let mut reversed = *number;
    reversed.reverse();
    secret.add(&reversed);
    wipe(&mut reversed);
}
