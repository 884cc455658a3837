//! Vectors of Project Wycheproof for authenticated encryption, in every room.

use widelane_crypto::aead::{Aead, AeadError, Algorithm};
use widelane_testkit::rooms::for_each_room_of;
use widelane_testkit::wycheproof::TestResult;
use widelane_testkit::wycheproof::aead::{Test, TestName, TestSet};

#[test]
fn aes_gcm() {
    let judged = judge(TestName::AesGcm, |bits| {
        [Algorithm::Aes128Gcm, Algorithm::Aes192Gcm, Algorithm::Aes256Gcm]
            .into_iter()
            .find(|algorithm| algorithm.key_bytes() * 8 == bits)
    });
    assert_eq!(judged, (229, 87), "all vectors of the set");
}

#[test]
fn chacha20_poly1305() {
    let judged = judge(TestName::ChaCha20Poly1305, |_| Some(Algorithm::ChaCha20Poly1305));
    assert_eq!(judged, (256, 69), "all vectors of the set");
}

/// Runs a set in every room and returns how many vectors it has that are valid and that are not.
fn judge(name: TestName, algorithm: impl Fn(usize) -> Option<Algorithm>) -> (usize, usize) {
    let set = TestSet::load(name).unwrap();
    let (mut valid, mut invalid) = (0, 0);
    for group in &set.test_groups {
        let algorithm = algorithm(group.key_size).expect("an algorithm for the key");
        let rooms = for_each_room_of(algorithm.rooms(), |room, policy| {
            let aead = Aead::choose(algorithm, policy);
            assert_eq!(aead.room(), room);
            group.tests.iter().for_each(|test| judge_one(&aead, test));
        });
        assert!(!rooms.is_empty());
        valid += group.tests.iter().filter(|test| test.result == TestResult::Valid).count();
        invalid += group.tests.iter().filter(|test| test.result == TestResult::Invalid).count();
    }
    (valid, invalid)
}

fn judge_one(aead: &Aead, test: &Test) {
    let key = aead.key(&test.key).unwrap();
    let mut opened = vec![0xff; test.ct.len()];
    let outcome = key.open(&test.nonce, &test.aad, &test.ct, &mut opened, &test.tag);
    match test.result {
        TestResult::Valid => {
            assert_eq!(outcome, Ok(()), "{}", test.tc_id);
            assert_eq!(opened, &test.pt[..], "{}", test.tc_id);
            let (mut sealed, mut tag) = (test.pt.to_vec(), [0; 16]);
            key.seal_in_place(&test.nonce, &test.aad, &mut sealed, &mut tag).unwrap();
            assert_eq!((&sealed[..], &tag[..]), (&test.ct[..], &test.tag[..]), "{}", test.tc_id);
        }
        _ => match outcome {
            Err(AeadError::Rejected) => assert!(opened.iter().all(|byte| *byte == 0)),
            Err(AeadError::NonceLength { .. }) => {}
            other => panic!("{} is {other:?}", test.tc_id),
        },
    }
}
