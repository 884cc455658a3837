//! Certificates and keys from PEM files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use thiserror::Error;

use crate::plan::{Shown, Trust};

/// Where distributions keep the authorities that they trust.
const SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Why a file cannot be used.
#[derive(Debug, Error)]
pub enum PemError {
    /// It cannot be read, or is no PEM.
    #[error("cannot read {} as PEM", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: pem::Error,
    },
    /// The text of authorities is no PEM.
    #[error("the authorities that were sent are no PEM")]
    Text(#[source] pem::Error),
    /// It holds none of what it should hold.
    #[error("{} holds no certificate; give a file in PEM with BEGIN CERTIFICATE", .0.display())]
    NoCertificate(PathBuf),
    /// What was sent holds none.
    #[error("no usable certificate is among the authorities that were sent")]
    NoneSent,
    /// The key cannot be used with the certificate.
    #[error("the key in {} is not that of the certificate; give the right one", path.display())]
    Key {
        /// The file with the key.
        path: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// The key can be used with no certificate.
    #[error(
        "the key in {} cannot be used; give RSA of 2048 bits or more, ECDSA on P-256, P-384 or \
         P-521, or Ed25519",
        path.display()
    )]
    UnusableKey {
        /// The file with the key.
        path: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// It holds no private key, or one that a passphrase protects.
    #[error("{} holds no private key that is not encrypted; give one in PEM", .0.display())]
    NoKey(PathBuf),
    /// No file of authorities is where distributions keep it.
    #[error("this system has no file of certificate authorities ({}); name one", SYSTEM.join(", "))]
    NoSystem,
}

impl Trust {
    /// The authorities in the file at `path`, or those that the system trusts.
    ///
    /// # Errors
    ///
    /// If the file is missing or holds no usable certificate.
    pub fn authorities(path: Option<&Path>) -> Result<Self, PemError> {
        let system = || SYSTEM.iter().map(Path::new).find(|path| path.exists());
        let path = path.or_else(system).ok_or(PemError::NoSystem)?;
        let trust = Trust::of(certificates(path)?);
        trust.ok_or_else(|| PemError::NoCertificate(path.to_owned()))
    }

    /// The authorities in a text that came from elsewhere.
    ///
    /// # Errors
    ///
    /// If it holds no usable certificate.
    pub fn authorities_in(pem: &str) -> Result<Self, PemError> {
        let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
        Trust::of(all.map_err(PemError::Text)?).ok_or(PemError::NoneSent)
    }

    /// These authorities, if one of them is usable.
    fn of(certificates: Vec<CertificateDer<'static>>) -> Option<Self> {
        let mut roots = RootCertStore::empty();
        let (usable, _) = roots.add_parsable_certificates(certificates);
        (usable > 0).then(|| Trust::Authorities(Arc::new(roots)))
    }
}

impl Shown {
    /// A certificate chain and its private key.
    ///
    /// # Errors
    ///
    /// If a file is missing or the two do not belong together.
    pub fn read(chain: &Path, key: &Path) -> Result<Self, PemError> {
        let private = PrivateKeyDer::from_pem_file(key).map_err(|source| match source {
            pem::Error::NoItemsFound => PemError::NoKey(key.to_owned()),
            source => PemError::Read { path: key.to_owned(), source },
        })?;
        let provider = aws_lc_rs::default_provider();
        CertifiedKey::from_der(certificates(chain)?, private, &provider)
            .map(|certified| Shown(Arc::new(certified)))
            .map_err(|source| match source {
                rustls::Error::InconsistentKeys(_) => {
                    PemError::Key { path: key.to_owned(), source }
                }
                source => PemError::UnusableKey { path: key.to_owned(), source },
            })
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let read = |source| PemError::Read { path: path.to_owned(), source };
    let all: Vec<_> = CertificateDer::pem_file_iter(path)
        .map_err(read)?
        .collect::<Result<_, _>>()
        .map_err(read)?;
    if all.is_empty() { Err(PemError::NoCertificate(path.to_owned())) } else { Ok(all) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_encrypted_is_no_key() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let kind = "ENCRYPTED PRIVATE KEY";
        std::fs::write(&file, format!("-----BEGIN {kind}-----\nAAAA\n-----END {kind}-----\n"))
            .unwrap();
        let error = Shown::read(Path::new("/none"), file.path()).unwrap_err();
        assert!(matches!(&error, PemError::NoKey(path) if path == file.path()), "{error}");
    }
}
