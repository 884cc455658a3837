//! ML-KEM vectors of NIST (ACVP), in every room.

use sha2::{Digest as _, Sha256};
use widelane_crypto::mlkem::{
    DecapsulateJob, EncapsulateJob, MlKem, Outcome, ParameterSet, ROOMS, Workspace,
};
use widelane_testkit::hex;
use widelane_testkit::rooms::for_each_room_of;

#[test]
fn the_published_keys_and_secrets_come_out() {
    let lines: Vec<_> = include_str!("../../../../vectors/nist/ml-kem.txt").lines().collect();
    assert_eq!(lines.len(), 3 * (25 + 6 + 6 + 4 + 4));
    let mut workspace = Workspace::new();
    for_each_room_of(ROOMS, |room, policy| {
        for line in &lines {
            let fields: Vec<_> = line.split(' ').collect();
            let set = match fields[1] {
                "512" => ParameterSet::MlKem512,
                "768" => ParameterSet::MlKem768,
                "1024" => ParameterSet::MlKem1024,
                other => panic!("no parameter set {other}"),
            };
            let ml_kem = MlKem::choose(set, policy);
            assert_eq!(ml_kem.room(), room);
            let right = check(ml_kem, &mut workspace, fields[0], &fields[2..]);
            assert!(right, "{room}: {}", &line[..40]);
        }
    });
}

/// Whether what comes out is what a line says.
fn check(ml_kem: MlKem, workspace: &mut Workspace, kind: &str, fields: &[&str]) -> bool {
    match (kind, fields) {
        ("generate", [seed, public, private]) => {
            let seed = hex::decode(seed).try_into().expect("64 bytes");
            let key = ml_kem.generate_batch(workspace, &[&seed]).swap_remove(0);
            sha256(key.encapsulation_key()) == *public && sha256(key.as_bytes()) == *private
        }
        ("encapsulate", [key, message, digest, secret]) => {
            let message = hex::decode(message).try_into().expect("32 bytes");
            let (outcome, ciphertext, shared) =
                encapsulate(ml_kem, workspace, &hex::decode(key), &message);
            outcome == Outcome::Done
                && sha256(&ciphertext) == *digest
                && shared == hex::decode(secret)
        }
        ("decapsulate", [key, ciphertext, secret]) => {
            let key = ml_kem.import(workspace, &hex::decode(key)).expect("a key");
            let (mut shared, ciphertext) = ([0; 32], hex::decode(ciphertext));
            let mut jobs = [DecapsulateJob::new(&key, &ciphertext, &mut shared)];
            ml_kem.decapsulate_batch(workspace, &mut jobs);
            jobs[0].outcome == Outcome::Done && shared == *hex::decode(secret)
        }
        ("check-encapsulation", [key, passed]) => {
            let (outcome, ..) = encapsulate(ml_kem, workspace, &hex::decode(key), &[7; 32]);
            outcome == if *passed == "true" { Outcome::Done } else { Outcome::InvalidKey }
        }
        ("check-decapsulation", [key, passed]) => {
            ml_kem.import(workspace, &hex::decode(key)).is_ok() == (*passed == "true")
        }
        _ => panic!("no kind of test {kind}"),
    }
}

fn encapsulate(
    ml_kem: MlKem,
    workspace: &mut Workspace,
    key: &[u8],
    message: &[u8; 32],
) -> (Outcome, Vec<u8>, Vec<u8>) {
    let mut ciphertext = vec![0; ml_kem.parameter_set().ciphertext_bytes()];
    let mut shared = [0; 32];
    let mut jobs = [EncapsulateJob::new(key, message, &mut ciphertext, &mut shared)];
    ml_kem.encapsulate_batch(workspace, &mut jobs);
    (jobs[0].outcome, ciphertext, shared.to_vec())
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(&Sha256::digest(bytes))
}
