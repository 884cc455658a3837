//! After records are sealed and opened and their keys dropped, no word of the cipher's key or of
//! the key of HMAC is left in memory, alone or padded, whichever room worked.

use std::hint::black_box;

use widelane_cpu::features::upper_halves_in_use;
use widelane_crypto::cbc_hmac::{
    Algorithm, CbcHmac, Header, Key, Mode, Outcome, SealJob, seal_many,
};
use widelane_secret::wipe;
use widelane_testkit::leftovers::Secret;
use widelane_testkit::random::Random;
use widelane_testkit::rooms::for_each_room_of;

use crate::mac::add;
use crate::{alone, deep_down, drop_twice};

const HEADER: Header = Header { sequence: 7, kind: 23, version: 0x0303 };
const IV: [u8; 16] = [5; 16];
const TEXT_BYTES: usize = 1000;

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
