//! Server verification: a certificate is judged once, the signature of every handshake is checked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::key::KeyKind;
use crate::public_key::PublicKey;
use crate::tls::TlsVersion;

/// Accepts one certificate and every correct signature made with its key.
///
/// It offers the signature schemes of that key's kind and no others, so that a server with several
/// certificates shows this one.
#[derive(Debug)]
pub struct Pinned {
    certificate: CertificateDer<'static>,
    key: PublicKey,
}

impl Pinned {
    /// Pins `certificate`.
    ///
    /// # Errors
    ///
    /// If the certificate cannot be read or holds a key of a kind that is not in [`KeyKind`].
    pub fn new(certificate: CertificateDer<'static>) -> Result<Self, Error> {
        let key = PublicKey::of(&certificate)?;
        Ok(Pinned { certificate, key })
    }

    /// The kind of the certificate's key.
    pub fn kind(&self) -> KeyKind {
        self.key.kind()
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
        self.key.verify(message, parts(signature), TlsVersion::Tls12)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        _certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.key.verify(message, parts(signature), TlsVersion::Tls13)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.kind().schemes().to_vec()
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
        let key = PublicKey::of(certificate)?;
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
            passed.key.check_strength()?;
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
        self.passed(certificate)?.key.verify(message, parts(signature), TlsVersion::Tls12)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.passed(certificate)?.key.verify(message, parts(signature), TlsVersion::Tls13)
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

fn parts(signature: &DigitallySignedStruct) -> (SignatureScheme, &[u8]) {
    (signature.scheme, signature.signature())
}

/// A verifier that offers only what the client can do in one version of TLS.
#[derive(Debug)]
pub struct InVersion {
    /// The verifier that decides.
    pub verifier: Arc<dyn ServerCertVerifier>,
    /// The version.
    pub version: TlsVersion,
    /// Called for each signature of TLS 1.3.
    pub note_signature: fn(),
}

impl ServerCertVerifier for InVersion {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let (verifier, name) = (&self.verifier, server_name);
        verifier.verify_server_cert(end_entity, intermediates, name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        (self.note_signature)();
        self.verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let kinds = KeyKind::ALL.iter().filter(|kind| kind.works_in(self.version));
        let mut schemes = self.verifier.supported_verify_schemes();
        schemes.retain(|scheme| kinds.clone().any(|kind| kind.schemes().contains(scheme)));
        schemes
    }
}
