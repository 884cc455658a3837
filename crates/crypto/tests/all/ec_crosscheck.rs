//! Keys and messages on both curves, random and at the edges, in every room, against OpenSSL and
//! AWS-LC.

use std::iter::zip;

use aws_lc_rs::agreement;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, UnparsedPublicKey};
use openssl::bn::{BigNum, BigNumContext};
use openssl::derive::Deriver;
use openssl::ec::{EcKey, PointConversionForm};
use openssl::ecdsa::EcdsaSig;
use openssl::hash::{MessageDigest, hash};
use openssl::pkey::{PKey, Private};
use widelane_crypto::ec::{
    Curve, DeriveJob, Ec, GenerateJob, Outcome, PrivateKey, PublicKey, SignJob, VerifyJob,
};
use widelane_testkit::random::Random;
use widelane_testkit::rooms::for_each_room;

use crate::openssl_ec;

/// A private key, and what has to come out with the next peer and an own message.
struct Case {
    private: PrivateKey,
    public: PublicKey,
    public_bytes: Vec<u8>,
    openssl: EcKey<Private>,
    message: Vec<u8>,
    digest: Vec<u8>,
    entropy: [u8; 32],
}

#[test]
fn every_room_agrees_with_openssl_and_aws_lc() {
    for curve in Curve::ALL {
        let mut random = Random::new(20261122);
        let cases: Vec<_> = scalars(curve, &mut random)
            .iter()
            .map(|scalar| case(curve, scalar, &mut random))
            .collect();
        let peers: Vec<_> = cases.iter().rev().collect();
        let secrets: Vec<_> =
            zip(&cases, &peers).map(|(c, peer)| openssl_secret(c, peer)).collect();
        let mut signatures = Vec::new();
        for_each_room(|room, policy| {
            let ec = Ec::choose(policy);
            assert_eq!(ec.room(), room);
            generate(&ec, curve, &cases, &mut random);
            derive(&ec, curve, &cases, &peers, &secrets);
            // Signing is deterministic: every room must make the same signatures.
            for ec in Ec::sign_kernels(policy).iter().chain([&ec]) {
                let signed = sign(ec, curve, &cases);
                if signatures.is_empty() {
                    signatures = signed;
                } else {
                    let lanes = ec.lanes();
                    assert!(signatures == signed, "{room:?} with {lanes} lanes signs otherwise");
                }
            }
        });

        for (index, (case, signature)) in zip(&cases, &signatures).enumerate() {
            assert!(openssl_verifies(case, signature), "OpenSSL refuses {index}");
            assert!(aws_lc_verifies(curve, case, signature), "AWS-LC refuses {index}");
        }
        // Neither library says yes to everything.
        assert!(!openssl_verifies(&cases[0], &signatures[1]));
        assert!(!aws_lc_verifies(curve, &cases[0], &signatures[1]));
        let theirs: Vec<_> = cases.iter().map(|case| openssl_signature(curve, case)).collect();
        for_each_room(|_, policy| {
            let ec = Ec::choose(policy);
            verify(&ec, &cases, &signatures, Outcome::Done);
            verify(&ec, &cases, &theirs, Outcome::Done);
            let others: Vec<_> = theirs.iter().cycle().skip(1).take(cases.len()).cloned().collect();
            verify(&ec, &cases, &others, Outcome::Rejected);
        });
        for (case, peer) in zip(&cases, &peers).step_by(7) {
            assert_eq!(aws_lc_secret(curve, case, peer), openssl_secret(case, peer));
        }
    }
}

/// Small numbers and their negatives, powers of two, the edges of windows, and random numbers.
fn scalars(curve: Curve, random: &mut Random) -> Vec<Vec<u8>> {
    let bytes = curve.bytes();
    let order = openssl_ec::order(curve);
    let small = |number: u32| BigNum::from_u32(number).unwrap();
    let padded = |number: &BigNum| number.to_vec_padded(bytes as i32).unwrap();
    let mut scalars = Vec::new();
    for number in (1..=33).chain(62..=66).chain([127, 128, 129]) {
        let mut negative = BigNum::new().unwrap();
        negative.checked_sub(&order, &small(number)).unwrap();
        scalars.extend([padded(&small(number)), padded(&negative)]);
    }
    for bit in (8..8 * bytes).step_by(5) {
        let mut power = vec![0; bytes];
        power[bytes - 1 - bit / 8] = 1 << (bit % 8);
        scalars.push(power);
    }
    for _ in 0..60 {
        let mut number = vec![0; bytes];
        random.fill(&mut number);
        number[0] &= 0x7f;
        scalars.push(number);
    }
    scalars
}

