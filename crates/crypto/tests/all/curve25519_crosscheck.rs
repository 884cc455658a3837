//! Random keys and messages in every room, in batches of every size, against OpenSSL and AWS-LC.

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use openssl::derive::Deriver;
use openssl::pkey::{Id, PKey};
use openssl::sign::Verifier;
use widelane_crypto::ed25519::{self, Ed25519, SignJob, SigningKey, VerifyJob};
use widelane_crypto::x25519::{self, DeriveJob, GenerateJob, PrivateKey, X25519};
use widelane_testkit::random::Random;
use widelane_testkit::rooms::{self, for_each_room, for_each_room_of};

/// A multiple of no number of lanes.
const JOBS: usize = 1003;

fn random_bytes(random: &mut Random) -> [u8; 32] {
    let mut bytes = [0; 32];
    random.fill(&mut bytes);
    match random.below(16) {
        // Every eighth number begins with zeros or ones.
        0 | 1 => {
            let filled = random.below(32);
            bytes[..filled].fill(if random.below(2) == 0 { 0 } else { 0xff });
        }
        // p + 2 to 2^255 − 1. OpenSSL refuses p and its two neighbours, points of small order.
        2 => {
            bytes = [0xff; 32];
            bytes[0] = 0xef + random.below(17) as u8;
            bytes[31] = 0x7f;
        }
        _ => {}
    }
    bytes
}

#[test]
fn key_agreement_agrees_with_openssl() {
    let mut random = Random::new(7748);
    let privates: Vec<_> = (0..JOBS).map(|_| random_bytes(&mut random)).collect();
    let peers: Vec<_> = (0..JOBS).map(|_| random_bytes(&mut random)).collect();
    let keys: Vec<_> = privates.iter().map(PrivateKey::from_bytes).collect();
    let mut expected = Vec::new();
    for (private, peer) in privates.iter().zip(&peers) {
        let private = PKey::private_key_from_raw_bytes(private, Id::X25519).unwrap();
        let peer = PKey::public_key_from_raw_bytes(peer, Id::X25519).unwrap();
        let mut deriver = Deriver::new(&private).unwrap();
        deriver.set_peer(&peer).unwrap();
        let shared = deriver.derive_to_vec().unwrap();
        expected.push((private.raw_public_key().unwrap(), shared));
    }
    for_each_room_of(&rooms::X25519, |room, policy| {
        let x25519 = X25519::choose(policy);
        assert_eq!(x25519.room(), room);
        let mut publics = vec![[0; 32]; JOBS];
        let mut jobs: Vec<_> =
            keys.iter().zip(&mut publics).map(|(key, out)| GenerateJob::new(key, out)).collect();
        in_batches(&mut jobs, |jobs| x25519.generate_batch(jobs));
        for x25519 in X25519::derive_kernels(policy).iter().chain([&x25519]) {
            let mut shared = vec![[0; 32]; JOBS];
            let mut jobs: Vec<_> = keys
                .iter()
                .zip(&peers)
                .zip(&mut shared)
                .map(|((key, peer), shared)| DeriveJob::new(key, peer, shared))
                .collect();
            in_batches(&mut jobs, |jobs| x25519.derive_batch(jobs));
            for (index, job) in jobs.iter().enumerate() {
                assert_eq!(job.outcome, x25519::Outcome::Done);
                assert_eq!(job.shared[..], expected[index].1, "{room} {:x?}", privates[index]);
                assert_eq!(publics[index][..], expected[index].0, "{room} {:x?}", privates[index]);
            }
        }
    });
}

#[test]
fn signatures_agree_with_aws_lc_and_openssl() {
    let mut random = Random::new(8032);
    let seeds: Vec<_> = (0..JOBS).map(|_| random_bytes(&mut random)).collect();
    let keys: Vec<_> = seeds.iter().map(SigningKey::from_seed).collect();
    let messages: Vec<_> = (0..JOBS)
        .map(|_| {
            let mut message = vec![0; random.below(300)];
            random.fill(&mut message);
            message
        })
        .collect();
    let mut first = None;
    for_each_room(|room, policy| {
        let ed25519 = Ed25519::choose(policy);
        assert_eq!(ed25519.room(), room);
        let mut signatures = vec![[0; 64]; JOBS];
        let mut jobs: Vec<_> = keys
            .iter()
            .zip(&messages)
            .zip(&mut signatures)
            .map(|((key, message), signature)| SignJob::new(key, message, signature))
            .collect();
        in_batches(&mut jobs, |jobs| ed25519.sign_batch(jobs));
        // Signatures are deterministic: what the first room made, all others must.
        let first: &Vec<_> = first.get_or_insert_with(|| signatures.clone());
        assert_eq!(*first, signatures, "{room}");

        let publics: Vec<_> = keys.iter().map(SigningKey::public).collect();
        let mut jobs: Vec<_> = publics
            .iter()
            .zip(&messages)
            .zip(&signatures)
            .map(|((public, message), signature)| VerifyJob::new(public, message, signature))
            .collect();
        in_batches(&mut jobs, |jobs| ed25519.verify_batch(jobs));
        assert!(jobs.iter().all(|job| job.outcome == ed25519::Outcome::Done));
    });

    for (index, signature) in first.expect("a room").iter().enumerate() {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seeds[index]).unwrap();
        assert_eq!(pair.public_key().as_ref(), keys[index].public());
        assert_eq!(pair.sign(&messages[index]).as_ref(), signature);
        let public = UnparsedPublicKey::new(&ED25519, keys[index].public());
        public.verify(&messages[index], signature).unwrap();
        let public = PKey::public_key_from_raw_bytes(&keys[index].public(), Id::ED25519).unwrap();
        let mut verifier = Verifier::new_without_digest(&public).unwrap();
        assert!(verifier.verify_oneshot(signature, &messages[index]).unwrap());
    }
}

/// A signature with one bit changed anywhere is judged as OpenSSL judges it.
#[test]
fn damaged_signatures_are_judged_as_openssl_judges_them() {
    let mut random = Random::new(1);
    let key = SigningKey::from_seed(&random_bytes(&mut random));
    for_each_room(|room, policy| {
        let ed25519 = Ed25519::choose(policy);
        assert_eq!(ed25519.room(), room);
        let mut signature = [0; 64];
        let mut job = SignJob::new(&key, b"message", &mut signature);
        ed25519.sign_batch(std::slice::from_mut(&mut job));
        let damaged: Vec<_> = (0..512)
            .map(|bit| {
                let mut damaged = signature;
                damaged[bit / 8] ^= 1 << (bit % 8);
                damaged
            })
            .collect();
        let public = key.public();
        let mut jobs: Vec<_> =
            damaged.iter().map(|damaged| VerifyJob::new(&public, b"message", damaged)).collect();
        ed25519.verify_batch(&mut jobs);
        let public = PKey::public_key_from_raw_bytes(&public, Id::ED25519).unwrap();
        for job in &jobs {
            let mut verifier = Verifier::new_without_digest(&public).unwrap();
            assert!(!verifier.verify_oneshot(job.signature, job.message).unwrap_or(false));
            assert_eq!(job.outcome, ed25519::Outcome::Rejected, "{room}");
        }
    });
}

/// Executes jobs in batches of 1, 2, 3 … jobs.
fn in_batches<J>(mut jobs: &mut [J], execute: impl Fn(&mut [J])) {
    for count in (1..=20).cycle() {
        if jobs.is_empty() {
            break;
        }
        let (batch, rest) = jobs.split_at_mut(count.min(jobs.len()));
        execute(batch);
        jobs = rest;
    }
}
