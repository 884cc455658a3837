//! Random keys and messages in every room, in batches of every size and at guard pages, against
//! AWS-LC and libcrux in both directions.

use aws_lc_rs::kem::{self, Ciphertext};
use libcrux_ml_kem::{mlkem512, mlkem768, mlkem1024};
use widelane_crypto::mlkem::{
    DecapsulateJob, DecapsulationKey, EncapsulateJob, MlKem, Outcome, ParameterSet, ROOMS,
    Workspace,
};
use widelane_testkit::guard::{Edge, Guarded};
use widelane_testkit::random::Random;
use widelane_testkit::rooms::for_each_room_of;

/// What libcrux makes of a seed and a message: decapsulation key, encapsulation key, ciphertext,
/// shared secret; and the secret of the ciphertext with its last bit changed.
struct Expected {
    private: Vec<u8>,
    public: Vec<u8>,
    ciphertext: Vec<u8>,
    shared: [u8; 32],
    rejected: [u8; 32],
}

macro_rules! libcrux {
    ($module:ident, $ciphertext:ident, $seed:expr, $message:expr) => {{
        let pair = $module::generate_key_pair($seed);
        let (ciphertext, shared) = $module::encapsulate(pair.public_key(), $message);
        let mut spoiled = *ciphertext.as_slice();
        *spoiled.last_mut().unwrap() ^= 1;
        let spoiled = $module::$ciphertext::from(spoiled);
        Expected {
            private: pair.sk().to_vec(),
            public: pair.pk().to_vec(),
            ciphertext: ciphertext.as_slice().to_vec(),
            shared,
            rejected: $module::decapsulate(pair.private_key(), &spoiled),
        }
    }};
}

fn expected(set: ParameterSet, seed: [u8; 64], message: [u8; 32]) -> Expected {
    match set {
        ParameterSet::MlKem512 => libcrux!(mlkem512, MlKem512Ciphertext, seed, message),
        ParameterSet::MlKem768 => libcrux!(mlkem768, MlKem768Ciphertext, seed, message),
        ParameterSet::MlKem1024 => libcrux!(mlkem1024, MlKem1024Ciphertext, seed, message),
    }
}

fn of_aws_lc(set: ParameterSet) -> &'static kem::Algorithm<kem::AlgorithmId> {
    match set {
        ParameterSet::MlKem512 => &kem::ML_KEM_512,
        ParameterSet::MlKem768 => &kem::ML_KEM_768,
        ParameterSet::MlKem1024 => &kem::ML_KEM_1024,
    }
}

fn bytes<const N: usize>(random: &mut Random) -> [u8; N] {
    let mut bytes = [0; N];
    random.fill(&mut bytes);
    bytes
}

/// Calls `test` for every parameter set in every room.
fn tour(mut test: impl FnMut(MlKem, &mut Workspace)) {
    let mut workspace = Workspace::new();
    for_each_room_of(ROOMS, |room, policy| {
        for set in ParameterSet::ALL {
            let ml_kem = MlKem::choose(set, policy);
            assert_eq!(ml_kem.room(), room);
            test(ml_kem, &mut workspace);
        }
    });
}

#[test]
fn batches_of_every_size_agree_with_libcrux() {
    tour(|ml_kem, workspace| {
        let set = ml_kem.parameter_set();
        let mut random = Random::new(203);
        for jobs in (0..=17).chain([40]) {
            let seeds: Vec<_> = (0..jobs).map(|_| bytes::<64>(&mut random)).collect();
            let messages: Vec<_> = (0..jobs).map(|_| bytes::<32>(&mut random)).collect();
            let expected: Vec<_> = seeds
                .iter()
                .zip(&messages)
                .map(|(seed, message)| expected(set, *seed, *message))
                .collect();
            let keys = ml_kem.generate_batch(workspace, &seeds.iter().collect::<Vec<_>>());
            for (key, expected) in keys.iter().zip(&expected) {
                assert_eq!(key.encapsulation_key(), expected.public, "{jobs} jobs");
                assert_eq!(key.as_bytes(), expected.private, "{jobs} jobs");
            }
            encapsulates(ml_kem, workspace, &messages, &expected);
            decapsulates(ml_kem, workspace, &keys, &expected);
        }
    });
}

fn encapsulates(
    ml_kem: MlKem,
    workspace: &mut Workspace,
    messages: &[[u8; 32]],
    expected: &[Expected],
) {
    let set = ml_kem.parameter_set();
    let mut ciphertexts = vec![vec![0; set.ciphertext_bytes()]; messages.len()];
    let mut shared = vec![[0; 32]; messages.len()];
    let mut jobs: Vec<_> = expected
        .iter()
        .zip(messages)
        .zip(ciphertexts.iter_mut().zip(&mut shared))
        .map(|((expected, message), (ciphertext, shared))| {
            EncapsulateJob::new(&expected.public, message, ciphertext, shared)
        })
        .collect();
    ml_kem.encapsulate_batch(workspace, &mut jobs);
    assert!(jobs.iter().all(|job| job.outcome == Outcome::Done));
    for ((ciphertext, shared), expected) in ciphertexts.iter().zip(&shared).zip(expected) {
        assert_eq!(*ciphertext, expected.ciphertext);
        assert_eq!(*shared, expected.shared);
    }
}

