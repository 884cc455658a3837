//! What TLS and certificates call the curves.

use rustls::pki_types::{AlgorithmIdentifier, alg_id};
use rustls::{NamedGroup, SignatureScheme};
use widelane_crypto::ec::Curve;
use widelane_crypto::rsa::encoding::DigestAlgorithm;

/// The names of a curve.
pub(crate) struct Words {
    pub(crate) group: NamedGroup,
    /// The signature scheme of TLS 1.3 by keys on it, and its hash function.
    pub(crate) scheme: SignatureScheme,
    pub(crate) digest: DigestAlgorithm,
    /// Of keys on it.
    pub(crate) algorithm: AlgorithmIdentifier,
    /// The object identifier, which is the parameter of the algorithm.
    pub(crate) identifier: &'static [u8],
}

pub(crate) fn words(curve: Curve) -> Words {
    match curve {
        Curve::P256 => Words {
            group: NamedGroup::secp256r1,
            scheme: SignatureScheme::ECDSA_NISTP256_SHA256,
            digest: DigestAlgorithm::Sha256,
            algorithm: alg_id::ECDSA_P256,
            // 1.2.840.10045.3.1.7
            identifier: &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07],
        },
        Curve::P384 => Words {
            group: NamedGroup::secp384r1,
            scheme: SignatureScheme::ECDSA_NISTP384_SHA384,
            digest: DigestAlgorithm::Sha384,
            algorithm: alg_id::ECDSA_P384,
            // 1.3.132.0.34
            identifier: &[0x2b, 0x81, 0x04, 0x00, 0x22],
        },
    }
}
