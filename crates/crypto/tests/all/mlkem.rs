//! The choice of a room, and jobs that are refused.

use widelane_cpu::{Policy, Room, Width};
use widelane_crypto::mlkem::*;
use widelane_testkit::rooms::{for_each_room_of, supported_of};

#[test]
fn each_policy_chooses_its_room() {
    let supported = supported_of(ROOMS);
    let widest = if supported.contains(&Room::Vbmi512) { Room::Vbmi512 } else { Room::Avx512 };
    for (width, room) in
        [(Width::W128, Room::Portable), (Width::W256, Room::Avx2), (Width::W512, widest)]
    {
        if supported.contains(&room) {
            let ml_kem = MlKem::choose(ParameterSet::MlKem768, &Policy::up_to(width));
            assert_eq!(ml_kem.room(), room);
        }
    }
}

#[test]
fn keys_and_rooms_may_be_shared_by_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<DecapsulationKey>();
    shared::<MlKem>();
    shared::<Workspace>();
}

/// Bad keys and ciphertexts in all lanes, each among good ones, do not disturb those.
#[test]
fn bad_jobs_are_told_among_good_ones() {
    let mut workspace = Workspace::new();
    for_each_room_of(ROOMS, |_, policy| {
        for set in ParameterSet::ALL {
            let ml_kem = MlKem::choose(set, policy);
            let key = ml_kem.generate_batch(&mut workspace, &[&[1; SEED_BYTES]]).swap_remove(0);
            let good = key.encapsulation_key();
            let mut high = good.to_vec();
            // The last coefficient becomes q.
            let last = high.len() - 34;
            high[last] = high[last] & 0xf | 0x10;
            high[last + 1] = 0xd0;
            for count in 1..=8 {
                for bad in 0..count {
                    let keys: Vec<_> =
                        (0..count).map(|lane| if lane == bad { &high[..] } else { good }).collect();
                    refuses(ml_kem, &mut workspace, &keys, bad, Outcome::InvalidKey);
                    let keys: Vec<_> = (0..count)
                        .map(|lane| if lane == bad { &good[1..] } else { good })
                        .collect();
                    refuses(ml_kem, &mut workspace, &keys, bad, Outcome::WrongLength);
                }
            }
        }
    });
}

fn refuses(ml_kem: MlKem, workspace: &mut Workspace, keys: &[&[u8]], bad: usize, why: Outcome) {
    let mut ciphertexts = vec![vec![9; ml_kem.parameter_set().ciphertext_bytes()]; keys.len()];
    let mut shared = vec![[0; SHARED_BYTES]; keys.len()];
    let mut jobs: Vec<_> = keys
        .iter()
        .zip(ciphertexts.iter_mut().zip(&mut shared))
        .map(|(key, (ciphertext, shared))| EncapsulateJob::new(key, &[2; 32], ciphertext, shared))
        .collect();
    ml_kem.encapsulate_batch(workspace, &mut jobs);
    for (lane, job) in jobs.iter().enumerate() {
        assert_eq!(job.outcome, if lane == bad { why } else { Outcome::Done });
    }
    let other = usize::from(bad == 0);
    for lane in (0..keys.len()).filter(|lane| *lane != bad) {
        assert_eq!((&ciphertexts[lane], shared[lane]), (&ciphertexts[other], shared[other]));
        assert_ne!(shared[lane], [0; SHARED_BYTES]);
    }
    assert_eq!(shared[bad], [0; SHARED_BYTES]);
    let untouched = if why == Outcome::WrongLength { 9 } else { 0 };
    assert!(ciphertexts[bad].iter().all(|byte| *byte == untouched));
}

#[test]
fn a_coefficient_that_is_not_below_q_is_found_at_every_place() {
    for set in ParameterSet::ALL {
        // The coefficients are followed by the seed of the matrix.
        let vector_bytes = set.encapsulation_key_bytes() - 32;
        // Two coefficients of q - 1, which is 0xd00, in three bytes.
        let mut key = [0x00, 0x0d, 0xd0].repeat(vector_bytes / 3);
        key.resize(set.encapsulation_key_bytes(), 0xff);
        assert!(set.is_encapsulation_key(&key));
        for begin in (0..vector_bytes).step_by(3) {
            for bad in [[0x01, 0x0d, 0xd0], [0x00, 0x1d, 0xd0], [0xff, 0x0f, 0x00], [0, 0xf0, 0xff]]
            {
                let mut key = key.clone();
                key[begin..][..3].copy_from_slice(&bad);
                assert!(!set.is_encapsulation_key(&key), "{set:?}, byte {begin}");
            }
        }
    }
}

#[test]
fn ciphertexts_and_keys_of_wrong_lengths_are_refused() {
    let mut workspace = Workspace::new();
    for set in ParameterSet::ALL {
        let ml_kem = MlKem::choose(set, &Policy::open());
        let key = ml_kem.generate_batch(&mut workspace, &[&[1; SEED_BYTES]]).swap_remove(0);
        for length in [0, set.ciphertext_bytes() - 1, set.ciphertext_bytes() + 1] {
            let (ciphertext, mut shared) = (vec![0; length], [7; SHARED_BYTES]);
            let mut jobs = [DecapsulateJob::new(&key, &ciphertext, &mut shared)];
            ml_kem.decapsulate_batch(&mut workspace, &mut jobs);
            assert_eq!(jobs[0].outcome, Outcome::WrongLength);
            assert_eq!(shared, [7; SHARED_BYTES]);

            let (public, mut ciphertext) = (key.encapsulation_key(), vec![7; length]);
            let (mut good, mut of_good) = (vec![7; set.ciphertext_bytes()], [7; SHARED_BYTES]);
            let mut jobs = [
                EncapsulateJob::new(public, &[3; 32], &mut ciphertext, &mut shared),
                EncapsulateJob::new(public, &[3; 32], &mut good, &mut of_good),
            ];
            ml_kem.encapsulate_batch(&mut workspace, &mut jobs);
            assert_eq!(jobs.map(|job| job.outcome), [Outcome::WrongLength, Outcome::Done]);
            assert_eq!((ciphertext, shared), (vec![7; length], [7; SHARED_BYTES]));
        }
        let bytes = key.as_bytes();
        let error = ml_kem.import(&mut workspace, &bytes[1..]).unwrap_err();
        let (expected, actual) = (bytes.len(), bytes.len() - 1);
        assert_eq!(error, KeyError::Length { expected, actual });
        let mut bytes = bytes.to_vec();
        bytes[set.decapsulation_key_bytes() - 40] ^= 1;
        assert_eq!(ml_kem.import(&mut workspace, &bytes).unwrap_err(), KeyError::Hash);
    }
}
