//! Signing with Ed25519.

use std::fmt;
use std::slice;
use std::sync::Arc;

use rustls::pki_types::{SubjectPublicKeyInfoDer, alg_id};
use rustls::sign::{Signer, SigningKey, public_key_to_spki};
use rustls::{Error, SignatureAlgorithm, SignatureScheme};
use widelane_crypto::ed25519::{self, Ed25519, Outcome, SignJob};

use super::{belongs, faulty, malformed};
use crate::der::{Reader, tag};

/// A private key of Ed25519.
#[derive(Clone)]
pub(super) struct Ed25519Key {
    ed25519: Ed25519,
    key: Arc<ed25519::SigningKey>,
}

impl Ed25519Key {
    /// Takes over a seed as PKCS #8 has it (RFC 8410, 7), and the public key beside it, if there is
    /// one.
    pub(super) fn from_seed(
        ed25519: Ed25519,
        key: &[u8],
        claimed: Option<&[u8]>,
    ) -> Result<Self, Error> {
        let seed = Reader::whole(tag::OCTET_STRING, key).ok();
        let seed = seed.and_then(|seed| seed.try_into().ok());
        let seed = seed.ok_or_else(|| malformed("Ed25519"))?;
        let key = ed25519::SigningKey::from_seed(seed);
        belongs(claimed, |claimed| claimed == key.public())?;
        Ok(Ed25519Key { ed25519, key: Arc::new(key) })
    }
}

impl SigningKey for Ed25519Key {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let fits = offered.contains(&SignatureScheme::ED25519);
        fits.then(|| Box::new(self.clone()) as Box<dyn Signer>)
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        Some(public_key_to_spki(&alg_id::ED25519, self.key.public()))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ED25519
    }
}

impl Signer for Ed25519Key {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let mut signature = [0; 64];
        let mut job = SignJob::new(&self.key, message, &mut signature);
        self.ed25519.sign_batch(slice::from_mut(&mut job));
        if job.outcome == Outcome::Done { Ok(signature.to_vec()) } else { Err(faulty()) }
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ED25519
    }
}

impl fmt::Debug for Ed25519Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Ed25519Key").finish_non_exhaustive()
    }
}
