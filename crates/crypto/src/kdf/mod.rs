//! The key schedules of TLS: every secret of a connection from the one that was agreed on.

pub mod tls12;
pub mod tls13;

use widelane_cpu::{Policy, Room};
use widelane_secret::stack::{kib, wiped};

use crate::digest::{Algorithm, Digest, State};
use crate::mac::{self, Hmac};

/// Stack of a derivation.
const STACK: usize = kib(4);

/// The hash function of a cipher suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
}

impl Hash {
    /// Both hash functions.
    pub const ALL: [Hash; 2] = [Hash::Sha256, Hash::Sha384];

    /// Bytes of the longest digest.
    pub const BYTES_MAX: usize = 48;

    /// Bytes of a digest.
    pub const fn bytes(self) -> usize {
        match self {
            Hash::Sha256 => 32,
            Hash::Sha384 => 48,
        }
    }
}

/// The key schedules with one hash function, in the room chosen for it.
#[derive(Clone, Copy, Debug)]
pub struct Kdf {
    hash: Hash,
    hmac: Hmac,
    /// The salt that handshakes without a pre-shared key begin with, made ready: nothing secret.
    early: [State; 2],
}

impl Kdf {
    /// Chooses the best room that the machine has and `policy` leaves open.
    #[must_use]
    pub fn choose(hash: Hash, policy: &Policy) -> Self {
        let algorithm = match hash {
            Hash::Sha256 => Algorithm::Sha256,
            Hash::Sha384 => Algorithm::Sha384,
        };
        let hmac = Hmac::choose(algorithm, policy);
        Kdf { hash, hmac, early: *hmac.key(tls13::early(hash).salt).states() }
    }

    /// The hash function.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// The room chosen.
    #[must_use]
    pub fn room(&self) -> Room {
        self.hmac.room()
    }

    /// Whether several values take less time when [`tls13::expand_labels`] derives them at once.
    #[must_use]
    pub fn gains_at_once(&self) -> bool {
        self.hmac.hash().gains_by_few()
    }

    /// Makes a secret ready for what is derived from it: half of the hashing where that is short.
    ///
    /// Secrets: `bytes`.
    #[must_use]
    pub fn secret(&self, bytes: &[u8]) -> Secret {
        wiped::<STACK, _>(|| Secret { hash: self.hash, key: self.hmac.key(bytes) })
    }
}

/// A secret that others are derived from, made ready for that; wiped when it is dropped.
pub struct Secret {
    hash: Hash,
    key: mac::Key,
}

/// A tag of HMAC, wiped when it is dropped.
struct Tag(Digest);

impl Tag {
    /// The tag of the pieces one behind the other.
    fn of(key: &mac::Key, pieces: &[&[u8]]) -> Self {
        let mut stream = key.begin();
        pieces.iter().for_each(|piece| stream.update(piece));
        Tag(stream.end())
    }

    fn as_bytes(&self) -> &[u8] {
        self.0.as_ref()
    }
}

impl Drop for Tag {
    fn drop(&mut self) {
        self.0.wipe();
    }
}

/// A length that the derivation does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a label, a context or an output is longer than the key derivation allows")]
pub struct TooLong;
