//! The kinds of key that a server's certificate may hold, and what a client offers to see them.

use openssl::nid::Nid;
use openssl::pkey::{Id, PKey, Public};
use openssl::x509::X509;
use rustls::SignatureScheme;
use rustls::pki_types::CertificateDer;

use crate::tls::TlsVersion;

/// A kind of key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// RSA of any size.
    Rsa,
    /// RSA for RSASSA-PSS only (`id-RSASSA-PSS`), of any size.
    RsaPss,
    /// ECDSA on NIST P-256.
    EcdsaP256,
    /// ECDSA on NIST P-384.
    EcdsaP384,
    /// ECDSA on NIST P-521.
    EcdsaP521,
    /// Ed25519.
    Ed25519,
    /// Ed448.
    Ed448,
}

impl KeyKind {
    pub(crate) const ALL: [KeyKind; 7] = [
        KeyKind::Rsa,
        KeyKind::EcdsaP256,
        KeyKind::EcdsaP384,
        KeyKind::Ed25519,
        KeyKind::EcdsaP521,
        KeyKind::RsaPss,
        KeyKind::Ed448,
    ];

    /// The kind of the key in `certificate`, if it is one of ours.
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        KeyKind::of_key(&public_key(certificate)?)
    }

    /// The kind of a key, if it is one of ours.
    pub fn of_key(key: &PKey<Public>) -> Option<Self> {
        match key.id() {
            Id::RSA => Some(KeyKind::Rsa),
            Id::RSA_PSS => Some(KeyKind::RsaPss),
            Id::ED25519 => Some(KeyKind::Ed25519),
            Id::ED448 => Some(KeyKind::Ed448),
            Id::EC => match key.ec_key().ok()?.group().curve_name()? {
                Nid::X9_62_PRIME256V1 => Some(KeyKind::EcdsaP256),
                Nid::SECP384R1 => Some(KeyKind::EcdsaP384),
                Nid::SECP521R1 => Some(KeyKind::EcdsaP521),
                _ => None,
            },
            _ => None,
        }
    }

    /// The signature schemes that a key of this kind can answer with, and no other can.
    pub(crate) const fn schemes(self) -> &'static [SignatureScheme] {
        match self {
            KeyKind::Rsa => &[
                SignatureScheme::RSA_PSS_SHA512,
                SignatureScheme::RSA_PSS_SHA384,
                SignatureScheme::RSA_PSS_SHA256,
                SignatureScheme::RSA_PKCS1_SHA512,
                SignatureScheme::RSA_PKCS1_SHA384,
                SignatureScheme::RSA_PKCS1_SHA256,
            ],
            KeyKind::RsaPss => &[PSS_KEY_SHA512, PSS_KEY_SHA384, PSS_KEY_SHA256],
            KeyKind::EcdsaP256 => &[SignatureScheme::ECDSA_NISTP256_SHA256],
            KeyKind::EcdsaP384 => &[SignatureScheme::ECDSA_NISTP384_SHA384],
            KeyKind::EcdsaP521 => &[SignatureScheme::ECDSA_NISTP521_SHA512],
            KeyKind::Ed25519 => &[SignatureScheme::ED25519],
            KeyKind::Ed448 => &[SignatureScheme::ED448],
        }
    }

    /// Whether the client can do handshakes with such a key. rustls pairs neither Ed448 nor RSA-PSS
    /// keys with a suite of TLS 1.2.
    pub(crate) fn works_in(self, version: TlsVersion) -> bool {
        version == TlsVersion::Tls13 || !matches!(self, KeyKind::Ed448 | KeyKind::RsaPss)
    }

    /// Whether a key of this kind may sign a handshake in this way. TLS 1.2 names the hash and not
    /// the curve (RFC 8446, 4.2.3), and TLS 1.3 has no signatures by PKCS #1 v1.5.
    pub(crate) fn signs(self, scheme: SignatureScheme, version: TlsVersion) -> bool {
        match (self, version) {
            (KeyKind::EcdsaP256 | KeyKind::EcdsaP384 | KeyKind::EcdsaP521, TlsVersion::Tls12) => {
                ECDSA.contains(&scheme)
            }
            (KeyKind::Rsa, TlsVersion::Tls13) if PKCS1.contains(&scheme) => false,
            _ => self.schemes().contains(&scheme),
        }
    }
}

/// `rsa_pss_pss_sha256` and its siblings (RFC 8446, 4.2.3), which rustls does not name.
pub(crate) const PSS_KEY_SHA256: SignatureScheme = SignatureScheme::Unknown(0x0809);
pub(crate) const PSS_KEY_SHA384: SignatureScheme = SignatureScheme::Unknown(0x080a);
pub(crate) const PSS_KEY_SHA512: SignatureScheme = SignatureScheme::Unknown(0x080b);

const ECDSA: [SignatureScheme; 3] = [
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ECDSA_NISTP521_SHA512,
];

const PKCS1: [SignatureScheme; 3] = [
    SignatureScheme::RSA_PKCS1_SHA256,
    SignatureScheme::RSA_PKCS1_SHA384,
    SignatureScheme::RSA_PKCS1_SHA512,
];

/// The key in a certificate, of X.509 version 1 too, if OpenSSL knows its kind.
pub(crate) fn public_key(certificate: &CertificateDer<'_>) -> Option<PKey<Public>> {
    X509::from_der(certificate).ok()?.public_key().ok()
}
