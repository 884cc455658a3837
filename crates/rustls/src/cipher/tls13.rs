//! Records of TLS 1.3 (RFC 8446, 5.2).

use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, InboundPlainMessage, Iv, MessageDecrypter, MessageEncrypter,
    Nonce, OutboundOpaqueMessage, OutboundPlainMessage, PrefixedPayload, Tls13AeadAlgorithm,
    UnsupportedOperationError, make_tls13_aad,
};
use rustls::{ConnectionTrafficSecrets, ContentType, Error, ProtocolVersion};
use widelane_crypto::aead::{Aead, Key, TAG_BYTES};

use super::{expanded, open, traffic_secrets};

/// The cipher of a suite.
pub(crate) struct Cipher(pub(crate) Aead);

/// The key of one direction.
struct Records {
    key: Key,
    iv: Iv,
}

impl Cipher {
    fn records(&self, key: AeadKey, iv: Iv) -> Box<Records> {
        Box::new(Records { key: expanded(&self.0, &key), iv })
    }
}

impl Tls13AeadAlgorithm for Cipher {
    fn encrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageEncrypter> {
        self.records(key, iv)
    }

    fn decrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageDecrypter> {
        self.records(key, iv)
    }

    fn key_len(&self) -> usize {
        self.0.algorithm().key_bytes()
    }

    fn extract_keys(
        &self,
        key: AeadKey,
        iv: Iv,
    ) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        Ok(traffic_secrets(&self.0, key, iv))
    }
}

impl MessageEncrypter for Records {
    fn encrypt(
        &mut self,
        message: OutboundPlainMessage<'_>,
        sequence: u64,
    ) -> Result<OutboundOpaqueMessage, Error> {
        let sealed_bytes = self.encrypted_payload_len(message.payload.len());
        let mut payload = PrefixedPayload::with_capacity(sealed_bytes);
        payload.extend_from_chunks(&message.payload);
        payload.extend_from_slice(&[message.typ.into()]);
        let nonce = Nonce::new(&self.iv, sequence).0;
        let aad = make_tls13_aad(sealed_bytes);
        let mut tag = [0; TAG_BYTES];
        self.key
            .seal_in_place(&nonce, &aad, payload.as_mut(), &mut tag)
            .map_err(|_| Error::EncryptError)?;
        payload.extend_from_slice(&tag);
        // What TLS 1.3 calls the legacy record version.
        let version = ProtocolVersion::TLSv1_2;
        Ok(OutboundOpaqueMessage::new(ContentType::ApplicationData, version, payload))
    }

    fn encrypted_payload_len(&self, payload_len: usize) -> usize {
        // The type of the content stands behind it.
        payload_len + 1 + TAG_BYTES
    }
}

impl MessageDecrypter for Records {
    fn decrypt<'a>(
        &mut self,
        mut message: InboundOpaqueMessage<'a>,
        sequence: u64,
    ) -> Result<InboundPlainMessage<'a>, Error> {
        let payload = &mut message.payload;
        let nonce = Nonce::new(&self.iv, sequence).0;
        let aad = make_tls13_aad(payload.len());
        let text_bytes = open(&self.key, &nonce, &aad, payload)?;
        payload.truncate(text_bytes);
        message.into_tls13_unpadded_message()
    }
}
