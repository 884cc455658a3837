//! Random keys and messages on both curves, in every room, against OpenSSL and AWS-LC.

use openssl::bn::{BigNum, BigNumContext};
use openssl::derive::Deriver;
use openssl::ec::{EcGroup, EcKey, EcPoint, PointConversionForm};
use openssl::ecdsa::EcdsaSig;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use widelane_crypto::ec::{
    Curve, DeriveJob, Ec, GenerateJob, Outcome, PrivateKey, PublicKey, SignJob, VerifyJob,
};
use widelane_testkit::random::Random;
use widelane_testkit::rooms::{for_each_room, supported};

fn group(curve: Curve) -> EcGroup {
    EcGroup::from_curve_name(match curve {
        Curve::P256 => Nid::X9_62_PRIME256V1,
        Curve::P384 => Nid::SECP384R1,
    })
    .unwrap()
}

/// A key here and there.
struct Pair {
    private: PrivateKey,
    public: PublicKey,
    public_bytes: Vec<u8>,
    openssl: EcKey<Private>,
}

fn pair(curve: Curve, bytes: &[u8]) -> Pair {
    let group = group(curve);
    let mut context = BigNumContext::new().unwrap();
    let number = BigNum::from_slice(bytes).unwrap();
    let mut point = EcPoint::new(&group).unwrap();
    point.mul_generator(&group, &number, &context).unwrap();
    let public_bytes =
        point.to_bytes(&group, PointConversionForm::UNCOMPRESSED, &mut context).unwrap();
    Pair {
        private: PrivateKey::from_bytes(curve, bytes).unwrap(),
        public: PublicKey::from_uncompressed(curve, &public_bytes).unwrap(),
        public_bytes,
        openssl: EcKey::from_private_components(&group, &number, &point).unwrap(),
    }
}

/// Numbers at the edges of windows and of the range, and random ones.
fn scalars(curve: Curve, random: &mut Random, count: usize) -> Vec<Vec<u8>> {
    let group = group(curve);
    let mut context = BigNumContext::new().unwrap();
    let mut order = BigNum::new().unwrap();
    group.order(&mut order, &mut context).unwrap();
    let bytes = curve.bytes() as i32;
    let mut scalars = Vec::new();
    for small in 1..=140 {
        scalars.push(BigNum::from_u32(small).unwrap().to_vec_padded(bytes).unwrap());
        let mut near = BigNum::new().unwrap();
        near.checked_sub(&order, &BigNum::from_u32(small).unwrap()).unwrap();
        scalars.push(near.to_vec_padded(bytes).unwrap());
    }
    for bit in 1..8 * curve.bytes() {
        let mut number = vec![0; curve.bytes()];
        number[curve.bytes() - 1 - bit / 8] = 1 << (bit % 8);
        scalars.push(number);
    }
    for _ in 0..count {
        let mut number = vec![0; curve.bytes()];
        random.fill(&mut number);
        number[0] &= 0x7f;
        scalars.push(number);
    }
    scalars
}

#[test]
fn keys_secrets_and_signatures_agree_with_openssl() {
    let mut random = Random::new(256384);
    let pairs: Vec<(Curve, Vec<Pair>)> = Curve::ALL
        .map(|curve| {
            let scalars = scalars(curve, &mut random, 50);
            (curve, scalars.iter().map(|bytes| pair(curve, bytes)).collect())
        })
        .into();
    let visited = for_each_room(|room, policy| {
        let ec = Ec::choose(policy);
        assert_eq!(ec.room(), room);
        for (curve, pairs) in &pairs {
            generate(&ec, *curve, pairs);
            derive(&ec, *curve, pairs);
            sign(&ec, *curve, pairs);
        }
    });
    assert_eq!(visited, supported());
}

fn generate(ec: &Ec, curve: Curve, pairs: &[Pair]) {
    let mut publics = vec![vec![0xaa; 1 + 2 * curve.bytes()]; pairs.len()];
    let mut jobs: Vec<_> =
        pairs.iter().zip(&mut publics).map(|(p, o)| GenerateJob::new(&p.private, o)).collect();
    ec.generate_batch(&mut jobs);
    for (index, (pair, job)) in pairs.iter().zip(&jobs).enumerate() {
        assert_eq!(job.outcome, Outcome::Done, "{curve:?} {index}");
        assert_eq!(job.public, pair.public_bytes, "{curve:?} {index}");
        assert_eq!(pair.public.to_uncompressed(), pair.public_bytes);
    }
}

fn derive(ec: &Ec, curve: Curve, pairs: &[Pair]) {
    let peers: Vec<_> = (0..pairs.len()).map(|index| &pairs[pairs.len() - 1 - index]).collect();
    let mut secrets = vec![vec![0xaa; curve.bytes()]; pairs.len()];
    let mut jobs: Vec<_> = pairs
        .iter()
        .zip(&peers)
        .zip(&mut secrets)
        .map(|((pair, peer), secret)| DeriveJob::new(&pair.private, &peer.public, secret))
        .collect();
    ec.derive_batch(&mut jobs);
    for (index, (pair, job)) in pairs.iter().zip(&jobs).enumerate() {
        let ours = PKey::from_ec_key(pair.openssl.clone()).unwrap();
        let theirs = PKey::from_ec_key(peers[index].openssl.clone()).unwrap();
        let mut deriver = Deriver::new(&ours).unwrap();
        deriver.set_peer(&theirs).unwrap();
        assert_eq!(job.outcome, Outcome::Done, "{curve:?} {index}");
        assert_eq!(job.shared, deriver.derive_to_vec().unwrap(), "{curve:?} {index}");
    }
}

fn sign(ec: &Ec, curve: Curve, pairs: &[Pair]) {
    let digests: Vec<_> = (0..pairs.len()).map(|index| vec![index as u8; index % 70]).collect();
    let mut signatures = vec![vec![0xaa; 2 * curve.bytes()]; pairs.len()];
    let mut jobs: Vec<_> = pairs
        .iter()
        .zip(&digests)
        .zip(&mut signatures)
        .map(|((pair, digest), out)| SignJob::new(&pair.private, digest, &[7; 32], out))
        .collect();
    ec.sign_batch(&mut jobs);
    assert!(jobs.iter().all(|job| job.outcome == Outcome::Done));
    for (index, (pair, signature)) in pairs.iter().zip(&signatures).enumerate() {
        let (r, s) = signature.split_at(curve.bytes());
        let number = |bytes| BigNum::from_slice(bytes).unwrap();
        let signature = EcdsaSig::from_private_components(number(r), number(s)).unwrap();
        assert!(signature.verify(&digests[index], &pair.openssl).unwrap(), "{curve:?} {index}");
    }

    let theirs: Vec<_> = pairs
        .iter()
        .zip(&digests)
        .map(|(pair, digest)| {
            let signature = EcdsaSig::sign(digest, &pair.openssl).unwrap();
            let bytes = curve.bytes() as i32;
            let mut both = signature.r().to_vec_padded(bytes).unwrap();
            both.extend(signature.s().to_vec_padded(bytes).unwrap());
            both
        })
        .collect();
    for signatures in [&signatures, &theirs] {
        let mut jobs: Vec<_> = pairs
            .iter()
            .zip(&digests)
            .zip(signatures)
            .map(|((pair, digest), signature)| VerifyJob::new(&pair.public, digest, signature))
            .collect();
        ec.verify_batch(&mut jobs);
        for (index, job) in jobs.iter().enumerate() {
            assert_eq!(job.outcome, Outcome::Done, "{curve:?} {index}");
        }
    }
}
