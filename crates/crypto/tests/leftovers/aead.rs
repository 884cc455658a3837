//! After a message is sealed or opened and its key dropped, no word of the key, of the key stream,
//! of the authentication key or of what it was hashed to is left in memory, whichever room worked.

use std::hint::black_box;

use openssl::symm::{Cipher, encrypt};
use widelane_cpu::features::upper_halves_in_use;
use widelane_crypto::aead::{Aead, AeadError, Algorithm, Direction, Key, Stream, TAG_BYTES};
use widelane_secret::wipe;
use widelane_testkit::leftovers::Secret;
use widelane_testkit::random::Random;
use widelane_testkit::rooms::for_each_room_of;

use crate::{alone, deep_down, drop_twice, scrub};

const NONCE: [u8; 12] = *b"twelve bytes";
/// One that AES-GCM makes its first counter block of by hashing.
const LONG_NONCE: &[u8] = b"a nonce of many more bytes";
const AAD: &[u8] = b"header";
/// Bytes of the first piece of a text: no whole block at its end.
const PIECE_BYTES: usize = 77;
/// Several ways that short messages have of their own, and chunks with a tail, in every room. The
/// tests of the kernels look at the stack behind every other way.
const LENGTHS: [usize; 8] = [40, 64, 100, 250, 500, 2100, 2400, 4000];

#[test]
fn a_message_leaves_nothing() {
    let _alone = alone();
    for algorithm in Algorithm::ALL {
        for_each_room_of(algorithm.rooms(), |room, policy| {
            let aead = Aead::choose(algorithm, policy);
            assert_eq!(aead.room(), room);
            for length in LENGTHS {
                let (secret, key) = secret_key(&aead, length as u64);
                let mut text = text(length);
                use_key(&format!("{algorithm:?} in {room}, {length} bytes"), &key, &mut text);
                deep_down(|| drop_twice(key, |_| ()));
                let left = secret.count();
                assert_eq!(left, 0, "{algorithm:?} in {room} leaves words after {length} bytes");
            }
        });
    }
}

/// With the tag of a genuine message that of a forged one with its nonce tells the authentication
/// key, and so does that of a message's beginning.
#[test]
fn a_forged_message_leaves_no_tag() {
    let _alone = alone();
    for algorithm in Algorithm::ALL {
        for_each_room_of(algorithm.rooms(), |room, policy| {
            let aead = Aead::choose(algorithm, policy);
            let key = aead.key(&vec![0x42; algorithm.key_bytes()]).unwrap();
            let nonces = match algorithm {
                Algorithm::ChaCha20Poly1305 => &[&NONCE[..]][..],
                _ => &[&NONCE, LONG_NONCE],
            };
            for (length, nonce) in LENGTHS.into_iter().zip(nonces.iter().cycle()) {
                let mut text = text(length);
                let (secret, forged) = secret_tags(&key, nonce, &mut text);
                scrub();
                deep_down(|| open_forged(&key, nonce, &text, &forged));
                let who = format!("{algorithm:?} in {room}, {length} bytes");
                assert_eq!(secret.count(), 0, "{who}: words of a tag are left");
            }
        });
    }
}

/// Seals a text; returns the words of its tag and of those of its beginnings, and a tag of which
/// every word is another.
#[inline(never)]
fn secret_tags(key: &Key, nonce: &[u8], text: &mut [u8]) -> (Secret, [u8; TAG_BYTES]) {
    let (mut secret, mut tag) = (Secret::default(), [0; TAG_BYTES]);
    for length in [text.len().min(PIECE_BYTES), text.len()] {
        let mut beginning = text[..length].to_vec();
        key.seal_in_place(nonce, AAD, &mut beginning, &mut tag).unwrap();
        add(&mut secret, &tag);
        secret.add(&tag);
    }
    key.seal_in_place(nonce, AAD, text, &mut tag).unwrap();
    let mut forged = tag;
    forged[3] ^= 1;
    forged[11] ^= 1;
    wipe(&mut tag);
    (secret, forged)
}

/// Opens at once and in pieces, and gives up behind the first piece.
#[inline(never)]
fn open_forged(key: &Key, nonce: &[u8], text: &[u8], forged: &[u8]) {
    let rejected = Err(AeadError::Rejected);
    let mut opened = text.to_vec();
    assert_eq!(key.open(nonce, AAD, text, &mut opened, forged), rejected);
    opened.copy_from_slice(text);
    assert_eq!(key.open_in_place(nonce, AAD, &mut opened, forged), rejected);
    for pieces in 1..4 {
        opened.copy_from_slice(text);
        let mut stream = Stream::new(key);
        stream.start(Direction::Open, nonce).unwrap();
        stream.aad(AAD).unwrap();
        let (head, rest) = opened.split_at_mut(text.len().min(PIECE_BYTES));
        match pieces {
            1 => stream.update_in_place(&mut [head, rest].concat()).unwrap(),
            2 => {
                stream.update_in_place(head).unwrap();
                stream.update_in_place(rest).unwrap();
            }
            _ => {
                stream.update_in_place(head).unwrap();
                continue;
            }
        }
        assert_eq!(stream.verify(forged), rejected);
    }
}