fn case(curve: Curve, scalar: &[u8], random: &mut Random) -> Case {
    let openssl = openssl_ec::key(curve, scalar);
    let mut context = BigNumContext::new().unwrap();
    let (point, format) = (openssl.public_key(), PointConversionForm::UNCOMPRESSED);
    let public_bytes = point.to_bytes(openssl.group(), format, &mut context).unwrap();
    let mut message = vec![0; random.below(100)];
    random.fill(&mut message);
    let mut entropy = [0; 32];
    random.fill(&mut entropy);
    let message_digest = match curve {
        Curve::P256 => MessageDigest::sha256(),
        Curve::P384 => MessageDigest::sha384(),
    };
    let public = PublicKey::from_uncompressed(curve, &public_bytes).unwrap();
    assert_eq!(public.to_uncompressed(), public_bytes);
    Case {
        private: PrivateKey::from_bytes(curve, scalar).unwrap(),
        public,
        public_bytes,
        openssl,
        digest: hash(message_digest, &message).unwrap().to_vec(),
        message,
        entropy,
    }
}

/// Makes the public keys in batches of one to all lanes.
fn generate(ec: &Ec, curve: Curve, cases: &[Case], random: &mut Random) {
    let mut publics = vec![vec![0xaa; 1 + 2 * curve.bytes()]; cases.len()];
    let mut jobs: Vec<_> =
        zip(cases, &mut publics).map(|(case, out)| GenerateJob::new(&case.private, out)).collect();
    let mut rest = &mut jobs[..];
    while !rest.is_empty() {
        let (batch, others) = rest.split_at_mut((1 + random.below(ec.lanes())).min(rest.len()));
        ec.generate_batch(batch);
        rest = others;
    }
    for (index, (case, job)) in zip(cases, &jobs).enumerate() {
        assert_eq!(job.outcome, Outcome::Done, "{curve:?} {index}");
        assert_eq!(job.public, case.public_bytes, "{curve:?} {index}");
    }
}

fn derive(ec: &Ec, curve: Curve, cases: &[Case], peers: &[&Case], secrets: &[Vec<u8>]) {
    let mut ours = vec![vec![0xaa; curve.bytes()]; cases.len()];
    let mut jobs: Vec<_> = zip(zip(cases, peers), &mut ours)
        .map(|((case, peer), secret)| DeriveJob::new(&case.private, &peer.public, secret))
        .collect();
    ec.derive_batch(&mut jobs);
    for (index, (secret, job)) in zip(secrets, &jobs).enumerate() {
        assert_eq!(job.outcome, Outcome::Done, "{curve:?} {index}");
        assert_eq!(job.shared, secret, "{curve:?} {index}");
    }
}

fn sign(ec: &Ec, curve: Curve, cases: &[Case]) -> Vec<Vec<u8>> {
    let mut signatures = vec![vec![0xaa; 2 * curve.bytes()]; cases.len()];
    let mut jobs: Vec<_> = zip(cases, &mut signatures)
        .map(|(case, out)| SignJob::new(&case.private, &case.digest, &case.entropy, out))
        .collect();
    ec.sign_batch(&mut jobs);
    assert!(jobs.iter().all(|job| job.outcome == Outcome::Done));
    signatures
}

fn verify(ec: &Ec, cases: &[Case], signatures: &[Vec<u8>], wanted: Outcome) {
    let mut jobs: Vec<_> = zip(cases, signatures)
        .map(|(case, signature)| VerifyJob::new(&case.public, &case.digest, signature))
        .collect();
    ec.verify_batch(&mut jobs);
    for (index, job) in jobs.iter().enumerate() {
        assert_eq!(job.outcome, wanted, "{index}");
    }
}

