//! What load to make, and why a load could not be made.

use std::net::SocketAddr;
use std::time::Duration;

use rustls::crypto::aws_lc_rs::{cipher_suite as suites, kx_group as groups};
use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion, version};
use thiserror::Error;

use crate::key::KeyKind;
use crate::tally::ErrorKind;

/// A closed-loop load of full handshakes on one server.
#[derive(Clone, Debug)]
pub struct Load {
    /// Where the server listens.
    pub target: SocketAddr,
    /// Name sent as SNI.
    pub server_name: String,
    /// The server's certificates, DER; connections ask for one or the other by its kind of key, in
    /// turn, and refuse any other.
    pub certificates: Vec<Vec<u8>>,
    /// Protocol version; no other is offered.
    pub version: TlsVersion,
    /// Key-exchange group; a handshake with any other is an error.
    pub group: Group,
    /// Cipher, which names one suite in each protocol version; no other is offered.
    pub cipher: Cipher,
    /// Connections outstanding at any time.
    pub connections: usize,
    /// CPU to which the client's thread is pinned.
    pub cpu: Option<usize>,
    /// Time under load before the measured window; more is taken until the connections have done
    /// one handshake each, on average.
    pub warm_up: Duration,
    /// Length of the measured window.
    pub window: Duration,
    /// Handshakes after which the load ends even if the window has not.
    pub handshakes_max: u64,
    /// Time after which one connection is given up and counted as an error.
    pub patience: Duration,
}

impl Load {
    /// What a client uses that wants to see a certificate with a key of `kind`.
    pub(crate) fn provider(&self, kind: KeyKind) -> CryptoProvider {
        CryptoProvider {
            cipher_suites: vec![self.cipher.suite(self.version, kind)],
            kx_groups: self.groups(kind).into_iter().map(Group::group).collect(),
            ..aws_lc_rs::default_provider()
        }
    }

    /// The groups to offer. In TLS 1.2 a server may show an ECDSA certificate only to a client that
    /// offers its curve (RFC 8422, 5.1.1); a server that heeds the client's order does not use it
    /// for the key exchange.
    fn groups(&self, kind: KeyKind) -> Vec<Group> {
        let curve = match (self.version, kind) {
            (TlsVersion::Tls12, KeyKind::EcdsaP256) => Some(Group::Secp256r1),
            (TlsVersion::Tls12, KeyKind::EcdsaP384) => Some(Group::Secp384r1),
            _ => None,
        };
        let curve = curve.filter(|curve| *curve != self.group);
        [self.group].into_iter().chain(curve).collect()
    }
}

/// A TLS protocol version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl TlsVersion {
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

/// A key-exchange group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Group {
    /// Curve25519.
    #[default]
    X25519,
    /// NIST P-256.
    Secp256r1,
    /// NIST P-384.
    Secp384r1,
}

impl Group {
    /// The group's name in scenarios and flags: `x25519`, `p256`, `p384`.
    pub const fn name(self) -> &'static str {
        match self {
            Group::X25519 => "x25519",
            Group::Secp256r1 => "p256",
            Group::Secp384r1 => "p384",
        }
    }

    pub(crate) fn group(self) -> &'static dyn SupportedKxGroup {
        match self {
            Group::X25519 => groups::X25519,
            Group::Secp256r1 => groups::SECP256R1,
            Group::Secp384r1 => groups::SECP384R1,
        }
    }
}

/// A cipher: its `TLS_ECDHE_RSA_…` or `TLS_ECDHE_ECDSA_…` suite in TLS 1.2, its own suite in
/// TLS 1.3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cipher {
    /// AES-256-GCM with SHA-384.
    #[default]
    Aes256Gcm,
    /// AES-128-GCM with SHA-256.
    Aes128Gcm,
    /// ChaCha20-Poly1305 with SHA-256.
    Chacha20Poly1305,
}

impl Cipher {
    fn suite(self, version: TlsVersion, kind: KeyKind) -> SupportedCipherSuite {
        match (version, kind, self) {
            (TlsVersion::Tls13, _, Cipher::Aes256Gcm) => suites::TLS13_AES_256_GCM_SHA384,
            (TlsVersion::Tls13, _, Cipher::Aes128Gcm) => suites::TLS13_AES_128_GCM_SHA256,
            (TlsVersion::Tls13, _, Cipher::Chacha20Poly1305) => {
                suites::TLS13_CHACHA20_POLY1305_SHA256
            }
            (TlsVersion::Tls12, KeyKind::Rsa, Cipher::Aes256Gcm) => {
                suites::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384
            }
            (TlsVersion::Tls12, KeyKind::Rsa, Cipher::Aes128Gcm) => {
                suites::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
            }
            (TlsVersion::Tls12, KeyKind::Rsa, Cipher::Chacha20Poly1305) => {
                suites::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
            }
            // Ed25519 has no suites of its own (RFC 8422).
            (TlsVersion::Tls12, _, Cipher::Aes256Gcm) => {
                suites::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
            }
            (TlsVersion::Tls12, _, Cipher::Aes128Gcm) => {
                suites::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
            }
            (TlsVersion::Tls12, _, Cipher::Chacha20Poly1305) => {
                suites::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
            }
        }
    }
}

/// Why a load could not be made or was given up.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The client's thread could not be set up.
    #[error("cannot set up the load generator")]
    SetUp(#[from] std::io::Error),
    /// The name is not one that can be sent as SNI.
    #[error("{0:?} is not a valid server name")]
    ServerName(String),
    /// There is no certificate to ask for.
    #[error("no certificate was given; give the ones that the server shows")]
    NoCertificate,
    /// rustls does not accept a certificate, or the combination of version, suite and group.
    #[error("the TLS client cannot be configured")]
    Tls(#[from] rustls::Error),
    /// Nothing succeeded any more.
    #[error(
        "{count} handshakes with {target} failed in a row, the last one with: {kind}: {message}; \
         check that the server is alive and offers the version, suite and group asked for"
    )]
    Failing {
        /// The server.
        target: SocketAddr,
        /// Failures in a row.
        count: u32,
        /// Kind of the last failure.
        kind: ErrorKind,
        /// The last failure.
        message: String,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}
