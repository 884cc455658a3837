//! ECDSA and ECDH vectors of Project Wycheproof for P-256 and P-384, in every room.

use openssl::hash::{MessageDigest, hash};
use widelane_crypto::ec::encoding::signature_from_der;
use widelane_crypto::ec::{Curve, DeriveJob, Ec, Outcome, PrivateKey, PublicKey, VerifyJob};
use widelane_testkit::rooms::for_each_room;
use widelane_testkit::wycheproof::{
    EllipticCurve, HashFunction as Hash, TestResult,
    ecdh::{self, EcdhEncoding},
    ecdsa,
};

/// A signature vector as a job wants it, and whether it is good.
struct Signature {
    name: String,
    key: PublicKey,
    digest: Vec<u8>,
    signature: Vec<u8>,
    good: bool,
}

#[test]
fn ecdsa_signatures() {
    let (mut vectors, mut malformed) = (Vec::new(), 0);
    for name in ecdsa::TestName::all().into_iter().filter(|name| is_ours(&format!("{name:?}"))) {
        // r || s as it is, or in DER.
        let is_plain = format!("{name:?}").ends_with("P1363");
        let set = ecdsa::TestSet::load(name).unwrap();
        for group in &set.test_groups {
            let curve = curve(group.key.curve).expect("the name says so");
            let Some(message_digest) = message_digest(group.hash) else {
                continue; // SHAKE with ECDSA is not in TLS, nor in our provider.
            };
            let key = PublicKey::from_uncompressed(curve, &group.key.key).unwrap();
            for test in &group.tests {
                let signature = if is_plain {
                    Some(test.sig.to_vec())
                } else {
                    signature_from_der(curve, &test.sig).ok()
                };
                let Some(signature) = signature else {
                    assert_ne!(test.result, TestResult::Valid, "{name:?} {}", test.tc_id);
                    malformed += 1;
                    continue;
                };
                vectors.push(Signature {
                    name: format!("{name:?} {}", test.tc_id),
                    key: key.clone(),
                    digest: hash(message_digest, &test.msg).unwrap().to_vec(),
                    signature,
                    good: test.result == TestResult::Valid,
                });
            }
        }
    }
    for_each_room(|room, policy| {
        let ec = Ec::choose(policy);
        assert_eq!(ec.room(), room);
        let mut jobs: Vec<_> = vectors
            .iter()
            .map(|vector| VerifyJob::new(&vector.key, &vector.digest, &vector.signature))
            .collect();
        ec.verify_batch(&mut jobs);
        for (vector, job) in vectors.iter().zip(&jobs) {
            let wanted = match vector.signature.len() == 2 * vector.key.curve().bytes() {
                true if vector.good => Outcome::Done,
                true => Outcome::Rejected,
                false => Outcome::Mismatched,
            };
            assert_eq!(job.outcome, wanted, "{} in {room}", vector.name);
        }
    });
    let good = vectors.iter().filter(|vector| vector.good).count();
    eprintln!("vectors visited: {} good of {}, {malformed} malformed", good, vectors.len());
    assert_eq!((good, vectors.len(), malformed), (2694, 3704, 2114));
}

#[test]
fn ecdh_secrets() {
    let (mut done, mut refused) = (0, 0);
    let rooms = for_each_room(|room, policy| {
        let ec = Ec::choose(policy);
        assert_eq!(ec.room(), room);
        for name in ecdh::TestName::all().into_iter().filter(|name| is_ours(&format!("{name:?}"))) {
            let set = ecdh::TestSet::load(name).unwrap();
            for group in &set.test_groups {
                let curve = curve(group.curve).expect("the name says so");
                for test in &group.tests {
                    let public = match group.encoding {
                        EcdhEncoding::Asn1 => named_curve_point(curve, &test.public_key),
                        EcdhEncoding::EcPoint => Some(&test.public_key[..]),
                    };
                    let secret = public.and_then(|public| {
                        derive(&ec, curve, &padded(curve, &test.private_key), public)
                    });
                    match secret {
                        Some(secret) => {
                            assert_ne!(test.result, TestResult::Invalid, "{name:?} {}", test.tc_id);
                            assert_eq!(secret, test.shared_secret[..], "{name:?} {}", test.tc_id);
                            done += 1;
                        }
                        None => {
                            assert_ne!(test.result, TestResult::Valid, "{name:?} {}", test.tc_id);
                            refused += 1;
                        }
                    }
                }
            }
        }
    });
    eprintln!("vectors visited: {done} derived, {refused} refused");
    assert_eq!((done, refused), (2202 * rooms.len(), 602 * rooms.len()));
}

fn derive(ec: &Ec, curve: Curve, private: &[u8], public: &[u8]) -> Option<Vec<u8>> {
    let peer = PublicKey::from_uncompressed(curve, public).ok()?;
    let private = PrivateKey::from_bytes(curve, private).expect("a private key in range");
    let mut secret = vec![0xaa; curve.bytes()];
    let mut job = DeriveJob::new(&private, &peer, &mut secret);
    ec.derive_batch(std::slice::from_mut(&mut job));
    assert_eq!(job.outcome, Outcome::Done);
    Some(secret)
}

/// The point in a SubjectPublicKeyInfo, if it is an uncompressed one on the curve by name.
fn named_curve_point(curve: Curve, info: &[u8]) -> Option<&[u8]> {
    let header: &[u8] = match curve {
        Curve::P256 => {
            b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\
              \x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00"
        }
        Curve::P384 => {
            b"\x30\x76\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\
              \x06\x05\x2b\x81\x04\x00\x22\x03\x62\x00"
        }
    };
    info.strip_prefix(header)
}

/// The number in as many bytes as the curve takes; the vectors write it as DER does.
fn padded(curve: Curve, number: &[u8]) -> Vec<u8> {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    let digits = &number[zeros..];
    let mut padded = vec![0; curve.bytes() - digits.len()];
    padded.extend(digits);
    padded
}

fn is_ours(name: &str) -> bool {
    name.contains("Secp256r1") || name.contains("Secp384r1")
}

fn curve(curve: EllipticCurve) -> Option<Curve> {
    match curve {
        EllipticCurve::Secp256r1 => Some(Curve::P256),
        EllipticCurve::Secp384r1 => Some(Curve::P384),
        _ => None,
    }
}

fn message_digest(hash: Hash) -> Option<MessageDigest> {
    Some(match hash {
        Hash::Sha2_256 => MessageDigest::sha256(),
        Hash::Sha2_384 => MessageDigest::sha384(),
        Hash::Sha2_512 => MessageDigest::sha512(),
        Hash::Sha3_256 => MessageDigest::sha3_256(),
        Hash::Sha3_384 => MessageDigest::sha3_384(),
        Hash::Sha3_512 => MessageDigest::sha3_512(),
        _ => return None,
    })
}
