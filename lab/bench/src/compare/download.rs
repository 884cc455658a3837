//! What is downloaded: the length of the body, and what protects it.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use widelane_loadgen::{Cipher, TlsVersion};

/// A body of some length under some cipher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Download {
    /// The cipher.
    pub protection: Protection,
    /// Length of the body.
    pub bytes: u64,
}

/// A cipher for records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// AES-128-CBC with HMAC-SHA1, encrypt-then-MAC where the server agrees, as OpenSSL does.
    Aes128Sha,
    /// AES-128-CBC with HMAC-SHA1, without the offer of encrypt-then-MAC: OpenSSL's stitched code.
    Aes128ShaMacFirst,
    /// AES-128-GCM.
    Aes128Gcm,
    /// AES-256-GCM.
    Aes256Gcm,
    /// ChaCha20-Poly1305.
    Chacha20Poly1305,
}

/// A name that no cipher has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the ciphers are {}", Protection::ALL.map(Protection::name).join(", "))]
pub struct UnknownProtection;

impl Protection {
    /// Every cipher, the oldest first.
    pub const ALL: [Protection; 5] = [
        Protection::Aes128Sha,
        Protection::Aes128ShaMacFirst,
        Protection::Aes128Gcm,
        Protection::Aes256Gcm,
        Protection::Chacha20Poly1305,
    ];

    /// The cipher's name in scenarios and flags.
    pub const fn name(self) -> &'static str {
        match self {
            Protection::Aes128Sha => "aes128-sha",
            Protection::Aes128ShaMacFirst => "aes128-sha-mac-first",
            Protection::Aes128Gcm => "aes128-gcm",
            Protection::Aes256Gcm => "aes256-gcm",
            Protection::Chacha20Poly1305 => "chacha20-poly1305",
        }
    }

    /// The versions that have it, of those `wanted`; the old ciphers have one only.
    pub fn versions(self, wanted: &[TlsVersion]) -> Vec<TlsVersion> {
        match self {
            Protection::Aes128Sha | Protection::Aes128ShaMacFirst => vec![TlsVersion::Tls12],
            Protection::Aes128Gcm | Protection::Aes256Gcm | Protection::Chacha20Poly1305 => {
                wanted.to_vec()
            }
        }
    }

    /// What the client offers.
    pub(super) fn cipher(self) -> Cipher {
        match self {
            Protection::Aes128Sha => Cipher::Aes128Sha,
            Protection::Aes128ShaMacFirst => Cipher::Aes128ShaMacFirst,
            Protection::Aes128Gcm => Cipher::Aes128Gcm,
            Protection::Aes256Gcm => Cipher::Aes256Gcm,
            Protection::Chacha20Poly1305 => Cipher::Chacha20Poly1305,
        }
    }

    /// Whether encrypt-then-MAC is a question.
    pub(super) fn has_mac(self) -> bool {
        matches!(self, Protection::Aes128Sha | Protection::Aes128ShaMacFirst)
    }
}

impl FromStr for Protection {
    type Err = UnknownProtection;

    fn from_str(name: &str) -> Result<Self, UnknownProtection> {
        let named = Protection::ALL.into_iter().find(|cipher| cipher.name() == name);
        named.ok_or(UnknownProtection)
    }
}

impl fmt::Display for Download {
    /// Cipher and length as scenarios have them: `aes128-gcm/16MiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MIB: u64 = 1 << 20;
        const GIB: u64 = 1 << 30;
        let (count, unit) = match self.bytes {
            bytes if bytes % GIB == 0 => (bytes / GIB, "GiB"),
            bytes if bytes % MIB == 0 => (bytes / MIB, "MiB"),
            bytes => (bytes, "B"),
        };
        write!(f, "{}/{count}{unit}", self.protection.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_ciphers() {
        for cipher in Protection::ALL {
            assert_eq!(cipher.name().parse(), Ok(cipher));
        }
        let error = "rc4".parse::<Protection>().unwrap_err();
        assert!(error.to_string().contains("aes128-sha, aes128-sha-mac-first"), "{error}");
    }

    #[test]
    fn lengths_are_told_in_the_unit_that_divides_them() {
        let path = |bytes| Download { protection: Protection::Aes128Gcm, bytes }.to_string();
        assert_eq!(path(16 << 20), "aes128-gcm/16MiB");
        assert_eq!(path(1 << 30), "aes128-gcm/1GiB");
        assert_eq!(path(1000), "aes128-gcm/1000B");
    }
}