/// Every other ciphertext is spoiled.
fn decapsulates(
    ml_kem: MlKem,
    workspace: &mut Workspace,
    keys: &[DecapsulationKey],
    expected: &[Expected],
) {
    let mut ciphertexts: Vec<_> =
        expected.iter().map(|expected| expected.ciphertext.clone()).collect();
    for ciphertext in ciphertexts.iter_mut().skip(1).step_by(2) {
        *ciphertext.last_mut().unwrap() ^= 1;
    }
    let mut shared = vec![[0; 32]; keys.len()];
    let mut jobs: Vec<_> = keys
        .iter()
        .zip(&ciphertexts)
        .zip(&mut shared)
        .map(|((key, ciphertext), shared)| DecapsulateJob::new(key, ciphertext, shared))
        .collect();
    ml_kem.decapsulate_batch(workspace, &mut jobs);
    assert!(jobs.iter().all(|job| job.outcome == Outcome::Done));
    for (index, (shared, expected)) in shared.iter().zip(expected).enumerate() {
        let expected = if index % 2 == 0 { expected.shared } else { expected.rejected };
        assert_eq!(*shared, expected, "{index}");
    }
}

#[test]
fn either_side_may_be_aws_lc() {
    tour(|ml_kem, workspace| {
        let (set, mut random) = (ml_kem.parameter_set(), Random::new(204));
        for _ in 0..50 {
            // Theirs decapsulates.
            let theirs = kem::DecapsulationKey::generate(of_aws_lc(set)).unwrap();
            let public = theirs.encapsulation_key().unwrap();
            let public = public.key_bytes().unwrap();
            let message = bytes(&mut random);
            let mut ciphertext = vec![0; set.ciphertext_bytes()];
            let mut shared = [0; 32];
            let mut jobs =
                [EncapsulateJob::new(public.as_ref(), &message, &mut ciphertext, &mut shared)];
            ml_kem.encapsulate_batch(workspace, &mut jobs);
            assert_eq!(jobs[0].outcome, Outcome::Done);
            let secret = theirs.decapsulate(Ciphertext::from(&ciphertext[..])).unwrap();
            assert_eq!(secret.as_ref(), shared);
            // Ours does.
            let seed = bytes(&mut random);
            let ours = ml_kem.generate_batch(workspace, &[&seed]).swap_remove(0);
            let public =
                kem::EncapsulationKey::new(of_aws_lc(set), ours.encapsulation_key()).unwrap();
            let (ciphertext, secret) = public.encapsulate().unwrap();
            let mut jobs = [DecapsulateJob::new(&ours, ciphertext.as_ref(), &mut shared)];
            ml_kem.decapsulate_batch(workspace, &mut jobs);
            assert_eq!(jobs[0].outcome, Outcome::Done);
            assert_eq!(secret.as_ref(), shared);
            // Every byte matters: a ciphertext that is spoiled makes the secret that AWS-LC makes.
            let mut spoiled = ciphertext.as_ref().to_vec();
            let at = random.below(spoiled.len());
            spoiled[at] ^= 1 << random.below(8);
            let theirs = kem::DecapsulationKey::new(of_aws_lc(set), ours.as_bytes()).unwrap();
            let secret = theirs.decapsulate(Ciphertext::from(&spoiled[..])).unwrap();
            let mut jobs = [DecapsulateJob::new(&ours, &spoiled, &mut shared)];
            ml_kem.decapsulate_batch(workspace, &mut jobs);
            assert_eq!(secret.as_ref(), shared);
        }
    });
}

#[test]
fn nothing_beyond_a_buffer_is_touched() {
    tour(|ml_kem, workspace| {
        let set = ml_kem.parameter_set();
        for edge in Edge::ALL {
            for count in [1, 2, 3, 8] {
                let seeds: Vec<_> = (0..count).map(|byte| [byte as u8; 64]).collect();
                let keys = ml_kem.generate_batch(workspace, &seeds.iter().collect::<Vec<_>>());
                let publics: Vec<_> =
                    keys.iter().map(|key| Guarded::copy(key.encapsulation_key(), edge)).collect();
                let mut ciphertexts: Vec<_> =
                    (0..count).map(|_| Guarded::new(set.ciphertext_bytes(), edge)).collect();
                let mut shared = vec![[0; 32]; count];
                let mut jobs: Vec<_> = publics
                    .iter()
                    .zip(ciphertexts.iter_mut().zip(&mut shared))
                    .map(|(key, (ciphertext, shared))| {
                        EncapsulateJob::new(key, &[5; 32], ciphertext, shared)
                    })
                    .collect();
                ml_kem.encapsulate_batch(workspace, &mut jobs);
                assert!(jobs.iter().all(|job| job.outcome == Outcome::Done));
                let mut decapsulated = vec![[0; 32]; count];
                let mut jobs: Vec<_> = keys
                    .iter()
                    .zip(ciphertexts.iter().zip(&mut decapsulated))
                    .map(|(key, (ciphertext, shared))| DecapsulateJob::new(key, ciphertext, shared))
                    .collect();
                ml_kem.decapsulate_batch(workspace, &mut jobs);
                assert_eq!(decapsulated, shared);
            }
        }
    });
}
