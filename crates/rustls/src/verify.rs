//! Verification of signatures, in certificates and in handshakes.

use std::fmt;
use std::iter;
use std::slice;

use rustls::SignatureScheme;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{
    AlgorithmIdentifier, InvalidSignature, SignatureVerificationAlgorithm, alg_id,
};
use widelane_cpu::Policy;
use widelane_crypto::ec::{self, Curve, Ec, PublicKey};
use widelane_crypto::ed25519::{self, Ed25519};
use widelane_crypto::rsa;
use widelane_crypto::rsa::encoding::DigestAlgorithm;

use crate::curve::{Words, words};
use crate::der::{Malformed, Reader};
use crate::hash::{Masks, SignatureHashes};
use crate::leaked;

type Verifier = &'static dyn SignatureVerificationAlgorithm;

/// Every algorithm, and which of them a signature scheme of TLS stands for.
pub(crate) fn all(policy: &Policy) -> WebPkiSupportedAlgorithms {
    let make = Verifiers::choose(policy);
    // In certificates also with SHA-512: the scheme of TLS that has it stands for P-521 only.
    let ecdsa = Curve::ALL.map(|curve| DIGESTS.map(|digest| make.ecdsa(curve, digest)));
    let ed25519: Verifier = leaked(Ed25519Verifier(Ed25519::for_one(policy)));
    let rsa = |encoding| DIGESTS.map(|digest| make.rsa(digest, encoding));
    let [pss_sha256, pss_sha384, pss_sha512] = rsa(Encoding::Pss);
    let [pkcs1_sha256, pkcs1_sha384, pkcs1_sha512] = rsa(Encoding::Pkcs1);
    let all = [
        ecdsa.concat(),
        [ed25519, pss_sha256, pss_sha384, pss_sha512].to_vec(),
        [pkcs1_sha256, pkcs1_sha384, pkcs1_sha512].to_vec(),
        rsa(Encoding::Pkcs1WithoutParameters).to_vec(),
    ]
    .concat();
    // In TLS 1.2 a scheme does not say which curve the key is on.
    let of_curve = |curve: Curve| -> (SignatureScheme, &'static [Verifier]) {
        let Words { scheme, digest, .. } = words(curve);
        let others = Curve::ALL.into_iter().filter(|other| *other != curve);
        let place = DIGESTS.iter().position(|known| *known == digest);
        let place = place.expect("every curve's hash function is among them");
        let verifiers = iter::once(curve).chain(others).map(|curve| ecdsa[curve as usize][place]);
        (scheme, verifiers.collect::<Vec<_>>().leak())
    };
    let others: [(SignatureScheme, &'static [Verifier]); 7] = [
        (SignatureScheme::ED25519, leaked([ed25519])),
        (SignatureScheme::RSA_PSS_SHA512, leaked([pss_sha512])),
        (SignatureScheme::RSA_PSS_SHA384, leaked([pss_sha384])),
        (SignatureScheme::RSA_PSS_SHA256, leaked([pss_sha256])),
        (SignatureScheme::RSA_PKCS1_SHA512, leaked([pkcs1_sha512])),
        (SignatureScheme::RSA_PKCS1_SHA384, leaked([pkcs1_sha384])),
        (SignatureScheme::RSA_PKCS1_SHA256, leaked([pkcs1_sha256])),
    ];
    let mapping: Vec<_> = Curve::ALL.into_iter().rev().map(of_curve).chain(others).collect();
    WebPkiSupportedAlgorithms { all: all.leak(), mapping: mapping.leak() }
}

const DIGESTS: [DigestAlgorithm; 3] =
    [DigestAlgorithm::Sha256, DigestAlgorithm::Sha384, DigestAlgorithm::Sha512];

/// How the digest is padded before it is signed, and how a certificate names that.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Pss,
    Pkcs1,
    /// As `Pkcs1`, in certificates that leave out the parameters of its identifier, which are NULL:
    /// both have to be accepted (RFC 4055, section 5).
    Pkcs1WithoutParameters,
}

/// Makes verifiers in the rooms that take least time for one signature.
struct Verifiers {
    ec: Ec,
    hashes: SignatureHashes,
}

impl Verifiers {
    fn choose(policy: &Policy) -> Self {
        Verifiers { ec: Ec::for_one(policy), hashes: SignatureHashes::choose(policy) }
    }

    fn ecdsa(&self, curve: Curve, digest: DigestAlgorithm) -> Verifier {
        leaked(EcdsaVerifier { ec: self.ec, hashes: self.hashes, curve, digest })
    }

