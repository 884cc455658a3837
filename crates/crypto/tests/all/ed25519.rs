//! The choice of a room, the vectors of RFC 8032, and signatures that must be rejected.

use widelane_cpu::{Policy, Room, Width};
use widelane_crypto::ed25519::*;
use widelane_testkit::hex;
use widelane_testkit::rooms::{for_each_room, supported};

/// RFC 8032 section 7.1: seed, public key, message, signature.
const VECTORS: [[&str; 4]; 3] = [
    [
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155\
         5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ],
    [
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da\
         085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ],
    [
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac\
         18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ],
];

#[test]
fn the_vectors_of_the_rfc_come_out() {
    for_each_room(|room, policy| {
        let ed25519 = Ed25519::choose(policy);
        assert_eq!(ed25519.room(), room);
        for [seed, public, message, signature] in VECTORS.map(|vector| vector.map(hex::decode)) {
            let key = SigningKey::from_seed(seed.as_slice().try_into().unwrap());
            assert_eq!(key.public()[..], public);
            let mut made = [0; 64];
            let mut job = SignJob::new(&key, &message, &mut made);
            ed25519.sign_batch(std::slice::from_mut(&mut job));
            assert_eq!(made[..], signature);
            assert_eq!(verify(&ed25519, &key.public(), &message, &made), Outcome::Done);
        }
    });
}

#[test]
fn each_policy_chooses_its_room() {
    let supported = supported();
    let expect = |width, wanted, lanes| {
        let ed25519 = Ed25519::choose(&Policy::up_to(width));
        assert_eq!(ed25519.room(), wanted, "{width:?}");
        assert_eq!(ed25519.lanes(), lanes);
    };
    expect(Width::W128, Room::Portable, 1);
    if supported.contains(&Room::Ifma256) {
        expect(Width::W256, Room::Ifma256, 4);
        expect(Width::W512, Room::Ifma512, 8);
    } else if supported.contains(&Room::Fma256) {
        expect(Width::W512, Room::Fma256, 4);
    }
}

#[test]
fn keys_and_rooms_may_be_shared_by_threads() {
    fn shared<T: Send + Sync + Clone>() {}
    shared::<SigningKey>();
    shared::<Ed25519>();
}

/// Any bit that is wrong makes a good signature a bad one, and no other in its batch.
#[test]
fn what_was_changed_is_rejected() {
    let keys: Vec<_> = (0..11).map(|byte| SigningKey::from_seed(&[byte; 32])).collect();
    let messages: Vec<_> = (0..11).map(|length| vec![length as u8; 97 * length]).collect();
    for_each_room(|room, policy| {
        let ed25519 = Ed25519::choose(policy);
        assert_eq!(ed25519.room(), room);
        let mut signatures = vec![[0; 64]; keys.len()];
        let mut jobs: Vec<_> = keys
            .iter()
            .zip(&messages)
            .zip(&mut signatures)
            .map(|((key, message), signature)| SignJob::new(key, message, signature))
            .collect();
        ed25519.sign_batch(&mut jobs);
        assert!(jobs.iter().all(|job| job.outcome == Outcome::Done));
        for (index, position) in [(1, 3), (4, 31), (5, 32), (8, 63)] {
            signatures[index][position] ^= 0x10;
        }
        let publics: Vec<_> = keys.iter().map(SigningKey::public).collect();
        let mut jobs: Vec<_> = publics
            .iter()
            .zip(&messages)
            .zip(&signatures)
            .map(|((public, message), signature)| VerifyJob::new(public, message, signature))
            .collect();
        ed25519.verify_batch(&mut jobs);
        for (index, job) in jobs.iter().enumerate() {
            let bad = [1, 4, 5, 8].contains(&index);
            assert_eq!(job.outcome, if bad { Outcome::Rejected } else { Outcome::Done });
        }
    });
}

/// RFC 8032 section 5.1.3: y below p, no x = 0 with its sign set, and a point of the curve.
#[test]
fn public_keys_that_are_none_are_rejected() {
    // The neutral point verifies any message with R = B·S and S = 0, so that only the encoding of
    // the key decides.
    let mut signature = [0; 64];
    signature[0] = 1;
    let neutral = |change: &dyn Fn(&mut [u8; 32])| {
        let mut public = [0; 32];
        public[0] = 1;
        change(&mut public);
        public
    };
    for_each_room(|room, policy| {
        let ed25519 = Ed25519::choose(policy);
        assert_eq!(ed25519.room(), room);
        let outcome = |public| verify(&ed25519, &public, b"", &signature);
        assert_eq!(outcome(neutral(&|_| ())), Outcome::Done);
        assert_eq!(outcome(neutral(&|public| public[31] = 0x80)), Outcome::Rejected, "sign");
        let y_above_p = neutral(&|public| {
            *public = [0xff; 32];
            (public[0], public[31]) = (0xee, 0x7f);
        });
        assert_eq!(outcome(y_above_p), Outcome::Rejected, "not canonical");
        assert_eq!(outcome(neutral(&|public| public[0] = 2)), Outcome::Rejected, "no point");
    });
}

fn verify(ed25519: &Ed25519, public: &[u8; 32], message: &[u8], signature: &[u8; 64]) -> Outcome {
    let mut job = VerifyJob::new(public, message, signature);
    ed25519.verify_batch(std::slice::from_mut(&mut job));
    job.outcome
}
