//! Private keys, and signing with them.

mod ec;
mod ed25519;
mod rsa;

use std::fmt;
use std::sync::Arc;

use rustls::Error;
use rustls::crypto::KeyProvider;
use rustls::pki_types::{AlgorithmIdentifier, PrivateKeyDer, alg_id};
use rustls::sign::SigningKey;
use widelane_cpu::Policy;
use widelane_crypto::ec::{Curve, Ec};
use widelane_crypto::ed25519::Ed25519;
use widelane_crypto::rsa::Rsa;
use zeroize::Zeroizing;

use self::ec::EcKey;
use self::ed25519::Ed25519Key;
use self::rsa::RsaKey;
use crate::curve::words;
use crate::der::{Malformed, Reader, tag};
use crate::hash::SignatureHashes;

/// Takes over private keys, and signs in the rooms that take least time for one signature.
pub(crate) struct Keys {
    rsa: Rsa,
    hashes: SignatureHashes,
    ec: Ec,
    ed25519: Ed25519,
}

impl Keys {
    pub(crate) fn choose(policy: &Policy) -> Self {
        Keys {
            rsa: Rsa::choose(policy),
            hashes: SignatureHashes::choose(policy),
            ec: Ec::sign_for_one(policy),
            ed25519: Ed25519::for_one(policy),
        }
    }

    fn rsa(&self, pkcs1: &[u8], claimed: Option<&[u8]>) -> Result<Arc<dyn SigningKey>, Error> {
        Ok(Arc::new(RsaKey::from_pkcs1(self.rsa, self.hashes, pkcs1, claimed)?))
    }

    fn ec(
        &self,
        sec1: &[u8],
        curve: Option<Curve>,
        claimed: Option<&[u8]>,
    ) -> Result<Arc<dyn SigningKey>, Error> {
        Ok(Arc::new(EcKey::from_sec1(self.ec, self.hashes, sec1, curve, claimed)?))
    }

    /// A key in PKCS #8 (RFC 5958), which contains its algorithm.
    fn any(&self, pkcs8: &[u8]) -> Result<Arc<dyn SigningKey>, Error> {
        let Unwrapped { algorithm, key, public } =
            unwrapped(pkcs8).map_err(|_| malformed("PKCS #8"))?;
        let is = |other: AlgorithmIdentifier| algorithm == other.as_ref();
        if is(alg_id::RSA_ENCRYPTION) {
            self.rsa(key, public)
        } else if let Some(curve) = Curve::ALL.into_iter().find(|it| is(words(*it).algorithm)) {
            self.ec(key, Some(curve), public)
        } else if is(alg_id::ED25519) {
            Ok(Arc::new(Ed25519Key::from_seed(self.ed25519, key, public)?))
        } else if algorithm.starts_with(RSASSA_PSS) {
            let what = "the private key is one of RSA for PSS only, which is not supported";
            Err(Error::General(what.into()))
        } else {
            let what = "the private key is of another kind than RSA, P-256, P-384 and Ed25519";
            Err(Error::General(what.into()))
        }
    }
}

impl KeyProvider for Keys {
    fn load_private_key(&self, key: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, Error> {
        let key = Zeroizing::new(key);
        match &*key {
            PrivateKeyDer::Pkcs1(key) => self.rsa(key.secret_pkcs1_der(), None),
            PrivateKeyDer::Sec1(key) => self.ec(key.secret_sec1_der(), None, None),
            PrivateKeyDer::Pkcs8(key) => self.any(key.secret_pkcs8_der()),
            _ => Err(Error::General("convert the private key to PKCS #8".into())),
        }
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Keys").finish_non_exhaustive()
    }
}

/// The identifier of RSA keys for PSS only (RFC 4055, 1.2): 1.2.840.113549.1.1.10.
const RSASSA_PSS: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0a";

/// What a key in PKCS #8 has.
struct Unwrapped<'a> {
    algorithm: &'a [u8],
    key: &'a [u8],
    public: Option<&'a [u8]>,
}

fn unwrapped(pkcs8: &[u8]) -> Result<Unwrapped<'_>, Malformed> {
    let mut reader = Reader::whole_sequence(pkcs8)?;
    let version = reader.unsigned()?;
    let (algorithm, key) = (reader.element(tag::SEQUENCE)?, reader.element(tag::OCTET_STRING)?);
    let _attributes = reader.optional(tag::context(0))?;
    let bits = match reader.optional(tag::implicit(1))? {
        Some(bits) => Some(bits),
        // As programs wrote it that took the tag for one around that of the bits.
        None => reader
            .optional(tag::context(1))?
            .map(|field| Reader::whole(tag::BIT_STRING, field))
            .transpose()?,
    };
    reader.end()?;
    // Version 1 may have the public key behind the private one.
    if !matches!((version, bits), ([0], None) | ([1], _)) {
        return Err(Malformed);
    }
    Ok(Unwrapped { algorithm, key, public: bits.map(whole_bytes).transpose()? })
}

/// The bytes of a string of bits, all of them whole.
fn whole_bytes(bits: &[u8]) -> Result<&[u8], Malformed> {
    match bits {
        [0, bytes @ ..] => Ok(bytes),
        _ => Err(Malformed),
    }
}

/// Agrees that the public key in a private key's file is its own, if there is one.
fn belongs(claimed: Option<&[u8]>, is_own: impl FnOnce(&[u8]) -> bool) -> Result<(), Error> {
    if claimed.is_none_or(is_own) {
        return Ok(());
    }
    let what = "the public key in the file of the private key does not belong to it";
    Err(Error::General(what.into()))
}

fn malformed(form: &str) -> Error {
    Error::General(format!("the private key is not well-formed {form}; export it again"))
}

/// A signature that failed its check never leaves.
fn faulty() -> Error {
    Error::General("a signature failed its check; look for a fault of this machine".into())
}
