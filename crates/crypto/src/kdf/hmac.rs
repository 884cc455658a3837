//! HMAC (RFC 2104) of a message in pieces, with the hash function that a cipher suite has.

use hmac::{Hmac, Mac};
use sha2::{Sha256, Sha384};
use widelane_secret::wipe;

use crate::kdf::Hash;

/// A key, ready for messages.
#[derive(Clone)]
pub(super) enum Keyed {
    Sha256(Hmac<Sha256>),
    Sha384(Hmac<Sha384>),
}

/// A tag, of which as many bytes count as the hash function has; wiped when it is dropped.
pub(super) struct Tag {
    bytes: [u8; Hash::BYTES_MAX],
    len: usize,
}

impl Keyed {
    /// Takes a key, of any length.
    pub(super) fn new(hash: Hash, key: &[u8]) -> Self {
        const ANY_LENGTH: &str = "a key of HMAC has any length";
        match hash {
            Hash::Sha256 => Keyed::Sha256(Hmac::new_from_slice(key).expect(ANY_LENGTH)),
            Hash::Sha384 => Keyed::Sha384(Hmac::new_from_slice(key).expect(ANY_LENGTH)),
        }
    }

    /// The tag of the pieces' concatenation.
    pub(super) fn tag(&self, pieces: &[&[u8]]) -> Tag {
        match self {
            Keyed::Sha256(keyed) => Tag::of(keyed.clone(), pieces),
            Keyed::Sha384(keyed) => Tag::of(keyed.clone(), pieces),
        }
    }
}

impl Tag {
    fn of(mut mac: impl Mac, pieces: &[&[u8]]) -> Self {
        pieces.iter().for_each(|piece| mac.update(piece));
        let made = mac.finalize().into_bytes();
        let mut bytes = [0; Hash::BYTES_MAX];
        bytes[..made.len()].copy_from_slice(&made);
        Tag { bytes, len: made.len() }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Drop for Tag {
    fn drop(&mut self) {
        wipe(&mut self.bytes);
    }
}
