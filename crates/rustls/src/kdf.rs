//! The key schedules of TLS 1.2 and 1.3.

use rustls::Error;
use rustls::crypto::ActiveKeyExchange;
use rustls::crypto::hmac::Tag;
use rustls::crypto::tls12::Prf;
use rustls::crypto::tls13::{Hkdf, HkdfExpander, OkmBlock, OutputLengthError};
use rustls::version::TLS12;
use widelane_cpu::Policy;
use widelane_crypto::kdf::{Hash, Kdf, Secret, tls12, tls13};
use widelane_secret::wipe;

/// The key schedules with one hash function, in the room chosen for it.
pub(crate) struct KeySchedule(Kdf);

/// A salt or an input of nothing is as many zeros as a digest has bytes.
const ZEROS: [u8; Hash::BYTES_MAX] = [0; Hash::BYTES_MAX];

impl KeySchedule {
    pub(crate) fn choose(hash: Hash, policy: &Policy) -> Self {
        KeySchedule(Kdf::choose(hash, policy))
    }

    fn zeros(&self) -> &'static [u8] {
        &ZEROS[..self.0.hash().bytes()]
    }

    fn expander(&self, secret: Secret) -> Box<dyn HkdfExpander> {
        Box::new(Expander { secret, digest_bytes: self.0.hash().bytes() })
    }
}

impl Hkdf for KeySchedule {
    fn extract_from_zero_ikm(&self, salt: Option<&[u8]>) -> Box<dyn HkdfExpander> {
        self.extract_from_secret(salt, self.zeros())
    }

    fn extract_from_secret(&self, salt: Option<&[u8]>, secret: &[u8]) -> Box<dyn HkdfExpander> {
        let salt = salt.unwrap_or(self.zeros());
        self.expander(tls13::extract_secret(&self.0, salt, secret))
    }

    fn expander_for_okm(&self, okm: &OkmBlock) -> Box<dyn HkdfExpander> {
        self.expander(self.0.secret(okm.as_ref()))
    }

    fn hmac_sign(&self, key: &OkmBlock, message: &[u8]) -> Tag {
        let mut digest = self.0.secret(key.as_ref()).tag(message);
        let tag = Tag::new(digest.as_ref());
        digest.wipe();
        tag
    }
}

/// A secret that others are derived from.
struct Expander {
    secret: Secret,
    digest_bytes: usize,
}

impl HkdfExpander for Expander {
    fn expand_slice(&self, info: &[&[u8]], output: &mut [u8]) -> Result<(), OutputLengthError> {
        self.secret.expand(info, output).map_err(|_| OutputLengthError)
    }

    fn expand_block(&self, info: &[&[u8]]) -> OkmBlock {
        let mut buffer = [0; OkmBlock::MAX_LEN];
        let output = &mut buffer[..self.digest_bytes];
        self.secret.expand(info, output).expect("one digest is not too long");
        let block = OkmBlock::new(output);
        wipe(&mut buffer);
        block
    }

    fn hash_len(&self) -> usize {
        self.digest_bytes
    }
}

impl Prf for KeySchedule {
    fn for_key_exchange(
        &self,
        output: &mut [u8; 48],
        exchange: Box<dyn ActiveKeyExchange>,
        peer: &[u8],
        label: &[u8],
        seed: &[u8],
    ) -> Result<(), Error> {
        let shared = exchange.complete_for_tls_version(peer, &TLS12)?;
        self.for_secret(output, shared.secret_bytes(), label, seed);
        Ok(())
    }

    fn for_secret(&self, output: &mut [u8], secret: &[u8], label: &[u8], seed: &[u8]) {
        tls12::prf(&self.0, secret, &[label, seed].concat(), output);
    }
}
