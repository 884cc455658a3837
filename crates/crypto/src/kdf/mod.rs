//! The key schedules of TLS: every secret of a connection from the one that was agreed on.

mod hmac;
pub mod tls12;
pub mod tls13;

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

/// A length that the derivation does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a label, a context or an output is longer than the key derivation allows")]
pub struct TooLong;