    fn rsa(&self, digest: DigestAlgorithm, encoding: Encoding) -> Verifier {
        leaked(RsaVerifier { hashes: self.hashes, digest, encoding })
    }
}

/// ECDSA on one curve with one hash function.
struct EcdsaVerifier {
    ec: Ec,
    hashes: SignatureHashes,
    curve: Curve,
    digest: DigestAlgorithm,
}

impl SignatureVerificationAlgorithm for EcdsaVerifier {
    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        let key = PublicKey::from_uncompressed(self.curve, public_key);
        let key = key.map_err(|_| InvalidSignature)?;
        let signature = ec::encoding::signature_from_der(self.curve, signature);
        let signature = signature.map_err(|_| InvalidSignature)?;
        let digest = self.hashes.of(self.digest).digest(message);
        let mut job = ec::VerifyJob::new(&key, digest.as_ref(), &signature);
        self.ec.verify_batch(slice::from_mut(&mut job));
        valid_if(job.outcome == ec::Outcome::Done)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        words(self.curve).algorithm
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        match self.digest {
            DigestAlgorithm::Sha256 => alg_id::ECDSA_SHA256,
            DigestAlgorithm::Sha384 => alg_id::ECDSA_SHA384,
            _ => alg_id::ECDSA_SHA512,
        }
    }
}

/// Ed25519.
struct Ed25519Verifier(Ed25519);

impl SignatureVerificationAlgorithm for Ed25519Verifier {
    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        let public_key = public_key.try_into().map_err(|_| InvalidSignature)?;
        let signature = signature.try_into().map_err(|_| InvalidSignature)?;
        let mut job = ed25519::VerifyJob::new(public_key, message, signature);
        self.0.verify_batch(slice::from_mut(&mut job));
        valid_if(job.outcome == ed25519::Outcome::Done)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::ED25519
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::ED25519
    }
}

/// RSA with one encoding and one hash function.
struct RsaVerifier {
    hashes: SignatureHashes,
    digest: DigestAlgorithm,
    encoding: Encoding,
}

impl SignatureVerificationAlgorithm for RsaVerifier {
    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        let (modulus, exponent) = numbers(public_key).map_err(|_| InvalidSignature)?;
        let key = rsa::PublicKey::from_components(modulus, exponent);
        let key = key.map_err(|_| InvalidSignature)?;
        let hash = self.hashes.of(self.digest);
        let digest = hash.digest(message);
        valid_if(if self.encoding == Encoding::Pss {
            key.verifies_pss(&mut Masks(hash), &mut Masks(hash), digest.as_ref(), signature)
        } else {
            key.verifies_pkcs1(self.digest, digest.as_ref(), signature)
        })
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::RSA_ENCRYPTION
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        use DigestAlgorithm::{Sha256, Sha384};
        match (self.encoding, self.digest) {
            (Encoding::Pss, Sha256) => alg_id::RSA_PSS_SHA256,
            (Encoding::Pss, Sha384) => alg_id::RSA_PSS_SHA384,
            (Encoding::Pss, _) => alg_id::RSA_PSS_SHA512,
            (Encoding::Pkcs1, Sha256) => alg_id::RSA_PKCS1_SHA256,
            (Encoding::Pkcs1, Sha384) => alg_id::RSA_PKCS1_SHA384,
            (Encoding::Pkcs1, _) => alg_id::RSA_PKCS1_SHA512,
            (Encoding::Pkcs1WithoutParameters, digest) => {
                AlgorithmIdentifier::from_slice(match digest {
                    Sha256 => b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b",
                    Sha384 => b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0c",
                    _ => b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0d",
                })
            }
        }
    }
}

/// Modulus and exponent of a public key (RFC 8017, A.1.1).
fn numbers(public_key: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let mut reader = Reader::whole_sequence(public_key)?;
    let numbers = (reader.unsigned()?, reader.unsigned()?);
    reader.end()?;
    Ok(numbers)
}

fn valid_if(is_valid: bool) -> Result<(), InvalidSignature> {
    if is_valid { Ok(()) } else { Err(InvalidSignature) }
}

macro_rules! debug_by_name {
    ($($verifier:ident),+) => {
        $(impl fmt::Debug for $verifier {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.debug_struct(stringify!($verifier)).finish_non_exhaustive()
            }
        })+
    };
}

debug_by_name!(EcdsaVerifier, Ed25519Verifier, RsaVerifier);
