//! Signing with ECDSA on NIST's curves.

use std::fmt;
use std::slice;
use std::sync::Arc;

use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::sign::{Signer, SigningKey, public_key_to_spki};
use rustls::{Error, SignatureAlgorithm, SignatureScheme};
use widelane_crypto::digest::Hash;
use widelane_crypto::ec::{Curve, Ec, GenerateJob, Outcome, PrivateKey, SignJob, encoding};

use super::{belongs, faulty, malformed, whole_bytes};
use crate::curve::words;
use crate::der::{Malformed, Reader, tag};
use crate::hash::SignatureHashes;
use crate::random::Random;

/// A private key of ECDSA.
#[derive(Clone)]
pub(super) struct EcKey {
    ec: Ec,
    hash: Hash,
    private: Arc<PrivateKey>,
    public: Arc<[u8]>,
}

impl EcKey {
    /// Takes over a key in the form of SEC 1 (RFC 5915), which names the curve unless the form
    /// around it does, and the public key beside it, if that form has one.
    pub(super) fn from_sec1(
        ec: Ec,
        hashes: SignatureHashes,
        sec1: &[u8],
        curve: Option<Curve>,
        claimed: Option<&[u8]>,
    ) -> Result<Self, Error> {
        let parts = parts(sec1).map_err(|_| malformed("SEC 1"))?;
        let curve = match (parts.parameters.map(named_curve).transpose()?, curve) {
            (Some(inner), Some(outer)) if inner != outer => return Err(malformed("PKCS #8")),
            (inner, outer) => inner.or(outer),
        };
        let curve = curve.ok_or_else(|| malformed("SEC 1, which names P-256 or P-384"))?;
        let private = PrivateKey::from_bytes(curve, parts.private)
            .map_err(|error| Error::General(format!("the private key of ECDSA: {error}")))?;
        let mut public = vec![0; curve.public_bytes()];
        let mut job = GenerateJob::new(&private, &mut public);
        ec.generate_batch(slice::from_mut(&mut job));
        if job.outcome != Outcome::Done {
            return Err(faulty());
        }
        for claimed in [parts.public, claimed] {
            belongs(claimed, |claimed| claimed == public)?;
        }
        let (private, public) = (Arc::new(private), Arc::from(public));
        Ok(EcKey { ec, hash: hashes.of(words(curve).digest), private, public })
    }

    fn own_scheme(&self) -> SignatureScheme {
        words(self.private.curve()).scheme
    }
}

/// What a key in the form of SEC 1 has.
struct Parts<'a> {
    private: &'a [u8],
    /// They name the curve.
    parameters: Option<&'a [u8]>,
    public: Option<&'a [u8]>,
}

fn parts(sec1: &[u8]) -> Result<Parts<'_>, Malformed> {
    let mut reader = Reader::whole_sequence(sec1)?;
    if reader.unsigned()? != [1] {
        return Err(Malformed);
    }
    let private = reader.element(tag::OCTET_STRING)?;
    let parameters = reader.optional(tag::context(0))?;
    let public = reader.optional(tag::context(1))?;
    reader.end()?;
    let bits = public.map(|field| Reader::whole(tag::BIT_STRING, field)).transpose()?;
    Ok(Parts { private, parameters, public: bits.map(whole_bytes).transpose()? })
}

/// The curve whose identifier is all that there is.
fn named_curve(parameters: &[u8]) -> Result<Curve, Error> {
    let named = Reader::whole(tag::OBJECT_IDENTIFIER, parameters);
    let named = named.map_err(|_| malformed("SEC 1 with a named curve"))?;
    Curve::ALL.into_iter().find(|curve| words(*curve).identifier == named).ok_or_else(|| {
        let what = "the private key is on another curve than P-256 and P-384";
        Error::General(what.into())
    })
}

impl SigningKey for EcKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        offered.contains(&self.own_scheme()).then(|| Box::new(self.clone()) as Box<dyn Signer>)
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        Some(public_key_to_spki(&words(self.private.curve()).algorithm, &*self.public))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ECDSA
    }
}

impl Signer for EcKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let digest = self.hash.digest(message);
        let entropy = Random::draw()?;
        let mut signature = vec![0; 2 * self.private.curve().bytes()];
        let mut job = SignJob::new(&self.private, digest.as_ref(), &entropy, &mut signature);
        self.ec.sign_batch(slice::from_mut(&mut job));
        if job.outcome == Outcome::Done {
            Ok(encoding::signature_to_der(&signature))
        } else {
            Err(faulty())
        }
    }

    fn scheme(&self) -> SignatureScheme {
        self.own_scheme()
    }
}

impl fmt::Debug for EcKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("EcKey")
            .field("curve", &self.private.curve())
            .finish_non_exhaustive()
    }
}
