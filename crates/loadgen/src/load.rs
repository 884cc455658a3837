//! What load to make, and why a load could not be made.

use std::net::SocketAddr;
use std::time::Duration;

use rustls::crypto::aws_lc_rs::{cipher_suite as suites, kx_group as groups};
use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion, version};
use thiserror::Error;

use crate::tally::ErrorKind;

/// A closed-loop load of full handshakes on one server.
#[derive(Clone, Debug)]
pub struct Load {
    /// Where the server listens.
    pub target: SocketAddr,
    /// Name sent as SNI.
    pub server_name: String,
    /// The server's certificate, DER; any other is refused.
    pub certificate: Vec<u8>,
    /// Protocol version; no other is offered.
    pub version: TlsVersion,
    /// Key-exchange group; no other is offered.
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
    pub(crate) fn provider(&self) -> CryptoProvider {
        CryptoProvider {
            cipher_suites: vec![self.cipher.suite(self.version)],
            kx_groups: vec![self.group.group()],
            ..aws_lc_rs::default_provider()
        }
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
    fn group(self) -> &'static dyn SupportedKxGroup {
        match self {
            Group::X25519 => groups::X25519,
            Group::Secp256r1 => groups::SECP256R1,
            Group::Secp384r1 => groups::SECP384R1,
        }
    }
}

/// A cipher: its `TLS_ECDHE_RSA_…` suite in TLS 1.2, its own suite in TLS 1.3.
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
    fn suite(self, version: TlsVersion) -> SupportedCipherSuite {
        match (self, version) {
            (Cipher::Aes256Gcm, TlsVersion::Tls12) => suites::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
            (Cipher::Aes256Gcm, TlsVersion::Tls13) => suites::TLS13_AES_256_GCM_SHA384,
            (Cipher::Aes128Gcm, TlsVersion::Tls12) => suites::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
            (Cipher::Aes128Gcm, TlsVersion::Tls13) => suites::TLS13_AES_128_GCM_SHA256,
            (Cipher::Chacha20Poly1305, TlsVersion::Tls12) => {
                suites::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
            }
            (Cipher::Chacha20Poly1305, TlsVersion::Tls13) => suites::TLS13_CHACHA20_POLY1305_SHA256,
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
    /// rustls does not accept the combination of version, suite and group.
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
