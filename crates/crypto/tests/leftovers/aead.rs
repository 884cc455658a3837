//! After a message is sealed or opened and its key dropped, no word of the key, of the key stream
//! or of the authentication key is left in memory, whichever room worked.

use std::hint::black_box;

use openssl::symm::{Cipher, encrypt};
use widelane_cpu::features::upper_halves_in_use;
use widelane_crypto::aead::{Aead, Algorithm, Direction, Key, Stream, TAG_BYTES};
use widelane_secret::wipe;
use widelane_testkit::leftovers::Secret;
use widelane_testkit::random::Random;
use widelane_testkit::rooms::for_each_room_of;

use crate::alone;

const NONCE: [u8; 12] = *b"twelve bytes";
/// Every way that short messages have of their own, and chunks with a tail.
const LENGTHS: [usize; 6] = [40, 64, 100, 250, 500, 2100];

#[test]
fn a_message_leaves_nothing() {
    let _alone = alone();
    for algorithm in Algorithm::ALL {
        for_each_room_of(algorithm.rooms(), |room, policy| {
            let aead = Aead::choose(algorithm, policy);
            assert_eq!(aead.room(), room);
            for length in LENGTHS {
                let (secret, key) = secret_key(&aead, length as u64);
                let mut text = vec![0; length];
                Random::new(!0).fill(&mut text);
                use_key(&format!("{algorithm:?} in {room}, {length} bytes"), &key, &mut text);
                drop(key);
                let left = secret.count();
                assert_eq!(left, 0, "{algorithm:?} in {room} leaves words after {length} bytes");
            }
        });
    }
}

/// Seals and opens, at once and in pieces.
#[inline(never)]
fn use_key(who: &str, key: &Key, text: &mut [u8]) {
    let mut tag = [0; TAG_BYTES];
    key.seal_in_place(&NONCE, b"header", text, &mut tag).unwrap();
    assert_ne!(upper_halves_in_use(), Some(true), "{who}");
    key.open_in_place(&NONCE, b"header", text, &tag).unwrap();
    assert_ne!(upper_halves_in_use(), Some(true), "{who}");
    for direction in [Direction::Seal, Direction::Open] {
        let mut stream = Stream::new(key);
        stream.start(direction, &NONCE).unwrap();
        stream.aad(b"header").unwrap();
        let (head, rest) = text.split_at_mut(text.len().min(77));
        stream.update_in_place(head).unwrap();
        stream.update_in_place(rest).unwrap();
        assert_ne!(upper_halves_in_use(), Some(true), "{who}");
        stream.finish().unwrap();
        assert_ne!(upper_halves_in_use(), Some(true), "{who}");
    }
}

/// A key, and the words that must not be found: its own, those of the key stream, and of what
/// authenticates.
#[inline(never)]
fn secret_key(aead: &Aead, seed: u64) -> (Secret, Key) {
    let mut bytes = vec![0; aead.algorithm().key_bytes()];
    Random::new(seed ^ aead.room() as u64).fill(&mut bytes);
    let mut secret = Secret::default();
    add(&mut secret, &bytes);
    // The key stream from the first counter block on; of ChaCha20, with the one-time key in front.
    let mut zeros = vec![0; 2200];
    let cipher = match aead.algorithm() {
        Algorithm::Aes128Gcm => Cipher::aes_128_ctr(),
        Algorithm::Aes192Gcm => Cipher::aes_192_ctr(),
        Algorithm::Aes256Gcm => Cipher::aes_256_ctr(),
        Algorithm::ChaCha20Poly1305 => Cipher::chacha20(),
    };
    let counter: [u8; 16] = match aead.algorithm() {
        Algorithm::ChaCha20Poly1305 => [&[0; 4][..], &NONCE].concat().try_into().unwrap(),
        _ => [&NONCE[..], &[0, 0, 0, 1]].concat().try_into().unwrap(),
    };
    let mut stream = encrypt(cipher, &bytes, Some(&counter), &zeros).unwrap();
    add(&mut secret, &stream);
    if aead.algorithm() != Algorithm::ChaCha20Poly1305 {
        // The hash key, as the cipher makes it.
        let mut hash_key = encrypt(cipher, &bytes, Some(&[0; 16]), &[0; 16]).unwrap();
        add(&mut secret, &hash_key);
        wipe(&mut hash_key);
    }
    assert_ne!(secret.count(), 0, "a key in use is found");
    // What OpenSSL and the search have left on the stack is no affair of ours.
    scrub();
    let key = aead.key(&bytes).unwrap();
    wipe(&mut bytes);
    wipe(&mut stream);
    wipe(&mut zeros);
    black_box((secret, key))
}

#[inline(never)]
fn scrub() {
    wipe(&mut [0u64; 4096]);
}

/// Adds bytes as the words that a register stores.
fn add(secret: &mut Secret, bytes: &[u8]) {
    let mut reversed = bytes.to_vec();
    reversed.reverse();
    secret.add(&reversed);
    wipe(&mut reversed);
}
