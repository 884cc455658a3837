//! Signing with RSA: PSS, and PKCS #1 v1.5 for TLS 1.2.

use std::fmt;
use std::slice;
use std::sync::Arc;

use rustls::pki_types::{SubjectPublicKeyInfoDer, alg_id};
use rustls::sign::{Signer, SigningKey, public_key_to_spki};
use rustls::{Error, SignatureAlgorithm, SignatureScheme};
use widelane_crypto::digest::Hash;
use widelane_crypto::rsa::encoding::{DigestAlgorithm, pkcs1_sign_encode, pss_encode};
use widelane_crypto::rsa::{Components, Outcome, PrivateJob, PrivateKey, Rsa};

use super::{belongs, faulty, malformed};
use crate::der::{Malformed, Reader, tag};
use crate::hash::{Masks, SignatureHashes};
use crate::random::Random;

/// The schemes, those preferred first.
const SCHEMES: [(SignatureScheme, DigestAlgorithm, bool); 6] = [
    (SignatureScheme::RSA_PSS_SHA512, DigestAlgorithm::Sha512, true),
    (SignatureScheme::RSA_PSS_SHA384, DigestAlgorithm::Sha384, true),
    (SignatureScheme::RSA_PSS_SHA256, DigestAlgorithm::Sha256, true),
    (SignatureScheme::RSA_PKCS1_SHA512, DigestAlgorithm::Sha512, false),
    (SignatureScheme::RSA_PKCS1_SHA384, DigestAlgorithm::Sha384, false),
    (SignatureScheme::RSA_PKCS1_SHA256, DigestAlgorithm::Sha256, false),
];

/// A private key of RSA.
pub(super) struct RsaKey {
    rsa: Rsa,
    hashes: SignatureHashes,
    private: Arc<PrivateKey>,
    public: SubjectPublicKeyInfoDer<'static>,
}

impl RsaKey {
    /// Takes over a key in PKCS #1 (RFC 8017, A.1.2), and the public key beside it, if there is
    /// one.
    pub(super) fn from_pkcs1(
        rsa: Rsa,
        hashes: SignatureHashes,
        pkcs1: &[u8],
        claimed: Option<&[u8]>,
    ) -> Result<Self, Error> {
        let components = components(pkcs1).map_err(|_| malformed("PKCS #1"))?;
        let private = PrivateKey::from_components(&components)
            .map_err(|error| Error::General(format!("the private key of RSA: {error}")))?;
        let public = public_key(&components);
        belongs(claimed, |claimed| claimed == public)?;
        let public = public_key_to_spki(&alg_id::RSA_ENCRYPTION, public);
        Ok(RsaKey { rsa, hashes, private: Arc::new(private), public })
    }
}

fn components(pkcs1: &[u8]) -> Result<Components<'_>, Malformed> {
    let mut reader = Reader::whole_sequence(pkcs1)?;
    let version = reader.unsigned()?;
    let (n, e, _d) = (reader.unsigned()?, reader.unsigned()?, reader.unsigned()?);
    let (p, q) = (reader.unsigned()?, reader.unsigned()?);
    let (dp, dq, qinv) = (reader.unsigned()?, reader.unsigned()?, reader.unsigned()?);
    let more_primes = reader.optional(tag::SEQUENCE)?;
    reader.end()?;
    // Version 1 has more than two primes, which `PrivateKey` refuses with its reason.
    if !matches!((version, more_primes), ([0], None) | ([1], Some(_))) {
        return Err(Malformed);
    }
    Ok(Components { n, e, p, q, dp, dq, qinv })
}

/// The public key (RFC 8017, A.1.1).
fn public_key(components: &Components<'_>) -> Vec<u8> {
    let numbers: Vec<u8> = [components.n, components.e]
        .into_iter()
        .flat_map(|number| element(tag::INTEGER, number))
        .collect();
    element(tag::SEQUENCE, &numbers)
}

/// An element of DER that is shorter than 64 KiB.
fn element(tag: u8, contents: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(contents.len()).expect("no key is so long").to_be_bytes();
    let head: &[u8] = match (high, low) {
        (0, ..0x80) => &[tag, low],
        (0, 0x80..) => &[tag, 0x81, low],
        _ => &[tag, 0x82, high, low],
    };
    [head, contents].concat()
}

impl SigningKey for RsaKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let fits = |(scheme, ..): &&(SignatureScheme, _, _)| offered.contains(scheme);
        let (scheme, digest, is_pss) = *SCHEMES.iter().find(fits)?;
        let hash = self.hashes.of(digest);
        let (rsa, private) = (self.rsa, Arc::clone(&self.private));
        Some(Box::new(RsaSigner { rsa, private, scheme, digest, hash, is_pss }))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        Some(self.public.clone())
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::RSA
    }
}

impl fmt::Debug for RsaKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RsaKey").field("size", &self.private.size()).finish_non_exhaustive()
    }
}

/// A key with the scheme that was agreed on.
struct RsaSigner {
    rsa: Rsa,
    private: Arc<PrivateKey>,
    scheme: SignatureScheme,
    digest: DigestAlgorithm,
    hash: Hash,
    is_pss: bool,
}

impl RsaSigner {
    fn encode(&self, message: &[u8], encoded: &mut [u8]) -> Result<(), Error> {
        let digest = self.hash.digest(message);
        let digest = digest.as_ref();
        let encoding = if self.is_pss {
            // A salt as long as the digest (RFC 8446, 4.2.3).
            let salt = Random::<64>::draw()?;
            let salt = &salt[..digest.len()];
            let bits = self.private.size().bits();
            let [hash, masks] = &mut [Masks(self.hash), Masks(self.hash)];
            pss_encode(hash, masks, digest, salt, bits, encoded)
        } else {
            pkcs1_sign_encode(Some(self.digest), digest, encoded)
        };
        encoding.map_err(|error| Error::General(error.to_string()))
    }
}

impl Signer for RsaSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let mut encoded = vec![0; self.private.size().bytes()];
        self.encode(message, &mut encoded)?;
        let mut signature = vec![0; encoded.len()];
        let mut job = PrivateJob::new(&self.private, &encoded, &mut signature);
        self.rsa.private_batch(slice::from_mut(&mut job));
        if job.outcome == Outcome::Done { Ok(signature) } else { Err(faulty()) }
    }

    fn scheme(&self) -> SignatureScheme {
        self.scheme
    }
}

impl fmt::Debug for RsaSigner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RsaSigner").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}
