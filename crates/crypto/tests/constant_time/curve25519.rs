//! Trace equality on curve25519: two sets of keys take the same way through the code, instruction
//! by instruction, in every room.

use widelane_crypto::ed25519::{Ed25519, SignJob, SigningKey};
use widelane_crypto::x25519::{DeriveJob, GenerateJob, Outcome, PrivateKey, X25519};
use widelane_testkit::random::Random;
use widelane_testkit::rooms::{self, for_each_room, for_each_room_of};
use widelane_testkit::trace::{Tracing, trace};

/// Steps through this module's cases; panics when secrets can be told apart.
pub fn run() {
    for_each_room_of(&rooms::X25519, |room, policy| {
        let x25519 = X25519::choose(policy);
        assert_eq!(x25519.room(), room);
        let exchange_keys = |seed| keys(x25519.lanes(), seed, PrivateKey::from_bytes);
        let what = format!("key generation in {room}");
        compare(&what, exchange_keys, |keys| generation(x25519, keys));
        for x25519 in X25519::derive_kernels(policy).into_iter().chain([x25519]) {
            let lanes = x25519.lanes();
            let what = format!("key agreement of {lanes} in {room}");
            let exchange_keys = |seed| keys(lanes, seed, PrivateKey::from_bytes);
            compare(&what, exchange_keys, |keys| agreement(x25519, keys));
        }
    });
    for_each_room(|room, policy| {
        let ed25519 = Ed25519::choose(policy);
        assert_eq!(ed25519.room(), room);
        let signing_keys = |seed| keys(ed25519.lanes(), seed, SigningKey::from_seed);
        compare(&format!("signing in {room}"), signing_keys, |keys| signing(ed25519, keys));
    });
}

fn compare<K>(what: &str, keys: impl Fn(u64) -> Vec<K>, traced: impl Fn(&[K]) -> Tracing) {
    // All keys come first, and are copied: the heap must be the same for both.
    let [one, other] = [keys(1), keys(2)].each_ref().map(|keys| traced(keys)).map(Tracing::end);
    eprintln!("{what}: {} and {} instructions", one.instructions, other.instructions);
    assert_eq!(one, other, "{what} takes two ways");
    assert!(one.instructions > 1000, "{what} did something");
}

#[inline(never)]
fn generation(x25519: X25519, keys: &[PrivateKey]) -> Tracing {
    trace(
        || (keys.to_vec(), vec![[0; 32]; keys.len()]),
        |(keys, publics)| {
            let mut jobs: Vec<_> = keys
                .iter()
                .zip(publics)
                .map(|(key, public)| GenerateJob::new(key, public))
                .collect();
            x25519.generate_batch(&mut jobs);
        },
    )
}

#[inline(never)]
fn agreement(x25519: X25519, keys: &[PrivateKey]) -> Tracing {
    let mut peer = [0; 32];
    Random::new(100).fill(&mut peer);
    trace(
        || (keys.to_vec(), vec![[0; 32]; keys.len()]),
        |(keys, shared)| {
            let mut jobs: Vec<_> = keys
                .iter()
                .zip(shared)
                .map(|(key, shared)| DeriveJob::new(key, &peer, shared))
                .collect();
            x25519.derive_batch(&mut jobs);
            assert!(jobs.iter().all(|job| job.outcome == Outcome::Done));
        },
    )
}

#[inline(never)]
fn signing(ed25519: Ed25519, keys: &[SigningKey]) -> Tracing {
    trace(
        || (keys.to_vec(), vec![[0; 64]; keys.len()]),
        |(keys, signatures)| {
            let mut jobs: Vec<_> = keys
                .iter()
                .zip(signatures)
                .map(|(key, signature)| SignJob::new(key, b"message", signature))
                .collect();
            ed25519.sign_batch(&mut jobs);
        },
    )
}

/// As many keys as there are lanes, of bytes that nothing is known of.
fn keys<K>(count: usize, seed: u64, key: impl Fn(&[u8; 32]) -> K) -> Vec<K> {
    let mut random = Random::new(seed);
    let mut bytes = [0; 32];
    (0..count)
        .map(|_| {
            random.fill(&mut bytes);
            key(&bytes)
        })
        .collect()
}
