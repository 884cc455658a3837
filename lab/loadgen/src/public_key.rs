//! Public keys of servers, and how they verify handshakes.
//!
//! aws-lc-rs verifies what it can, because it is faster; OpenSSL verifies the rest, such as Ed448
//! and RSA of 1,024 bits.

use std::ops::RangeInclusive;
use std::sync::Arc;

use aws_lc_rs::signature::{self as algorithms, ParsedPublicKey, VerificationAlgorithm};
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Public};
use openssl::rsa::Padding;
use openssl::sign::{RsaPssSaltlen, Verifier};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::CertificateDer;
use rustls::{CertificateError, Error, OtherError, PeerMisbehaved, SignatureScheme};

use crate::key::{KeyKind, PSS_KEY_SHA256, PSS_KEY_SHA384, PSS_KEY_SHA512, public_key};
use crate::tls::TlsVersion;

/// A public key, parsed once for every scheme it can be used with.
#[derive(Debug)]
pub struct PublicKey {
    kind: KeyKind,
    /// For the schemes that aws-lc-rs verifies with this key.
    parsed: Vec<(SignatureScheme, ParsedPublicKey)>,
    /// For all others.
    key: PKey<Public>,
}

/// Why a key is not accepted.
#[derive(Debug, thiserror::Error)]
enum KeyError {
    #[error(
        "the key is none of RSA, RSA-PSS, ECDSA on P-256, P-384 or P-521, Ed25519 and Ed448, or \
         the certificate cannot be read"
    )]
    Unknown,
    #[error("an RSA key of {0} bits is accepted only if any certificate is")]
    Weak(u32),
}

/// RSA keys that are shorter are accepted only where any certificate is.
const RSA_BITS_MIN: u32 = 2048;

/// Sizes of RSA keys with which aws-lc-rs verifies.
const RSA_BITS_USUAL: RangeInclusive<u32> = 2048..=8192;

impl PublicKey {
    /// The key of a certificate.
    ///
    /// # Errors
    ///
    /// If the certificate cannot be read or holds a key of a kind that is not in [`KeyKind`].
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, Error> {
        let key = public_key(certificate).ok_or_else(|| refused(KeyError::Unknown))?;
        let kind = KeyKind::of_key(&key).ok_or_else(|| refused(KeyError::Unknown))?;
        let info = key.public_key_to_der().map_err(|_| refused(KeyError::Unknown))?;
        let parse = |scheme: &SignatureScheme| {
            let key = ParsedPublicKey::new(algorithm(kind, *scheme)?, &info).ok()?;
            Some((*scheme, key))
        };
        // aws-lc-rs parses keys of other sizes too, and then finds no signature right.
        let is_usual = kind != KeyKind::Rsa || RSA_BITS_USUAL.contains(&key.bits());
        let schemes = KeyKind::ALL.iter().flat_map(|kind| kind.schemes());
        let parsed = schemes.filter(|_| is_usual).filter_map(parse).collect();
        Ok(PublicKey { kind, parsed, key })
    }

    /// The kind of the key.
    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// Refuses RSA keys that authorities do not sign any more.
    ///
    /// # Errors
    ///
    /// If this is one of them.
    pub fn check_strength(&self) -> Result<(), Error> {
        let is_rsa = matches!(self.kind, KeyKind::Rsa | KeyKind::RsaPss);
        match self.key.bits() {
            bits if is_rsa && bits < RSA_BITS_MIN => Err(refused(KeyError::Weak(bits))),
            _ => Ok(()),
        }
    }

