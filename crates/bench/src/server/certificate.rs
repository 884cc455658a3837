//! The key and certificate that a server shows: made for the run, or the user's own.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use openssl::asn1::Asn1Time;
use openssl::bn::{BigNum, MsbOption};
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::x509::extension::{BasicConstraints, SubjectAlternativeName};
use openssl::x509::{X509, X509NameBuilder};
use thiserror::Error;

/// Name in certificates made here, and the SNI sent to every server.
pub const SERVER_NAME: &str = "localhost";

/// A certificate with its key, on disk as servers want it and in DER as the client pins it.
#[derive(Clone, Debug)]
pub struct Identity {
    /// PEM file of the certificate chain.
    pub certificate: PathBuf,
    /// PEM file of the private key.
    pub private_key: PathBuf,
    /// PEM file of both, as HAProxy wants it.
    pub bundle: PathBuf,
    /// The leaf, DER.
    pub leaf: Vec<u8>,
    /// Kind and size of the key: `rsa2048`.
    pub key_name: String,
}

/// Why there is no identity.
#[derive(Debug, Error)]
pub enum IdentityError {
    /// OpenSSL could not make the key or the certificate.
    #[error("cannot make an RSA key of {bits} bits and its certificate")]
    Make {
        /// Size asked for.
        bits: u32,
        /// What OpenSSL said.
        source: ErrorStack,
    },
    /// A file cannot be read or written.
    #[error("cannot read or write {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not PEM of the expected kind.
    #[error("{path} holds no {expected} in PEM")]
    NotPem {
        /// The file.
        path: PathBuf,
        /// What was expected.
        expected: &'static str,
        /// What OpenSSL said.
        source: ErrorStack,
    },
    /// The key is of a kind that compare does not drive.
    #[error(
        "{path} holds no RSA certificate, and compare drives RSA only; give one with an RSA key"
    )]
    NotRsa {
        /// The certificate file.
        path: PathBuf,
    },
}

impl Identity {
    /// Makes a key of `bits` bits and a self-signed certificate in `directory`.
    ///
    /// # Errors
    ///
    /// See [`IdentityError`].
    pub fn make(bits: u32, directory: &Path) -> Result<Self, IdentityError> {
        let (key, certificate) =
            self_signed(bits).map_err(|source| IdentityError::Make { bits, source })?;
        let pem = |bytes: Result<Vec<u8>, ErrorStack>| {
            bytes.map_err(|source| IdentityError::Make { bits, source })
        };
        let certificate_pem = pem(certificate.to_pem())?;
        let key_pem = pem(key.private_key_to_pem_pkcs8())?;
        let name = format!("rsa{bits}");
        let path = |kind: &str| directory.join(format!("{name}-{kind}.pem"));
        let identity = Identity {
            certificate: path("certificate"),
            private_key: path("key"),
            bundle: path("bundle"),
            leaf: pem(certificate.to_der())?,
            key_name: name.clone(),
        };
        write_private(&identity.certificate, &certificate_pem)?;
        write_private(&identity.private_key, &key_pem)?;
        write_private(&identity.bundle, &[certificate_pem, key_pem].concat())?;
        Ok(identity)
    }

    /// Takes the user's own certificate and key; only a copy for HAProxy is written to `directory`.
    ///
    /// Whether they belong together is left to the servers, whose complaint is shown.
    ///
    /// # Errors
    ///
    /// See [`IdentityError`].
    pub fn load(
        certificate: &Path,
        private_key: &Path,
        directory: &Path,
    ) -> Result<Self, IdentityError> {
        let certificate_pem = read(certificate)?;
        let key_pem = read(private_key)?;
        let not_pem = |path: &Path, expected| {
            let path = path.to_owned();
            move |source| IdentityError::NotPem { path, expected, source }
        };
        let leaf = X509::from_pem(&certificate_pem).map_err(not_pem(certificate, "certificate"))?;
        PKey::private_key_from_pem(&key_pem).map_err(not_pem(private_key, "private key"))?;
        let not_rsa = || IdentityError::NotRsa { path: certificate.to_owned() };
        let public = leaf.public_key().map_err(not_pem(certificate, "public key"))?;
        let rsa = public.rsa().map_err(|_| not_rsa())?;
        let identity = Identity {
            certificate: certificate.to_owned(),
            private_key: private_key.to_owned(),
            bundle: directory.join("bundle.pem"),
            leaf: leaf.to_der().map_err(not_pem(certificate, "certificate"))?,
            key_name: format!("rsa{}", rsa.size() * 8),
        };
        write_private(&identity.bundle, &[certificate_pem, b"\n".to_vec(), key_pem].concat())?;
        Ok(identity)
    }
}

fn self_signed(bits: u32) -> Result<(PKey<Private>, X509), ErrorStack> {
    let key = PKey::from_rsa(Rsa::generate(bits)?)?;
    let mut name = X509NameBuilder::new()?;
    name.append_entry_by_nid(Nid::COMMONNAME, SERVER_NAME)?;
    let name = name.build();
    let mut serial = BigNum::new()?;
    serial.rand(127, MsbOption::MAYBE_ZERO, false)?;

    let mut builder = X509::builder()?;
    builder.set_version(2)?;
    let serial = serial.to_asn1_integer()?;
    builder.set_serial_number(&serial)?;
    builder.set_subject_name(&name)?;
    builder.set_issuer_name(&name)?;
    let (from, until) = (Asn1Time::days_from_now(0)?, Asn1Time::days_from_now(30)?);
    builder.set_not_before(&from)?;
    builder.set_not_after(&until)?;
    builder.set_pubkey(&key)?;
    builder.append_extension(BasicConstraints::new().critical().build()?)?;
    let names = SubjectAlternativeName::new()
        .dns(SERVER_NAME)
        .build(&builder.x509v3_context(None, None))?;
    builder.append_extension(names)?;
    builder.sign(&key, MessageDigest::sha256())?;
    Ok((key, builder.build()))
}

fn read(path: &Path) -> Result<Vec<u8>, IdentityError> {
    fs::read(path).map_err(|source| IdentityError::File { path: path.to_owned(), source })
}

/// Writes a file that only its owner can read.
fn write_private(path: &Path, bytes: &[u8]) -> Result<(), IdentityError> {
    let write = || {
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.write_all(bytes)
    };
    write().map_err(|source| IdentityError::File { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_and_loads_an_identity() {
        let directory = tempfile::tempdir().unwrap();
        let made = Identity::make(2048, directory.path()).unwrap();
        assert_eq!(made.key_name, "rsa2048");
        let loaded =
            Identity::load(&made.certificate, &made.private_key, directory.path()).unwrap();
        assert_eq!(loaded.leaf, made.leaf);
        assert_eq!(loaded.key_name, "rsa2048");
        let mode = fs::metadata(&made.private_key).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn names_the_file_that_is_missing_or_wrong() {
        let directory = tempfile::tempdir().unwrap();
        let made = Identity::make(2048, directory.path()).unwrap();
        let missing = directory.path().join("missing.pem");
        let error = Identity::load(&missing, &made.private_key, directory.path()).unwrap_err();
        assert!(error.to_string().contains("missing.pem"), "{error}");
        let error =
            Identity::load(&made.private_key, &made.private_key, directory.path()).unwrap_err();
        assert!(error.to_string().contains("holds no certificate in PEM"), "{error}");
    }
}
