//! Thousands of random messages with mixed keys, signed in every room in mixed batches, and
//! verified by OpenSSL and by AWS-LC.

use std::iter::zip;
use std::num::NonZero;
use std::thread;

use aws_lc_rs::signature::{self, RsaParameters, RsaPublicKeyComponents};
use openssl::bn::BigNum;
use openssl::hash::hash;
use openssl::pkey::{PKey, Public};
use openssl::rsa::{Padding, Rsa as OpenSslRsa};
use openssl::sign::{RsaPssSaltlen, Verifier};
use widelane_cpu::{Policy, Room};
use widelane_crypto::rsa::encoding::{DigestAlgorithm, pkcs1_sign_encode, pss_encode};
use widelane_crypto::rsa::{Components, KeySize, Outcome, PrivateJob, PrivateKey, Rsa};
use widelane_testkit::random::Random;
use widelane_testkit::rooms::{for_each_room, supported};
use widelane_testkit::rsa::{TestKey, test_keys};

use crate::common::{OpenSsl, message_digest};

/// Some 160 for each size of key, scheme and digest function. They are the same in every run.
const MESSAGES: usize = 3_000;

/// A key as each of the three libraries wants it.
struct Key {
    size: KeySize,
    private: PrivateKey,
    openssl: PKey<Public>,
    aws_lc: RsaPublicKeyComponents<Vec<u8>>,
}

#[derive(Clone, Copy, Debug)]
enum Scheme {
    Pkcs1,
    Pss,
}

struct Message {
    key: usize,
    scheme: Scheme,
    algorithm: DigestAlgorithm,
    text: Vec<u8>,
    encoded: Vec<u8>,
}

#[test]
fn thousands_of_signatures_verify_elsewhere() {
    let keys: Vec<Key> = [2048, 3072, 4096].into_iter().flat_map(test_keys).map(prepare).collect();
    let mut random = Random::new(20261121);
    let messages: Vec<_> = (0..MESSAGES).map(|_| message(&keys, &mut random)).collect();

    // The same input in every room must give the same signatures, so verifying them once will do.
    // The portable room, ten times slower, signs a fifth of them, where another signs all.
    let mut signatures = Vec::new();
    for_each_room(|room, policy| {
        let rsa = Rsa::choose(policy);
        assert_eq!(rsa.room(), room);
        let alone = supported().len() == 1;
        let count = if room == Room::Portable && !alone { MESSAGES / 5 } else { MESSAGES };
        let signed = sign_by_threads(&rsa, &keys, &messages[..count], room as u64);
        assert!(zip(&signed, &signatures).all(|(one, other)| one == other), "{room:?} differs");
        if signed.len() > signatures.len() {
            signatures = signed;
        }
    });
    assert_eq!(signatures.len(), MESSAGES);

    for (index, (message, signature)) in zip(&messages, &signatures).enumerate() {
        let key = &keys[message.key];
        assert!(openssl_verifies(key, message, signature), "OpenSSL refuses {index}");
        assert!(aws_lc_verifies(key, message, signature), "AWS-LC refuses {index}");
    }
    // Neither library says yes to everything.
    let (message, signature) = (&messages[0], &signatures[1]);
    assert!(!openssl_verifies(&keys[message.key], message, signature));
    assert!(!aws_lc_verifies(&keys[message.key], message, signature));
}

#[test]
fn every_digest_algorithm_verifies_elsewhere() {
    let key = prepare(test_keys(2048).swap_remove(0));
    let text = b"widelane".to_vec();
    for scheme in [Scheme::Pkcs1, Scheme::Pss] {
        for algorithm in DigestAlgorithm::ALL {
            let mut message = Message {
                key: 0,
                scheme,
                algorithm,
                text: text.clone(),
                encoded: vec![0; key.size.bytes()],
            };
            if matches!((scheme, algorithm), (Scheme::Pss, DigestAlgorithm::Md5Sha1)) {
                continue; // not a scheme of any protocol
            }
            encode(&mut message, &mut Random::new(1));
            let mut signature = vec![0; key.size.bytes()];
            let rsa = Rsa::choose(&Policy::open());
            let mut job = PrivateJob::new(&key.private, &message.encoded, &mut signature);
            rsa.private_batch(std::slice::from_mut(&mut job));
            assert_eq!(job.outcome, Outcome::Done);
            assert!(openssl_verifies(&key, &message, &signature), "{scheme:?} {algorithm:?}");
        }
    }
}

fn prepare(key: TestKey) -> Key {
    let TestKey { n, e, p, q, dp, dq, qinv, .. } = &key;
    let private =
        PrivateKey::from_components(&Components { n, e, p, q, dp, dq, qinv }).expect("a good key");
    let number = |bytes: &[u8]| BigNum::from_slice(bytes).unwrap();
    let openssl = OpenSslRsa::from_public_components(number(n), number(e)).unwrap();
    Key {
        size: private.size(),
        private,
        openssl: PKey::from_rsa(openssl).unwrap(),
        aws_lc: RsaPublicKeyComponents { n: key.n, e: key.e },
    }
}