/// u1·G and u2·Q may be the same point, or opposite ones: who has the key can make it so.
#[test]
fn the_last_addition_of_verifying_has_no_exceptions() {
    let mut context = BigNumContext::new().unwrap();
    for_each_room(|room, policy| {
        let ec = Ec::choose(policy);
        for curve in Curve::ALL {
            let order = openssl_ec::order(curve);
            let bytes = curve.bytes() as i32;
            let key = case(curve, &vec![0x35; curve.bytes()], &mut Random::new(1));
            let d = key.openssl.private_key();
            let u1 = BigNum::from_u32(0x1234_5678).unwrap();
            let mut double = BigNum::new().unwrap();
            double.lshift1(&u1).unwrap();
            let double = case(curve, &double.to_vec_padded(bytes).unwrap(), &mut Random::new(2));
            // R = u1·G + u2·Q = 2·u1·G for u2 = u1/d: r is its x, s = r/u2, and e = u1·s.
            let x = BigNum::from_slice(&double.public_bytes[1..=curve.bytes()]).unwrap();
            let mut product = |left: &BigNum, right: &BigNum| {
                let mut product = BigNum::new().unwrap();
                product.mod_mul(left, right, &order, &mut context).unwrap();
                product
            };
            let r = product(&x, &BigNum::from_u32(1).unwrap());
            let e = product(&r, &d.to_owned().unwrap());
            let mut context = BigNumContext::new().unwrap();
            let mut inverse = BigNum::new().unwrap();
            inverse.mod_inverse(&u1, &order, &mut context).unwrap();
            let s = product(&e, &inverse);
            let mut minus_e = BigNum::new().unwrap();
            minus_e.checked_sub(&order, &e).unwrap();
            let signature = [&r, &s].map(|number| number.to_vec_padded(bytes).unwrap()).concat();
            let digests = [&e, &minus_e].map(|number| number.to_vec_padded(bytes).unwrap());
            let mut jobs =
                digests.each_ref().map(|digest| VerifyJob::new(&key.public, digest, &signature));
            ec.verify_batch(&mut jobs);
            assert_eq!(jobs[0].outcome, Outcome::Done, "{room} {curve:?}: equal points");
            // There R is infinity, which has no x.
            assert_eq!(jobs[1].outcome, Outcome::Rejected, "{room} {curve:?}: opposite points");
            let openssl = openssl_ec::signature(&signature);
            assert!(openssl.verify(&digests[0], &key.openssl).unwrap());
            assert!(!openssl.verify(&digests[1], &key.openssl).unwrap_or(false));
        }
    });
}

fn openssl_secret(case: &Case, peer: &Case) -> Vec<u8> {
    let ours = PKey::from_ec_key(case.openssl.clone()).unwrap();
    let theirs = PKey::from_ec_key(peer.openssl.clone()).unwrap();
    let mut deriver = Deriver::new(&ours).unwrap();
    deriver.set_peer(&theirs).unwrap();
    deriver.derive_to_vec().unwrap()
}

fn openssl_signature(curve: Curve, case: &Case) -> Vec<u8> {
    let signature = EcdsaSig::sign(&case.digest, &case.openssl).unwrap();
    let padded = |number: &openssl::bn::BigNumRef| number.to_vec_padded(curve.bytes() as i32);
    [padded(signature.r()).unwrap(), padded(signature.s()).unwrap()].concat()
}

fn openssl_verifies(case: &Case, signature: &[u8]) -> bool {
    openssl_ec::signature(signature).verify(&case.digest, &case.openssl).unwrap()
}

fn aws_lc_verifies(curve: Curve, case: &Case, signature: &[u8]) -> bool {
    let algorithm = match curve {
        Curve::P256 => &ECDSA_P256_SHA256_FIXED,
        Curve::P384 => &ECDSA_P384_SHA384_FIXED,
    };
    let key = UnparsedPublicKey::new(algorithm, &case.public_bytes);
    key.verify(&case.message, signature).is_ok()
}

fn aws_lc_secret(curve: Curve, case: &Case, peer: &Case) -> Vec<u8> {
    let algorithm = match curve {
        Curve::P256 => &agreement::ECDH_P256,
        Curve::P384 => &agreement::ECDH_P384,
    };
    let private =
        agreement::PrivateKey::from_private_key(algorithm, case.private.as_bytes()).unwrap();
    let peer = agreement::UnparsedPublicKey::new(algorithm, &peer.public_bytes);
    agreement::agree(&private, peer, (), |secret| Ok(secret.to_vec())).unwrap()
}
