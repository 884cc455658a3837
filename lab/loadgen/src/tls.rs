//! What a client may offer: versions, key-exchange groups, ciphers.

use std::str::FromStr;

use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::cipher_suite as suites;
use rustls::{SupportedCipherSuite, SupportedProtocolVersion, version};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::key::KeyKind;
use crate::{client_cost, hybrid};

/// A name that is none of those known.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{name:?} is none of {}", known.join(", "))]
pub struct UnknownName {
    name: String,
    known: Vec<&'static str>,
}

/// Finds what is called `name`.
fn named<T: Copy, const N: usize>(
    all: [T; N],
    name_of: fn(T) -> &'static str,
    name: &str,
) -> Result<T, UnknownName> {
    let known = all.into_iter().find(|it| name_of(*it) == name);
    known.ok_or_else(|| UnknownName { name: name.to_owned(), known: all.map(name_of).into() })
}

/// A TLS protocol version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TlsVersion {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl TlsVersion {
    /// All of them.
    pub const ALL: [TlsVersion; 2] = [TlsVersion::Tls12, TlsVersion::Tls13];

    /// The version's name in scenarios and flags: `1.2` or `1.3`.
    pub const fn name(self) -> &'static str {
        match self {
            TlsVersion::Tls12 => "1.2",
            TlsVersion::Tls13 => "1.3",
        }
    }

    pub(crate) fn protocol(self) -> &'static SupportedProtocolVersion {
        match self {
            TlsVersion::Tls12 => &version::TLS12,
            TlsVersion::Tls13 => &version::TLS13,
        }
    }
}

impl FromStr for TlsVersion {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        named(TlsVersion::ALL, TlsVersion::name, name)
    }
}

/// A key-exchange group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Group {
    /// Curve25519.
    #[default]
    X25519,
    /// NIST P-256.
    Secp256r1,
    /// NIST P-384.
    Secp384r1,
    /// Curve25519 and ML-KEM-768, in TLS 1.3 only as the others with ML-KEM.
    X25519MlKem768,
    /// NIST P-256 and ML-KEM-768.
    Secp256r1MlKem768,
    /// NIST P-384 and ML-KEM-1024.
    Secp384r1MlKem1024,
}

impl Group {
    /// All of them.
    pub const ALL: [Group; 6] = [
        Group::X25519,
        Group::Secp256r1,
        Group::Secp384r1,
        Group::X25519MlKem768,
        Group::Secp256r1MlKem768,
        Group::Secp384r1MlKem1024,
    ];

    /// The group's name in scenarios and flags: `x25519`, `p256`, `p384`, `x25519mlkem768`,
    /// `secp256r1mlkem768`, `secp384r1mlkem1024`.
    pub const fn name(self) -> &'static str {
        match self {
            Group::X25519 => "x25519",
            Group::Secp256r1 => "p256",
            Group::Secp384r1 => "p384",
            Group::X25519MlKem768 => "x25519mlkem768",
            Group::Secp256r1MlKem768 => "secp256r1mlkem768",
            Group::Secp384r1MlKem1024 => "secp384r1mlkem1024",
        }
    }

    /// The group's name in configurations of servers, as OpenSSL knows it.
    pub const fn openssl_name(self) -> &'static str {
        match self {
            Group::X25519 => "X25519",
            Group::Secp256r1 => "P-256",
            Group::Secp384r1 => "P-384",
            Group::X25519MlKem768 => "X25519MLKEM768",
            Group::Secp256r1MlKem768 => "SecP256r1MLKEM768",
            Group::Secp384r1MlKem1024 => "SecP384r1MLKEM1024",
        }
    }

    /// The curve alone, of a group with ML-KEM.
    pub const fn without_ml_kem(self) -> Option<Group> {
        match self {
            Group::X25519 | Group::Secp256r1 | Group::Secp384r1 => None,
            Group::X25519MlKem768 => Some(Group::X25519),
            Group::Secp256r1MlKem768 => Some(Group::Secp256r1),
            Group::Secp384r1MlKem1024 => Some(Group::Secp384r1),
        }
    }

    pub(crate) fn group(self) -> &'static dyn SupportedKxGroup {
        match self {
            Group::X25519 => &client_cost::X25519_REUSED,
            Group::Secp256r1 => &client_cost::SECP256R1_REUSED,
            Group::Secp384r1 => &client_cost::SECP384R1_REUSED,
            Group::X25519MlKem768 => &hybrid::X25519_MLKEM768,
            Group::Secp256r1MlKem768 => &hybrid::SECP256R1_MLKEM768,
            Group::Secp384r1MlKem1024 => &hybrid::SECP384R1_MLKEM1024,
        }
    }
}

