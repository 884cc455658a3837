//! Of a key of HMAC that is longer than a block, no word of the digest that stands for it is left
//! in memory, alone or padded, whichever room worked.

use std::hint::black_box;

use openssl::hash::MessageDigest;
use widelane_crypto::digest::{Algorithm, Digest};
use widelane_crypto::mac::{Hmac, Key, TagJob, tag_many};
use widelane_kernels::hash;
use widelane_kernels::sha1::{SHA1, Sha1};
use widelane_kernels::sha2::{SHA224, SHA256, SHA384, SHA512, Sha256, Sha512};
use widelane_secret::wipe;
use widelane_testkit::leftovers::Secret;
use widelane_testkit::random::Random;
use widelane_testkit::rooms::{for_each_room_of, supported_of};

use crate::{alone, deep_down, drop_twice, scrub};

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
    scrub();
    assert_eq!(secret.count(), 0, "the test itself leaves nothing");
    let key = made(hmac, &bytes);
    (secret, key)
}

#[inline(never)]
fn words(theirs: MessageDigest, bytes: &[u8]) -> Secret {
    let mut digest = openssl::hash::hash(theirs, bytes).expect("a digest").to_vec();
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

/// What is done with a key of HMAC, which is dropped.
type Use = fn(Key, &[u8]);

#[test]
fn a_key_that_was_used_leaves_nothing() {
    let _alone = alone();
    let uses: [(&str, Use); 6] = [
        ("dropped", |key, _| drop(black_box(key))),
        ("cloned", |key, _| drop_twice(key, |_| ())),
        ("one tag", |key, message| drop(black_box((key.tag(message), key)))),
        ("two tags", |key, message| tags::<2>(&key, message)),
        ("six tags", |key, message| tags::<6>(&key, message)),
        ("twenty tags", |key, message| tags::<20>(&key, message)),
    ];
    for algorithm in Algorithm::ALL {
        let mut rooms = [algorithm.rooms(), algorithm.lane_rooms()].concat();
        rooms.sort();
        rooms.dedup();
        for_each_room_of(&rooms, |room, policy| {
            let hmac = Hmac::choose(algorithm, policy);
            let mut bytes = [0; 32];
            Random::new(room as u64).fill(&mut bytes);
            let secret = states(algorithm, &bytes);
            // Fewer bytes than a block, and several blocks.
            for ((name, use_key), message) in uses.iter().flat_map(|it| [(it, 10), (it, 300)]) {
                scrub();
                assert_eq!(secret.count(), 0, "the test itself leaves nothing");
                deep_down(|| use_key(hmac.key(&bytes), &[7; 300][..message]));
                assert_eq!(secret.count(), 0, "{algorithm:?} in {room}, {name}");
            }
        });
    }
}

#[inline(never)]
fn tags<const COUNT: usize>(key: &Key, message: &[u8]) {
    let mut jobs = [(); COUNT].map(|()| TagJob { key, message, tag: Digest::default() });
    tag_many(&mut jobs);
    black_box(&jobs);
}

/// The words of the states that a key is, as registers store them.
#[inline(never)]
fn states(algorithm: Algorithm, key: &[u8]) -> Secret {
    let mut secret = Secret::default();
    for pad in [0x36, 0x5c] {
        let mut block = [pad; 128];
        block.iter_mut().zip(key).for_each(|(pad, byte)| *pad ^= byte);
        match algorithm {
            Algorithm::Sha384 => add_long(&mut secret, SHA384, &block),
            Algorithm::Sha512 => add_long(&mut secret, SHA512, &block),
            Algorithm::Sha1 => add_short::<Sha1>(&mut secret, SHA1, 5, &block[..64]),
            Algorithm::Sha224 => add_short::<Sha256>(&mut secret, SHA224, 8, &block[..64]),
            Algorithm::Sha256 => add_short::<Sha256>(&mut secret, SHA256, 8, &block[..64]),
        }
    }
    secret
}

fn add_long(secret: &mut Secret, initial: [u64; 8], block: &[u8]) {
    let mut state = initial.map(|word| [word]);
    hash::compress::<Sha512, u64>((), &mut state, &[block], 1);
    for [word] in state {
        secret.add(&word.to_be_bytes());
    }
}

fn add_short<H: hash::Hash<u32>>(
    secret: &mut Secret,
    initial: [u32; 8],
    words: usize,
    block: &[u8],
) {
    let mut state = initial.map(|word| [word]);
    hash::compress::<H, u32>((), &mut state, &[block], 1);
    let state = state.map(|[word]| u64::from(word));
    for (index, word) in state[..words].iter().enumerate() {
        // Alone, beside its neighbour, and in two lanes.
        secret.add(&(word | word << 32).to_be_bytes());
        secret.add(&word.to_be_bytes());
        let next = state[(index + 1) % words];
        secret.add(&(word | next << 32).to_be_bytes());
        secret.add(&(next | word << 32).to_be_bytes());
    }
}
