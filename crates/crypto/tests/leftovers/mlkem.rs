//! After a key of ML-KEM is dropped, no word of it is left in memory, whichever room used it.

use std::hint::black_box;

use widelane_cpu::features::upper_halves_in_use;
use widelane_crypto::mlkem::{
    DecapsulateJob, EncapsulateJob, MlKem, Outcome, ParameterSet, ROOMS, Workspace,
};
use widelane_secret::wipe;
use widelane_testkit::leftovers::Secret;
use widelane_testkit::random::Random;
use widelane_testkit::rooms::for_each_room_of;

use crate::alone;

#[test]
fn a_dropped_key_is_gone() {
    let _alone = alone();
    // It lives longer than the keys.
    let mut workspace = Workspace::new();
    for_each_room_of(ROOMS, |room, policy| {
        for set in ParameterSet::ALL {
            let ml_kem = MlKem::choose(set, policy);
            for jobs in [1, 2, 8] {
                uses(ml_kem, &mut workspace, jobs);
                assert_ne!(upper_halves_in_use(), Some(true), "{room}");
            }
        }
    });
}

fn uses(ml_kem: MlKem, workspace: &mut Workspace, count: usize) {
    let what = format!("{count} jobs, {ml_kem:?}");
    let mut seed = [0; 64];
    Random::new(count as u64).fill(&mut seed);
    let mut keys = ml_kem.generate_batch(workspace, &vec![&seed; count]);
    let mut secret = Secret::default();
    add(&mut secret, &seed);
    let vector = ml_kem.parameter_set().encapsulation_key_bytes() - 32;
    add(&mut secret, &keys[0].as_bytes()[..vector]);
    wipe(&mut seed);

    let mut message = [0; 32];
    Random::new(77).fill(&mut message);
    add(&mut secret, &message);
    let mut places = vec![(vec![0; ml_kem.parameter_set().ciphertext_bytes()], [0; 32]); count];
    let public = keys[0].encapsulation_key().to_vec();
    let mut jobs: Vec<_> = places
        .iter_mut()
        .map(|(ciphertext, shared)| EncapsulateJob::new(&public, &message, ciphertext, shared))
        .collect();
    ml_kem.encapsulate_batch(workspace, &mut jobs);
    assert!(jobs.iter().all(|job| job.outcome == Outcome::Done));
    drop(jobs);
    wipe(&mut message);
    add(&mut secret, &places[0].1);
    let mut shared = vec![[0; 32]; count];
    let mut jobs: Vec<_> = keys
        .iter()
        .zip(&places)
        .zip(&mut shared)
        .map(|((key, (ciphertext, _)), shared)| DecapsulateJob::new(key, ciphertext, shared))
        .collect();
    ml_kem.decapsulate_batch(workspace, &mut jobs);
    drop(jobs);
    assert_eq!(shared[0], places[0].1);
    assert_ne!(secret.count(), 0, "a key in use is found");
    keys.clear();
    wipe(shared.as_flattened_mut());
    places.iter_mut().for_each(|(_, shared)| wipe(shared));
    black_box(&mut places);
    assert_eq!(secret.count(), 0, "words are left of a key or a secret: {what}");
}

/// Adds bytes as little-endian words.
fn add(secret: &mut Secret, bytes: &[u8]) {
    let mut reversed = bytes.to_vec();
    reversed.reverse();
    secret.add(&reversed);
    wipe(&mut reversed);
}
