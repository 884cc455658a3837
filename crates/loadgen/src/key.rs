//! The kinds of key that a server's certificate may hold, and what a client offers to see them.

use rustls::SignatureScheme;
use rustls::pki_types::{AlgorithmIdentifier, CertificateDer, alg_id};
use rustls::server::ParsedCertificate;

/// A kind of key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// RSA of any size.
    Rsa,
    /// ECDSA on NIST P-256.
    EcdsaP256,
    /// ECDSA on NIST P-384.
    EcdsaP384,
    /// Ed25519.
    Ed25519,
}

impl KeyKind {
    pub(crate) const ALL: [KeyKind; 4] =
        [KeyKind::Rsa, KeyKind::EcdsaP256, KeyKind::EcdsaP384, KeyKind::Ed25519];

    /// The kind of the key in `certificate`, if it is one of ours.
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let info = ParsedCertificate::try_from(certificate).ok()?.subject_public_key_info();
        // The algorithm stands in front of the key; nothing else in there can look like it.
        let names = |identifier: AlgorithmIdentifier| {
            info.windows(identifier.len()).any(|part| part == identifier.as_ref())
        };
        KeyKind::ALL.into_iter().find(|kind| names(kind.identifier()))
    }

    fn identifier(self) -> AlgorithmIdentifier {
        match self {
            KeyKind::Rsa => alg_id::RSA_ENCRYPTION,
            KeyKind::EcdsaP256 => alg_id::ECDSA_P256,
            KeyKind::EcdsaP384 => alg_id::ECDSA_P384,
            KeyKind::Ed25519 => alg_id::ED25519,
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
            KeyKind::EcdsaP256 => &[SignatureScheme::ECDSA_NISTP256_SHA256],
            KeyKind::EcdsaP384 => &[SignatureScheme::ECDSA_NISTP384_SHA384],
            KeyKind::Ed25519 => &[SignatureScheme::ED25519],
        }
    }
}
