//! Records of TLS and packets of QUIC.

pub(crate) mod quic;
pub(crate) mod tls12;
pub(crate) mod tls13;

use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::{ConnectionTrafficSecrets, Error};
use widelane_crypto::aead::{Aead, Algorithm, Key, NONCE_BYTES, TAG_BYTES};

/// Bytes of the longest record's plaintext (RFC 8446, 5.1).
const FRAGMENT_BYTES_MAX: usize = 1 << 14;

/// The key in the form of its room.
fn expanded(aead: &Aead, key: &AeadKey) -> Key {
    aead.key(key.as_ref()).expect("rustls derives keys as long as the cipher says")
}

/// Keys for code that goes on without rustls, such as the kernel's TLS.
fn traffic_secrets(aead: &Aead, key: AeadKey, iv: Iv) -> ConnectionTrafficSecrets {
    match aead.algorithm() {
        Algorithm::Aes128Gcm => ConnectionTrafficSecrets::Aes128Gcm { key, iv },
        Algorithm::Aes256Gcm => ConnectionTrafficSecrets::Aes256Gcm { key, iv },
        Algorithm::ChaCha20Poly1305 => ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv },
        Algorithm::Aes192Gcm => unreachable!("no cipher suite has AES-192"),
    }
}

/// Opens a text that its tag follows; returns how long the text is.
fn open(
    key: &Key,
    nonce: &[u8; NONCE_BYTES],
    aad: &[u8],
    sealed: &mut [u8],
) -> Result<usize, Error> {
    let (text, tag) = sealed.split_last_chunk_mut::<TAG_BYTES>().ok_or(Error::DecryptError)?;
    key.open_in_place(nonce, aad, text, tag).map_err(|_| Error::DecryptError)?;
    Ok(text.len())
}
