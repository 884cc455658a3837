//! After records are sealed and opened and their keys dropped, no word of the cipher's key or of
//! the key of HMAC is left in memory, alone or padded, whichever room worked.

use std::hint::black_box;

use widelane_cpu::Policy;
use widelane_cpu::features::upper_halves_in_use;
use widelane_crypto::cbc_hmac::{
    Algorithm, CbcHmac, CbcHmacError, Header, Key, Mode, Outcome, SealJob, seal_many,
};
use widelane_crypto::mac::Hmac;
use widelane_secret::wipe;
use widelane_testkit::leftovers::Secret;
use widelane_testkit::random::Random;
use widelane_testkit::rooms::for_each_room_of;

use crate::mac::add;
use crate::{alone, deep_down, drop_twice, scrub};

const HEADER: Header = Header { sequence: 7, kind: 23, version: 0x0303 };
const IV: [u8; 16] = [5; 16];
const TEXT_BYTES: usize = 1000;
const MAC_KEY: &[u8] = b"a key of HMAC";

#[test]
fn a_record_leaves_nothing() {
    let _alone = alone();
    for algorithm in Algorithm::ALL {
        for_each_room_of(algorithm.rooms(), |room, policy| {
            for mode in [Mode::MacThenEncrypt, Mode::EncryptThenMac] {
                let suite = CbcHmac::choose(algorithm, mode, policy);
                assert_eq!(suite.room(), room);
                let (secret, key) = secret_key(&suite);
                use_key(&format!("{algorithm:?} in {room}, {mode:?}"), &key);
                deep_down(|| drop_twice(key, |_| ()));
                assert_eq!(secret.count(), 0, "{algorithm:?} in {room}, {mode:?}");
            }
        });
    }
}

/// The tag of a forged record would have it accepted.
#[test]
fn a_forged_record_leaves_no_tag() {
    let _alone = alone();
    for algorithm in Algorithm::ALL {
        for_each_room_of(algorithm.rooms(), |room, policy| {
            for mode in [Mode::MacThenEncrypt, Mode::EncryptThenMac] {
                let suite = CbcHmac::choose(algorithm, mode, policy);
                let key = suite.key(&vec![1; algorithm.key_bytes()], MAC_KEY).unwrap();
                let (secret, record) = forged_record(&key, policy);
                scrub();
                deep_down(|| {
                    let opened = key.open(&IV, HEADER, &mut record.clone());
                    assert_eq!(opened, Err(CbcHmacError::Rejected));
                });
                assert_eq!(secret.count(), 0, "{algorithm:?} in {room}, {mode:?}");
            }
        });
    }
}

/// A record that another first block has come into, and the words of the tag that it should have.
#[inline(never)]
fn forged_record(key: &Key, policy: &Policy) -> (Secret, Vec<u8>) {
    let mut record = vec![0; key.record_bytes(TEXT_BYTES)];
    key.seal(&IV, HEADER, TEXT_BYTES, &mut record).unwrap();
    record[0] ^= 1;
    let encrypted = match key.mode() {
        Mode::MacThenEncrypt => record.len(),
        Mode::EncryptThenMac => record.len() - key.algorithm().tag_bytes(),
    };
    let mut authenticated = record[..encrypted].to_vec();
    let iv: &[u8] = match key.mode() {
        Mode::MacThenEncrypt => {
            key.decrypt(&mut { IV }, &mut authenticated).unwrap();
            authenticated.truncate(TEXT_BYTES);
            &[]
        }
        Mode::EncryptThenMac => &IV,
    };
    let length = (iv.len() + authenticated.len()) as u16;
    let mut header = HEADER.sequence.to_be_bytes().to_vec();
    header.push(HEADER.kind);
    header.extend(HEADER.version.to_be_bytes());
    header.extend(length.to_be_bytes());
    let hmac = Hmac::choose(key.algorithm().hash(), policy).key(MAC_KEY);
    let mut tag = hmac.tag(&[&header, iv, &authenticated].concat());
    let mut secret = Secret::default();
    add(&mut secret, tag.as_ref(), 0);
    tag.wipe();
    (secret, record)
}

/// Seals alone and in lanes, and opens.
#[inline(never)]
fn use_key(who: &str, key: &Key) {
    let mut record = vec![0; key.record_bytes(TEXT_BYTES)];
    key.seal(&IV, HEADER, TEXT_BYTES, &mut record).unwrap();
    assert_ne!(upper_halves_in_use(), Some(true), "{who}");
    assert_eq!(key.open(&IV, HEADER, &mut record), Ok(TEXT_BYTES));
    assert_ne!(upper_halves_in_use(), Some(true), "{who}");
    // As many as fill the lanes of the hash, and few enough to be hashed and encrypted at once.
    for count in [20, 8] {
        let mut records = vec![record.clone(); count];
        let jobs = records.iter_mut().map(|record| SealJob {
            key,
            iv: &IV,
            header: HEADER,
            text_bytes: TEXT_BYTES,
            record,
            outcome: Outcome::Pending,
        });
        let mut jobs: Vec<_> = jobs.collect();
        seal_many(&mut jobs);
        assert_ne!(upper_halves_in_use(), Some(true), "{who}");
        assert!(jobs.iter().all(|job| job.outcome == Outcome::Done));
    }
}

/// Keys, and the words that must not be found.
#[inline(never)]
fn secret_key(suite: &CbcHmac) -> (Secret, Key) {
    let algorithm = suite.algorithm();
    let mut random = Random::new(suite.room() as u64);
    let (mut cipher, mut mac) = (vec![0; algorithm.key_bytes()], vec![0; algorithm.tag_bytes()]);
    random.fill(&mut cipher);
    random.fill(&mut mac);
    let mut secret = Secret::default();
    add(&mut secret, &cipher, 0);
    for pad in [0, 0x36, 0x5c] {
        add(&mut secret, &mac, pad);
    }
    assert_ne!(secret.count(), 0, "a key in use is found");
    let key = suite.key(&cipher, &mac).unwrap();
    wipe(&mut cipher);
    wipe(&mut mac);
    black_box((secret, key))
}