    /// Verifies the signature of a handshake.
    ///
    /// # Errors
    ///
    /// If the signature is wrong, or of a scheme that the key and the version do not have.
    pub fn verify(
        &self,
        message: &[u8],
        (scheme, signature): (SignatureScheme, &[u8]),
        version: TlsVersion,
    ) -> Result<HandshakeSignatureValid, Error> {
        if !self.kind.signs(scheme, version) {
            return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into());
        }
        let is_right = match self.parsed.iter().find(|(parsed, _)| *parsed == scheme) {
            Some((_, key)) => key.verify_sig(message, signature).is_ok(),
            None => self.verify_by_openssl(message, scheme, signature).unwrap_or(false),
        };
        match is_right {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => Err(Error::InvalidCertificate(CertificateError::BadSignature)),
        }
    }

    fn verify_by_openssl(
        &self,
        message: &[u8],
        scheme: SignatureScheme,
        signature: &[u8],
    ) -> Result<bool, ErrorStack> {
        let Some((digest, is_pss)) = digest(scheme) else {
            return Verifier::new_without_digest(&self.key)?.verify_oneshot(signature, message);
        };
        let mut verifier = Verifier::new(digest, &self.key)?;
        if is_pss {
            verifier.set_rsa_padding(Padding::PKCS1_PSS)?;
            verifier.set_rsa_pss_saltlen(RsaPssSaltlen::DIGEST_LENGTH)?;
        }
        verifier.verify_oneshot(signature, message)
    }
}

fn refused(error: KeyError) -> Error {
    Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(error))))
}

/// The hash of a scheme, unless it has none, and whether the padding is that of RSASSA-PSS.
fn digest(scheme: SignatureScheme) -> Option<(MessageDigest, bool)> {
    Some(match scheme {
        SignatureScheme::RSA_PSS_SHA256 | PSS_KEY_SHA256 => (MessageDigest::sha256(), true),
        SignatureScheme::RSA_PSS_SHA384 | PSS_KEY_SHA384 => (MessageDigest::sha384(), true),
        SignatureScheme::RSA_PSS_SHA512 | PSS_KEY_SHA512 => (MessageDigest::sha512(), true),
        SignatureScheme::RSA_PKCS1_SHA256 | SignatureScheme::ECDSA_NISTP256_SHA256 => {
            (MessageDigest::sha256(), false)
        }
        SignatureScheme::RSA_PKCS1_SHA384 | SignatureScheme::ECDSA_NISTP384_SHA384 => {
            (MessageDigest::sha384(), false)
        }
        SignatureScheme::RSA_PKCS1_SHA512 | SignatureScheme::ECDSA_NISTP521_SHA512 => {
            (MessageDigest::sha512(), false)
        }
        _ => return None,
    })
}

