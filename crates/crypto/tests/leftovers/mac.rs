//! Of a key of HMAC that is longer than a block, no word of the digest that stands for it is left
//! in memory, alone or padded, whichever room worked.

use std::hint::black_box;

use openssl::hash::{MessageDigest, hash};
use widelane_crypto::digest::Algorithm;
use widelane_crypto::mac::{Hmac, Key};
use widelane_secret::wipe;
use widelane_testkit::leftovers::Secret;
use widelane_testkit::random::Random;
use widelane_testkit::rooms::{for_each_room_of, supported_of};

use crate::alone;

const KEY_BYTES: usize = 150;

#[test]
fn a_key_that_is_hashed_leaves_nothing() {
    let _alone = alone();
    for (algorithm, theirs) in [
        (Algorithm::Sha1, MessageDigest::sha1()),
        (Algorithm::Sha256, MessageDigest::sha256()),
        (Algorithm::Sha384, MessageDigest::sha384()),
        (Algorithm::Sha512, MessageDigest::sha512()),
    ] {
        let visited = for_each_room_of(algorithm.rooms(), |room, policy| {
            let hmac = Hmac::choose(algorithm, policy);
            assert_eq!(hmac.room(), room);
            let (secret, key) = secret_key(&hmac, theirs);
            black_box(&key);
            assert_eq!(secret.count(), 0, "{algorithm:?} in {room}: only its pads are kept");
            drop(key);
        });
        assert_eq!(visited, supported_of(algorithm.rooms()));
    }
}

/// A key, and the words of its digest.
#[inline(never)]
fn secret_key(hmac: &Hmac, theirs: MessageDigest) -> (Secret, Key) {
    let mut bytes = [0; KEY_BYTES];
    Random::new(hmac.room() as u64).fill(&mut bytes);
    let secret = words(theirs, &bytes);
    // What OpenSSL and the search have left on the stack is no affair of ours.
    scrub();
    assert_eq!(secret.count(), 0, "the test itself leaves nothing");
    let key = made(hmac, &bytes);
    (secret, key)
}

#[inline(never)]
fn words(theirs: MessageDigest, bytes: &[u8]) -> Secret {
    let mut digest = hash(theirs, bytes).expect("a digest").to_vec();
    let mut secret = Secret::default();
    for pad in [0, 0x36, 0x5c] {
        add(&mut secret, &digest, pad);
    }
    assert_ne!(secret.count(), 0, "a digest in use is found");
    wipe(&mut digest);
    secret
}

#[inline(never)]
fn made(hmac: &Hmac, bytes: &[u8]) -> Key {
    hmac.key(bytes)
}

#[inline(never)]
fn scrub() {
    wipe(&mut [0u64; 4096]);
}

/// Adds bytes under a pad as the words that a register stores, of either order.
pub fn add(secret: &mut Secret, bytes: &[u8], pad: u8) {
    let (words, _) = bytes.as_chunks::<8>();
    for word in words {
        let mut word = word.map(|byte| byte ^ pad);
        secret.add(&word);
        word.reverse();
        secret.add(&word);
        wipe(&mut word);
    }
}
