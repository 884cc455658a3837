//! Server verification: exactly the pinned certificate, and a real check of the signature.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

use crate::key::KeyKind;

/// Accepts one certificate and every correct signature made with its key.
///
/// It offers the signature schemes of that key's kind and no others, so that a server with several
/// certificates shows this one.
#[derive(Debug)]
pub struct Pinned {
    certificate: CertificateDer<'static>,
    algorithms: WebPkiSupportedAlgorithms,
    kind: KeyKind,
}

impl Pinned {
    /// Pins `certificate`, whose signatures `algorithms` verify.
    ///
    /// # Errors
    ///
    /// If the certificate cannot be read or holds a key of a kind that is not in [`KeyKind`].
    pub fn new(
        certificate: CertificateDer<'static>,
        algorithms: WebPkiSupportedAlgorithms,
    ) -> Result<Self, Error> {
        let kind = KeyKind::of(&certificate)
            .ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))?;
        Ok(Pinned { certificate, algorithms, kind })
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
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.kind.schemes().to_vec()
    }
}