/// How aws-lc-rs verifies a scheme with a key of some kind, if it does.
fn algorithm(kind: KeyKind, scheme: SignatureScheme) -> Option<&'static dyn VerificationAlgorithm> {
    Some(match (kind, scheme) {
        (KeyKind::EcdsaP256, SignatureScheme::ECDSA_NISTP256_SHA256) => {
            &algorithms::ECDSA_P256_SHA256_ASN1
        }
        (KeyKind::EcdsaP256, SignatureScheme::ECDSA_NISTP384_SHA384) => {
            &algorithms::ECDSA_P256_SHA384_ASN1
        }
        (KeyKind::EcdsaP384, SignatureScheme::ECDSA_NISTP256_SHA256) => {
            &algorithms::ECDSA_P384_SHA256_ASN1
        }
        (KeyKind::EcdsaP384, SignatureScheme::ECDSA_NISTP384_SHA384) => {
            &algorithms::ECDSA_P384_SHA384_ASN1
        }
        (KeyKind::EcdsaP521, SignatureScheme::ECDSA_NISTP521_SHA512) => {
            &algorithms::ECDSA_P521_SHA512_ASN1
        }
        (KeyKind::Ed25519, SignatureScheme::ED25519) => &algorithms::ED25519,
        (KeyKind::Rsa, SignatureScheme::RSA_PKCS1_SHA256) => {
            &algorithms::RSA_PKCS1_2048_8192_SHA256
        }
        (KeyKind::Rsa, SignatureScheme::RSA_PKCS1_SHA384) => {
            &algorithms::RSA_PKCS1_2048_8192_SHA384
        }
        (KeyKind::Rsa, SignatureScheme::RSA_PKCS1_SHA512) => {
            &algorithms::RSA_PKCS1_2048_8192_SHA512
        }
        (KeyKind::Rsa, SignatureScheme::RSA_PSS_SHA256) => &algorithms::RSA_PSS_2048_8192_SHA256,
        (KeyKind::Rsa, SignatureScheme::RSA_PSS_SHA384) => &algorithms::RSA_PSS_2048_8192_SHA384,
        (KeyKind::Rsa, SignatureScheme::RSA_PSS_SHA512) => &algorithms::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use openssl::asn1::Asn1Time;
    use openssl::ec::{EcGroup, EcKey};
    use openssl::nid::Nid;
    use openssl::pkey::Private;
    use openssl::rsa::Rsa;
    use openssl::sign::Signer;
    use openssl::x509::X509;

    use super::*;

    /// A certificate of version 1 without names.
    fn certificate(key: &PKey<Private>) -> CertificateDer<'static> {
        let mut builder = X509::builder().unwrap();
        builder.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
        builder.set_not_after(&Asn1Time::days_from_now(1).unwrap()).unwrap();
        builder.set_pubkey(key).unwrap();
        let digest = match key.id() {
            openssl::pkey::Id::ED448 => MessageDigest::null(),
            _ => MessageDigest::sha256(),
        };
        builder.sign(key, digest).unwrap();
        CertificateDer::from(builder.build().to_der().unwrap())
    }

    fn elliptic(curve: Nid) -> PKey<Private> {
        let group = EcGroup::from_curve_name(curve).unwrap();
        PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap()
    }

    fn sign(key: &PKey<Private>, scheme: SignatureScheme, message: &[u8]) -> Vec<u8> {
        let Some((digest, is_pss)) = digest(scheme) else {
            return Signer::new_without_digest(key).unwrap().sign_oneshot_to_vec(message).unwrap();
        };
        let mut signer = Signer::new(digest, key).unwrap();
        if is_pss {
            signer.set_rsa_padding(Padding::PKCS1_PSS).unwrap();
            signer.set_rsa_pss_saltlen(RsaPssSaltlen::DIGEST_LENGTH).unwrap();
        }
        signer.sign_oneshot_to_vec(message).unwrap()
    }

    #[test]
    fn right_signatures_are_told_from_wrong_ones_whoever_verifies() {
        let weak = PKey::from_rsa(Rsa::generate(1024).unwrap()).unwrap();
        let ed448 = PKey::generate_ed448().unwrap();
        let (p384, p521) = (elliptic(Nid::SECP384R1), elliptic(Nid::SECP521R1));
        for (key, scheme, is_in_tls13) in [
            (&weak, SignatureScheme::RSA_PKCS1_SHA256, false),
            (&weak, SignatureScheme::RSA_PSS_SHA256, true),
            (&ed448, SignatureScheme::ED448, true),
            (&p384, SignatureScheme::ECDSA_NISTP256_SHA256, false),
            (&p384, SignatureScheme::ECDSA_NISTP384_SHA384, true),
            (&p384, SignatureScheme::ECDSA_NISTP521_SHA512, false),
            (&p521, SignatureScheme::ECDSA_NISTP256_SHA256, false),
            (&p521, SignatureScheme::ECDSA_NISTP521_SHA512, true),
        ] {
            let public = PublicKey::of(&certificate(key)).unwrap();
            let signature = sign(key, scheme, b"handshake");
            let verify = |message: &[u8], version| {
                public.verify(message, (scheme, &signature), version).map(drop)
            };
            verify(b"handshake", TlsVersion::Tls12).unwrap();
            let wrong = Err(Error::InvalidCertificate(CertificateError::BadSignature));
            assert_eq!(verify(b"another", TlsVersion::Tls12), wrong, "{scheme:?}");
            let is_accepted = verify(b"handshake", TlsVersion::Tls13).is_ok();
            assert_eq!(is_accepted, is_in_tls13, "{scheme:?} {:?}", public.kind());
        }
        assert!(PublicKey::of(&certificate(&weak)).unwrap().check_strength().is_err());
        let other = PublicKey::of(&certificate(&elliptic(Nid::SECP256K1))).unwrap_err();
        assert!(matches!(other, Error::InvalidCertificate(CertificateError::Other(_))), "{other}");
    }
}
