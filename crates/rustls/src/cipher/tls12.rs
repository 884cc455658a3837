//! Records of TLS 1.2: AES-GCM (RFC 5288) and ChaCha20-Poly1305 (RFC 7905).

use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, InboundPlainMessage, Iv, KeyBlockShape, MessageDecrypter,
    MessageEncrypter, Nonce, OutboundOpaqueMessage, OutboundPlainMessage, PrefixedPayload,
    Tls12AeadAlgorithm, UnsupportedOperationError, make_tls12_aad,
};
use rustls::{ConnectionTrafficSecrets, Error};
use widelane_crypto::aead::{Aead, Algorithm, Key, NONCE_BYTES, TAG_BYTES};

use super::{FRAGMENT_BYTES_MAX, expanded, open, traffic_secrets};

/// Bytes of the part of the nonce that records of AES-GCM carry.
const EXPLICIT_BYTES: usize = 8;

/// Bytes of the part that both sides know.
const SALT_BYTES: usize = NONCE_BYTES - EXPLICIT_BYTES;

/// The cipher of a suite.
pub(crate) struct Cipher(pub(crate) Aead);

/// The key of one direction.
struct Records {
    key: Key,
    /// What the number of a record is added to; of AES-GCM only the salt counts in a decrypter.
    iv: Iv,
    /// Bytes of the nonce that each record carries in front of its ciphertext.
    explicit_bytes: usize,
}

impl Cipher {
    fn explicit_bytes(&self) -> usize {
        match self.0.algorithm() {
            Algorithm::ChaCha20Poly1305 => 0,
            Algorithm::Aes128Gcm | Algorithm::Aes192Gcm | Algorithm::Aes256Gcm => EXPLICIT_BYTES,
        }
    }

    fn records(&self, key: AeadKey, iv: Iv) -> Box<Records> {
        Box::new(Records {
            key: expanded(&self.0, &key),
            iv,
            explicit_bytes: self.explicit_bytes(),
        })
    }
}

impl Tls12AeadAlgorithm for Cipher {
    fn encrypter(&self, key: AeadKey, iv: &[u8], explicit: &[u8]) -> Box<dyn MessageEncrypter> {
        self.records(key, joined(iv, explicit))
    }

    fn decrypter(&self, key: AeadKey, iv: &[u8]) -> Box<dyn MessageDecrypter> {
        self.records(key, joined(iv, &[]))
    }

    fn key_block_shape(&self) -> KeyBlockShape {
        let explicit_nonce_len = self.explicit_bytes();
        KeyBlockShape {
            enc_key_len: self.0.algorithm().key_bytes(),
            fixed_iv_len: NONCE_BYTES - explicit_nonce_len,
            explicit_nonce_len,
        }
    }

    fn extract_keys(
        &self,
        key: AeadKey,
        iv: &[u8],
        explicit: &[u8],
    ) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        Ok(traffic_secrets(&self.0, key, joined(iv, explicit)))
    }
}

/// A whole nonce from its parts, zeros where there are none.
fn joined(fixed: &[u8], explicit: &[u8]) -> Iv {
    let mut nonce = [0; NONCE_BYTES];
    let bytes = fixed.iter().chain(explicit);
    nonce.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
    Iv::new(nonce)
}

impl MessageEncrypter for Records {
    fn encrypt(
        &mut self,
        message: OutboundPlainMessage<'_>,
        sequence: u64,
    ) -> Result<OutboundOpaqueMessage, Error> {
        let text_bytes = message.payload.len();
        let nonce = Nonce::new(&self.iv, sequence).0;
        let aad = make_tls12_aad(sequence, message.typ, message.version, text_bytes);
        let mut payload = PrefixedPayload::with_capacity(self.encrypted_payload_len(text_bytes));
        payload.extend_from_slice(&nonce[NONCE_BYTES - self.explicit_bytes..]);
        payload.extend_from_chunks(&message.payload);
        let mut tag = [0; TAG_BYTES];
        let text = &mut payload.as_mut()[self.explicit_bytes..];
        self.key.seal_in_place(&nonce, &aad, text, &mut tag).map_err(|_| Error::EncryptError)?;
        payload.extend_from_slice(&tag);
        Ok(OutboundOpaqueMessage::new(message.typ, message.version, payload))
    }

    fn encrypted_payload_len(&self, payload_len: usize) -> usize {
        self.explicit_bytes + payload_len + TAG_BYTES
    }
}

impl MessageDecrypter for Records {
    fn decrypt<'a>(
        &mut self,
        mut message: InboundOpaqueMessage<'a>,
        sequence: u64,
    ) -> Result<InboundPlainMessage<'a>, Error> {
        let payload = &mut *message.payload;
        let overhead = self.explicit_bytes + TAG_BYTES;
        let text_bytes = payload.len().checked_sub(overhead).ok_or(Error::DecryptError)?;
        if text_bytes > FRAGMENT_BYTES_MAX {
            return Err(Error::PeerSentOversizedRecord);
        }
        let (explicit, sealed) = payload.split_at_mut(self.explicit_bytes);
        let mut nonce = Nonce::new(&self.iv, sequence).0;
        if !explicit.is_empty() {
            nonce[SALT_BYTES..].copy_from_slice(explicit);
        }
        let aad = make_tls12_aad(sequence, message.typ, message.version, text_bytes);
        open(&self.key, &nonce, &aad, sealed)?;
        let range = self.explicit_bytes..self.explicit_bytes + text_bytes;
        Ok(message.into_plain_message_range(range))
    }
}