impl FromStr for Group {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        named(Group::ALL, Group::name, name)
    }
}

/// A cipher: its `TLS_ECDHE_RSA_…` or `TLS_ECDHE_ECDSA_…` suite in TLS 1.2, its own suite in
/// TLS 1.3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cipher {
    /// AES-256-GCM with SHA-384.
    #[default]
    Aes256Gcm,
    /// AES-128-GCM with SHA-256.
    Aes128Gcm,
    /// ChaCha20-Poly1305 with SHA-256.
    Chacha20Poly1305,
    /// AES-128-CBC with HMAC-SHA1 and RSA key transport: `TLS_RSA_WITH_AES_128_CBC_SHA`, in TLS 1.2
    /// only, and by OpenSSL, which offers encrypt-then-MAC (RFC 7366).
    Aes128Sha,
    /// The suite of [`Cipher::Aes128Sha`] without the offer of encrypt-then-MAC.
    Aes128ShaMacFirst,
}

/// OpenSSL's name for the suite of [`Cipher::Aes128Sha`] and [`Cipher::Aes128ShaMacFirst`].
pub(crate) const AES128_SHA: &str = "AES128-SHA";

impl Cipher {
    /// All of them, the oldest first.
    pub const ALL: [Cipher; 5] = [
        Cipher::Aes128Sha,
        Cipher::Aes128ShaMacFirst,
        Cipher::Aes128Gcm,
        Cipher::Aes256Gcm,
        Cipher::Chacha20Poly1305,
    ];

    /// The cipher's name in scenarios and flags.
    pub const fn name(self) -> &'static str {
        match self {
            Cipher::Aes128Sha => "aes128-sha",
            Cipher::Aes128ShaMacFirst => "aes128-sha-mac-first",
            Cipher::Aes128Gcm => "aes128-gcm",
            Cipher::Aes256Gcm => "aes256-gcm",
            Cipher::Chacha20Poly1305 => "chacha20-poly1305",
        }
    }

    /// Whether it has a MAC of its own: it is then one of TLS 1.2 only, with RSA key transport.
    pub const fn has_mac(self) -> bool {
        matches!(self, Cipher::Aes128Sha | Cipher::Aes128ShaMacFirst)
    }

    /// The suites of this cipher that a server with a key of `kind`, or of any, may choose; none if
    /// rustls has none.
    pub(crate) fn suites(
        self,
        version: TlsVersion,
        kind: Option<KeyKind>,
    ) -> Vec<SupportedCipherSuite> {
        if version == TlsVersion::Tls13 {
            return match self {
                Cipher::Aes256Gcm => vec![*client_cost::TLS13_AES_256_GCM_SHA384],
                Cipher::Aes128Gcm => vec![*client_cost::TLS13_AES_128_GCM_SHA256],
                Cipher::Chacha20Poly1305 => vec![*client_cost::TLS13_CHACHA20_POLY1305_SHA256],
                Cipher::Aes128Sha | Cipher::Aes128ShaMacFirst => vec![],
            };
        }
        let (rsa, ecdsa) = match self {
            Cipher::Aes256Gcm => (
                suites::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
                suites::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
            ),
            Cipher::Aes128Gcm => (
                suites::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
                suites::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
            ),
            Cipher::Chacha20Poly1305 => (
                suites::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
                suites::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
            ),
            Cipher::Aes128Sha | Cipher::Aes128ShaMacFirst => return vec![],
        };
        match kind {
            None => vec![ecdsa, rsa],
            Some(KeyKind::Rsa) => vec![rsa],
            // Ed25519 has no suites of its own (RFC 8422).
            Some(_) => vec![ecdsa],
        }
    }
}

impl FromStr for Cipher {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        named(Cipher::ALL, Cipher::name, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_what_they_name() {
        for cipher in Cipher::ALL {
            assert_eq!(cipher.name().parse(), Ok(cipher));
        }
        for group in Group::ALL {
            assert_eq!(group.name().parse(), Ok(group));
        }
        for version in TlsVersion::ALL {
            assert_eq!(version.name().parse(), Ok(version));
        }
        let error = "1.1".parse::<TlsVersion>().unwrap_err();
        assert_eq!(error.to_string(), "\"1.1\" is none of 1.2, 1.3");
    }
}
