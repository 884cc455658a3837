//! The choice of a room, and jobs that must be refused.

use widelane_cpu::{Policy, Room, Width};
use widelane_testkit::rooms::{for_each_room, supported};

use super::*;

#[test]
fn each_policy_chooses_its_room() {
    let supported = supported();
    let expect = |width, wanted, lanes| {
        let ec = Ec::choose(&Policy::up_to(width));
        assert_eq!(ec.room(), wanted, "{width:?}");
        assert_eq!(ec.lanes(), lanes);
    };
    expect(Width::W128, Room::Portable, 1);
    if supported.contains(&Room::Ifma256) {
        expect(Width::W256, Room::Ifma256, 4);
        expect(Width::W512, Room::Ifma512, 8);
    }
}

#[test]
fn keys_and_rooms_may_be_shared_by_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<PrivateKey>();
    shared::<PublicKey>();
    shared::<Ec>();
}

/// A private key made of one byte.
fn private(curve: Curve, byte: u8) -> PrivateKey {
    let mut bytes = vec![0; curve.bytes()];
    *bytes.last_mut().unwrap() = byte;
    PrivateKey::from_bytes(curve, &bytes).unwrap()
}

fn public(ec: &Ec, private: &PrivateKey) -> PublicKey {
    let mut bytes = vec![0; 1 + 2 * private.curve().bytes()];
    let mut job = GenerateJob::new(private, &mut bytes);
    ec.generate_batch(std::slice::from_mut(&mut job));
    assert_eq!(job.outcome, Outcome::Done);
    PublicKey::from_uncompressed(private.curve(), &bytes).unwrap()
}

#[test]
fn a_signature_verifies_and_another_does_not() {
    let visited = for_each_room(|room, policy| {
        let ec = Ec::choose(policy);
        assert_eq!(ec.room(), room);
        for curve in Curve::ALL {
            let key = private(curve, 7);
            let public = public(&ec, &key);
            let mut signature = vec![0; 2 * curve.bytes()];
            let mut job = SignJob::new(&key, &[1; 32], &[2; 32], &mut signature);
            ec.sign_batch(std::slice::from_mut(&mut job));
            assert_eq!(job.outcome, Outcome::Done, "{room:?} {curve:?}");
            let mut jobs = [[1; 32], [3; 32]]
                .each_ref()
                .map(|d| VerifyJob::new(&public, d, &signature))
                .map(|j| j);
            ec.verify_batch(&mut jobs);
            assert_eq!(jobs[0].outcome, Outcome::Done, "{room:?} {curve:?}");
            assert_eq!(jobs[1].outcome, Outcome::Rejected, "{room:?} {curve:?}");
        }
    });
    assert_eq!(visited, supported());
}
