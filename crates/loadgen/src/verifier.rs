//! Server verification: a certificate is judged once, the signature of every handshake is checked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::signature::{self as algorithms, ParsedPublicKey, VerificationAlgorithm};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, DigitallySignedStruct, Error, PeerMisbehaved, RootCertStore, SignatureScheme,
};

use crate::key::KeyKind;

/// Accepts one certificate and every correct signature made with its key.
///
/// It offers the signature schemes of that key's kind and no others, so that a server with several
/// certificates shows this one.
#[derive(Debug)]
pub struct Pinned {
    certificate: CertificateDer<'static>,
    kind: KeyKind,
    key: PublicKey,
}

impl Pinned {
    /// Pins `certificate`.
    ///
    /// # Errors
    ///
    /// If the certificate cannot be read or holds a key of a kind that is not in [`KeyKind`].
    pub fn new(certificate: CertificateDer<'static>) -> Result<Self, Error> {
        let (kind, key) = PublicKey::of(&certificate)?;
        Ok(Pinned { certificate, kind, key })
    }

    /// The kind of the certificate's key.
    pub fn kind(&self) -> KeyKind {
        self.kind
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if *end_entity == self.certificate {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        _certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.key.verify(message, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        _certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.key.verify_tls13(message, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.kind.schemes().to_vec()
    }
}

/// Judges every certificate once for each name, and remembers those that passed.
#[derive(Debug)]
pub struct Judge {
    /// None: any certificate will do.
    authorities: Option<Arc<WebPkiServerVerifier>>,
    passed: Mutex<HashMap<Vec<u8>, Arc<Passed>>>,
}

/// A certificate that passed.
#[derive(Debug)]
struct Passed {
    names: Mutex<Vec<ServerName<'static>>>,
    key: PublicKey,
}

/// Certificates remembered; beyond, each is judged anew.
const REMEMBERED: usize = 100_000;

impl Judge {
    /// Accepts what these authorities vouch for.
    ///
    /// # Errors
    ///
    /// If there is no authority.
    pub fn of(
        authorities: Arc<RootCertStore>,
    ) -> Result<Self, rustls::client::VerifierBuilderError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let judge = WebPkiServerVerifier::builder_with_provider(authorities, provider).build()?;
        Ok(Judge { authorities: Some(judge), passed: Mutex::default() })
    }

    /// Accepts any certificate. Signatures must still be correct.
    pub fn of_nothing() -> Self {
        Judge { authorities: None, passed: Mutex::default() }
    }

    fn passed(&self, certificate: &CertificateDer<'_>) -> Result<Arc<Passed>, Error> {
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = passed.get(certificate.as_ref()) {
            return Ok(Arc::clone(known));
        }
        let (_, key) = PublicKey::of(certificate)?;
        let new = Arc::new(Passed { names: Mutex::default(), key });
        if passed.len() < REMEMBERED {
            passed.insert(certificate.to_vec(), Arc::clone(&new));
        }
        Ok(new)
    }
}

impl ServerCertVerifier for Judge {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(judge) = &self.authorities else {
            return Ok(ServerCertVerified::assertion());
        };
        let passed = self.passed(end_entity)?;
        let mut names = passed.names.lock().unwrap_or_else(PoisonError::into_inner);
        if !names.contains(server_name) {
            judge
                .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
                .map_err(not_of_the_handshake)?;
            names.push(server_name.to_owned());
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.passed(certificate)?.key.verify(message, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.passed(certificate)?.key.verify_tls13(message, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        KeyKind::ALL.iter().flat_map(|kind| kind.schemes()).copied().collect()
    }
}

/// A bad signature on a certificate must not be taken for one of the handshake.
fn not_of_the_handshake(error: Error) -> Error {
    match error {
        Error::InvalidCertificate(CertificateError::BadSignature) => {
            Error::InvalidCertificate(CertificateError::UnknownIssuer)
        }
        error => error,
    }
}

/// A public key, parsed once for every scheme it can be used with.
#[derive(Debug)]
struct PublicKey(Vec<(SignatureScheme, ParsedPublicKey)>);

impl PublicKey {
    fn of(certificate: &CertificateDer<'_>) -> Result<(KeyKind, Self), Error> {
        let unreadable = || Error::InvalidCertificate(CertificateError::BadEncoding);
        let kind = KeyKind::of(certificate).ok_or_else(unreadable)?;
        let info = ParsedCertificate::try_from(certificate)?.subject_public_key_info();
        let parse = |scheme: &SignatureScheme| {
            let key = ParsedPublicKey::new(algorithm(*scheme)?, info.as_ref()).ok()?;
            Some((*scheme, key))
        };
        let keys: Option<Vec<_>> = kind.schemes().iter().map(parse).collect();
        Ok((kind, PublicKey(keys.ok_or_else(unreadable)?)))
    }

    fn verify(
        &self,
        message: &[u8],
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let (_, key) = (self.0.iter())
            .find(|(scheme, _)| *scheme == signature.scheme)
            .ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
        key.verify_sig(message, signature.signature())
            .map(|()| HandshakeSignatureValid::assertion())
            .map_err(|_| Error::InvalidCertificate(CertificateError::BadSignature))
    }

    /// TLS 1.3 has no signatures by PKCS #1 v1.5 (RFC 8446, 4.2.3).
    fn verify_tls13(
        &self,
        message: &[u8],
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match signature.scheme {
            SignatureScheme::RSA_PKCS1_SHA256
            | SignatureScheme::RSA_PKCS1_SHA384
            | SignatureScheme::RSA_PKCS1_SHA512 => {
                Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into())
            }
            _ => self.verify(message, signature),
        }
    }
}

fn algorithm(scheme: SignatureScheme) -> Option<&'static dyn VerificationAlgorithm> {
    Some(match scheme {
        SignatureScheme::ECDSA_NISTP256_SHA256 => &algorithms::ECDSA_P256_SHA256_ASN1,
        SignatureScheme::ECDSA_NISTP384_SHA384 => &algorithms::ECDSA_P384_SHA384_ASN1,
        SignatureScheme::ED25519 => &algorithms::ED25519,
        SignatureScheme::RSA_PKCS1_SHA256 => &algorithms::RSA_PKCS1_2048_8192_SHA256,
        SignatureScheme::RSA_PKCS1_SHA384 => &algorithms::RSA_PKCS1_2048_8192_SHA384,
        SignatureScheme::RSA_PKCS1_SHA512 => &algorithms::RSA_PKCS1_2048_8192_SHA512,
        SignatureScheme::RSA_PSS_SHA256 => &algorithms::RSA_PSS_2048_8192_SHA256,
        SignatureScheme::RSA_PSS_SHA384 => &algorithms::RSA_PSS_2048_8192_SHA384,
        SignatureScheme::RSA_PSS_SHA512 => &algorithms::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}