/// A random message, encoded for signing.
fn message(keys: &[Key], random: &mut Random) -> Message {
    let key = random.below(keys.len());
    let mut message = Message {
        key,
        scheme: [Scheme::Pkcs1, Scheme::Pss][random.below(2)],
        algorithm: [DigestAlgorithm::Sha256, DigestAlgorithm::Sha384, DigestAlgorithm::Sha512]
            [random.below(3)],
        text: vec![0; random.below(300)],
        encoded: vec![0; keys[key].size.bytes()],
    };
    random.fill(&mut message.text);
    encode(&mut message, random);
    message
}

fn encode(message: &mut Message, random: &mut Random) {
    let Message { scheme, algorithm, text, encoded, .. } = message;
    let digest = hash(message_digest(*algorithm), text).unwrap();
    match scheme {
        Scheme::Pkcs1 => pkcs1_sign_encode(Some(*algorithm), &digest, encoded).unwrap(),
        Scheme::Pss => {
            let mut hash = OpenSsl(message_digest(*algorithm));
            let mut mask_hash = OpenSsl(message_digest(*algorithm));
            let mut salt = vec![0; digest.len()];
            random.fill(&mut salt);
            let bits = 8 * encoded.len();
            pss_encode(&mut hash, &mut mask_hash, &digest, &salt, bits, encoded).unwrap();
        }
    }
}

/// Signs all messages, each CPU its part.
fn sign_by_threads(rsa: &Rsa, keys: &[Key], messages: &[Message], seed: u64) -> Vec<Vec<u8>> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let parts = zip(messages.chunks(messages.len().div_ceil(threads)), seed..);
    thread::scope(|scope| {
        let signers: Vec<_> = parts
            .map(|(part, seed)| scope.spawn(move || sign(rsa, keys, part, &mut Random::new(seed))))
            .collect();
        signers.into_iter().flat_map(|signer| signer.join().expect("it signs all")).collect()
    })
}

/// Signs all messages in batches of one to all lanes, each of one key size, the keys mixed.
fn sign(rsa: &Rsa, keys: &[Key], messages: &[Message], random: &mut Random) -> Vec<Vec<u8>> {
    let mut signatures: Vec<_> = messages.iter().map(|m| vec![0xaa; m.encoded.len()]).collect();
    let mut batch_counts = vec![0; rsa.lanes()];
    let kernels = rsa.kernels();
    for size in KeySize::ALL {
        let mut jobs: Vec<_> = zip(messages, &mut signatures)
            .filter(|(message, _)| keys[message.key].size == size)
            .map(|(message, signature)| {
                PrivateJob::new(&keys[message.key].private, &message.encoded, signature)
            })
            .collect();
        let mut rest = &mut jobs[..];
        while !rest.is_empty() {
            let count = (1 + random.below(rsa.lanes())).min(rest.len());
            let (batch, others) = rest.split_at_mut(count);
            // The whole choice, or any of its kernels.
            match kernels.get(random.below(kernels.len() + 1)) {
                Some(kernel) => kernel.private_batch(batch),
                None => rsa.private_batch(batch),
            }
            batch_counts[count - 1] += 1;
            rest = others;
        }
        assert!(jobs.iter().all(|job| job.outcome == Outcome::Done), "{size:?}");
    }
    assert!(batch_counts.iter().all(|count| *count > 0), "every batch size occurs");
    signatures
}

fn openssl_verifies(key: &Key, message: &Message, signature: &[u8]) -> bool {
    let digest = message_digest(message.algorithm);
    let mut verifier = Verifier::new(digest, &key.openssl).unwrap();
    if let Scheme::Pss = message.scheme {
        verifier.set_rsa_padding(Padding::PKCS1_PSS).unwrap();
        verifier.set_rsa_pss_saltlen(RsaPssSaltlen::DIGEST_LENGTH).unwrap();
        verifier.set_rsa_mgf1_md(digest).unwrap();
    }
    // A signature that does not fit the key is an error, another one that is wrong a plain no.
    verifier.verify_oneshot(signature, &message.text).unwrap_or(false)
}

fn aws_lc_verifies(key: &Key, message: &Message, signature: &[u8]) -> bool {
    use DigestAlgorithm::{Sha256, Sha384, Sha512};
    let parameters: &RsaParameters = match (message.scheme, message.algorithm) {
        (Scheme::Pkcs1, Sha256) => &signature::RSA_PKCS1_2048_8192_SHA256,
        (Scheme::Pkcs1, Sha384) => &signature::RSA_PKCS1_2048_8192_SHA384,
        (Scheme::Pkcs1, Sha512) => &signature::RSA_PKCS1_2048_8192_SHA512,
        (Scheme::Pss, Sha256) => &signature::RSA_PSS_2048_8192_SHA256,
        (Scheme::Pss, Sha384) => &signature::RSA_PSS_2048_8192_SHA384,
        (Scheme::Pss, Sha512) => &signature::RSA_PSS_2048_8192_SHA512,
        (_, algorithm) => panic!("no parameters for {algorithm:?}"),
    };
    key.aws_lc.verify(parameters, &message.text, signature).is_ok()
}