fn text(length: usize) -> Vec<u8> {
    let mut text = vec![0; length];
    Random::new(!0).fill(&mut text);
    text
}

/// Seals and opens, at once and in pieces, to the end or not.
#[inline(never)]
fn use_key(who: &str, key: &Key, text: &mut [u8]) {
    let mut tag = [0; TAG_BYTES];
    key.seal_in_place(&NONCE, AAD, text, &mut tag).unwrap();
    assert_ne!(upper_halves_in_use(), Some(true), "{who}");
    key.open_in_place(&NONCE, AAD, text, &tag).unwrap();
    assert_ne!(upper_halves_in_use(), Some(true), "{who}");
    for direction in [Direction::Seal, Direction::Open] {
        let mut stream = Stream::new(key);
        stream.start(direction, &NONCE).unwrap();
        stream.aad(AAD).unwrap();
        let (head, rest) = text.split_at_mut(text.len().min(PIECE_BYTES));
        drop_in_the_middle(&stream, head);
        stream.update_in_place(head).unwrap();
        stream.update_in_place(rest).unwrap();
        assert_ne!(upper_halves_in_use(), Some(true), "{who}");
        stream.finish().unwrap();
        assert_ne!(upper_halves_in_use(), Some(true), "{who}");
    }
}

/// Drops a stream that has not ended, and one whose counter block is a hash.
#[inline(never)]
fn drop_in_the_middle(stream: &Stream<&Key>, head: &[u8]) {
    let mut head = head.to_vec();
    let mut other = stream.clone();
    other.update_in_place(&mut head).unwrap();
    let algorithm = other.key().algorithm();
    if algorithm != Algorithm::ChaCha20Poly1305 {
        other.start(Direction::Seal, LONG_NONCE).unwrap();
        other.update_in_place(&mut head).unwrap();
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
        let mut sealed = text(seed as usize);
        sealed.iter_mut().zip(&stream[16..]).for_each(|(byte, stream)| *byte ^= stream);
        let whole = sealed.len();
        for bytes in [whole.min(PIECE_BYTES), whole] {
            hash(&mut secret, &hash_key, AAD, &sealed[..bytes]);
        }
        hash(&mut secret, &hash_key, &[], LONG_NONCE);
        wipe(&mut hash_key);
        wipe(&mut sealed);
    }
    assert_ne!(secret.count(), 0, "a key in use is found");
    scrub();
    let key = aead.key(&bytes).unwrap();
    wipe(&mut bytes);
    wipe(&mut stream);
    wipe(&mut zeros);
    black_box((secret, key))
}

/// Adds what GHASH has on the way to the hash of AAD and ciphertext (SP 800-38D, 6.4), and that.
#[inline(never)]
fn hash(secret: &mut Secret, hash_key: &[u8], aad: &[u8], ciphertext: &[u8]) {
    let mut key = u128::from_be_bytes(hash_key.try_into().expect("a block"));
    let lengths = [aad, ciphertext].map(|part| (8 * part.len() as u64).to_be_bytes()).concat();
    let mut sum = 0;
    for part in [aad, ciphertext, &lengths] {
        for block in part.chunks(16) {
            let mut bytes = [0; 16];
            bytes[..block.len()].copy_from_slice(block);
            // The first block is no secret.
            let is_first = sum == 0;
            sum ^= u128::from_be_bytes(bytes);
            if !is_first {
                add_both(secret, sum);
            }
            sum = multiply(sum, key);
            add_both(secret, sum);
        }
    }
    wipe(std::slice::from_mut(&mut key));
    wipe(std::slice::from_mut(&mut sum));
}

/// A product in the field of GHASH (SP 800-38D, 6.3).
fn multiply(left: u128, right: u128) -> u128 {
    let (mut product, mut power) = (0, right);
    for bit in (0..128).rev() {
        product ^= power & (left >> bit & 1).wrapping_neg();
        power = power >> 1 ^ 0xe1 << 120 & (power & 1).wrapping_neg();
    }
    product
}

/// Adds a block in either order of its bytes.
fn add_both(secret: &mut Secret, block: u128) {
    secret.add(&block.to_be_bytes());
    secret.add(&block.to_le_bytes());
}

/// Adds bytes as the words that a register stores.
fn add(secret: &mut Secret, bytes: &[u8]) {
    let mut reversed = bytes.to_vec();
    reversed.reverse();
    secret.add(&reversed);
    wipe(&mut reversed);
}
