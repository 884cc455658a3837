//! The key and certificate that a server shows: made for the run, or the user's own.

use std::fmt;
use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use openssl::asn1::Asn1Time;
use openssl::bn::{BigNum, MsbOption};
use openssl::ec::{EcGroup, EcKey};
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, PKeyRef, Private, Public};
use openssl::rsa::Rsa;
use openssl::x509::extension::{
    AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, SubjectAlternativeName,
    SubjectKeyIdentifier,
};
use openssl::x509::{X509, X509Builder, X509Name, X509NameBuilder};
use thiserror::Error;
use widelane_crypto::Family;
use widelane_loadgen::{KeyKind, PemError, Shown};

/// Name in certificates made here, and the SNI sent to every server.
pub const SERVER_NAME: &str = "localhost";

/// A kind of key to make a certificate for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// RSA with this many bits.
    Rsa(u32),
    /// ECDSA on NIST P-256.
    EcdsaP256,
    /// ECDSA on NIST P-384.
    EcdsaP384,
    /// Ed25519.
    Ed25519,
}

impl Key {
    /// Those that can be asked for by name.
    pub const ALL: [Key; 6] = [
        Key::Rsa(2048),
        Key::Rsa(3072),
        Key::Rsa(4096),
        Key::EcdsaP256,
        Key::EcdsaP384,
        Key::Ed25519,
    ];

    /// The family of its operations.
    pub const fn family(self) -> Family {
        match self {
            Key::Rsa(_) => Family::Rsa,
            Key::EcdsaP256 | Key::EcdsaP384 => Family::NistCurves,
            Key::Ed25519 => Family::Ed25519,
        }
    }

    /// Makes a key of this kind.
    fn generate(self) -> Result<PKey<Private>, ErrorStack> {
        let elliptic =
            |curve| PKey::from_ec_key(EcKey::generate(&*EcGroup::from_curve_name(curve)?)?);
        match self {
            Key::Rsa(bits) => PKey::from_rsa(Rsa::generate(bits)?),
            Key::EcdsaP256 => elliptic(Nid::X9_62_PRIME256V1),
            Key::EcdsaP384 => elliptic(Nid::SECP384R1),
            Key::Ed25519 => PKey::generate_ed25519(),
        }
    }

    /// The kind of an existing key.
    fn of(key: &PKey<Public>) -> Option<Self> {
        match KeyKind::of_key(key)? {
            KeyKind::Rsa => Some(Key::Rsa(key.bits())),
            KeyKind::EcdsaP256 => Some(Key::EcdsaP256),
            KeyKind::EcdsaP384 => Some(Key::EcdsaP384),
            KeyKind::Ed25519 => Some(Key::Ed25519),
            KeyKind::RsaPss | KeyKind::EcdsaP521 | KeyKind::Ed448 => None,
        }
    }
}

impl fmt::Display for Key {
    /// The name in scenarios and flags: `rsa2048`, `ecdsa-p256`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Rsa(bits) => write!(f, "rsa{bits}"),
            Key::EcdsaP256 => f.write_str("ecdsa-p256"),
            Key::EcdsaP384 => f.write_str("ecdsa-p384"),
            Key::Ed25519 => f.write_str("ed25519"),
        }
    }
}

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
    /// The kind of the key.
    pub key: Key,
}

/// Why there is no identity.
#[derive(Debug, Error)]
pub enum IdentityError {
    /// OpenSSL could not make the key or the certificate.
    #[error("cannot make a key of kind {key} and its certificate")]
    Make {
        /// The kind asked for.
        key: Key,
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
        "{path} holds a certificate whose key is none that compare drives; \
         give one with an RSA, P-256, P-384 or Ed25519 key"
    )]
    OtherKey {
        /// The certificate file.
        path: PathBuf,
    },
    /// The clients do not take a certificate made here.
    #[error(transparent)]
    Clients(#[from] PemError),
}

impl Identity {
    /// Makes a key of kind `key` and its certificate in `directory`, with that of the authority
    /// that has issued it, as servers on the Internet have it: where a server's own certificate
    /// comes alone, libssl looks for its issuer in each handshake.
    ///
    /// # Errors
    ///
    /// See [`IdentityError`].
    pub fn make(key: Key, directory: &Path) -> Result<Self, IdentityError> {
        let failed = |source| IdentityError::Make { key, source };
        let private = key.generate().map_err(failed)?;
        let authority = Authority::make(key).map_err(failed)?;
        let certificate = authority.issue(&private).map_err(failed)?;
        let leaf_pem = certificate.to_pem().map_err(failed)?;
        let issuer_pem = authority.certificate.to_pem().map_err(failed)?;
        let certificate_pem = [leaf_pem, issuer_pem].concat();
        let key_pem = private.private_key_to_pem_pkcs8().map_err(failed)?;
        let path = |kind: &str| directory.join(format!("{key}-{kind}.pem"));
        let identity = Identity {
            certificate: path("certificate"),
            private_key: path("key"),
            bundle: path("bundle"),
            leaf: certificate.to_der().map_err(failed)?,
            key,
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
        let public = leaf.public_key().map_err(not_pem(certificate, "public key"))?;
        let other_key = || IdentityError::OtherKey { path: certificate.to_owned() };
        let key = Key::of(&public).ok_or_else(other_key)?;
        let identity = Identity {
            certificate: certificate.to_owned(),
            private_key: private_key.to_owned(),
            bundle: directory.join("bundle.pem"),
            leaf: leaf.to_der().map_err(not_pem(certificate, "certificate"))?,
            key,
        };
        write_private(&identity.bundle, &[certificate_pem, b"\n".to_vec(), key_pem].concat())?;
        Ok(identity)
    }
}

/// An intermediate certification authority. The key of the root that has issued it was discarded.
struct Authority {
    certificate: X509,
    key: PKey<Private>,
}

const ROOT: &str = "Widelane root";
const INTERMEDIATE: &str = "Widelane intermediate";

impl Authority {
    /// Makes one with a key such as public authorities have for certificates of kind `key`.
    fn make(key: Key) -> Result<Self, ErrorStack> {
        let kind = if matches!(key, Key::Rsa(_)) { Key::Rsa(2048) } else { Key::EcdsaP256 };
        let (root, key) = (kind.generate()?, kind.generate()?);
        let constraints = BasicConstraints::new().critical().ca().pathlen(0).build()?;
        let certificate = certificate(INTERMEDIATE, &key, (ROOT, &root), |builder| {
            builder.append_extension(constraints)
        })?;
        Ok(Authority { certificate, key })
    }

    /// Issues the certificate of a server.
    fn issue(&self, key: &PKeyRef<Private>) -> Result<X509, ErrorStack> {
        certificate(SERVER_NAME, key, (INTERMEDIATE, &self.key), |builder| {
            builder.append_extension(BasicConstraints::new().critical().build()?)?;
            let names = SubjectAlternativeName::new()
                .dns(SERVER_NAME)
                .build(&builder.x509v3_context(None, None))?;
            builder.append_extension(names)
        })
    }
}

/// What clients show to servers that demand it, made for the run: a certificate on P-256, and that
/// of the intermediate authority which has issued it.
#[derive(Clone, Debug)]
pub struct ClientIdentity {
    /// PEM file of the authority above them, which is all that servers know.
    pub authority: PathBuf,
    /// The two certificates, and the key of the first.
    pub shown: Shown,
}

impl ClientIdentity {
    /// Makes one in `directory`, in files that are called by `name`.
    ///
    /// # Errors
    ///
    /// See [`IdentityError`].
    pub fn make(name: &str, directory: &Path) -> Result<Self, IdentityError> {
        let failed = |source| IdentityError::Make { key: Key::EcdsaP256, source };
        let key = Key::EcdsaP256.generate().map_err(failed)?;
        let root = Authority::of_clients(None).map_err(failed)?;
        let intermediate = Authority::of_clients(Some(&root)).map_err(failed)?;
        let leaf = intermediate.issue_to_client(&key).map_err(failed)?;
        let chain = [leaf.to_pem(), intermediate.certificate.to_pem()];
        let chain = chain.into_iter().collect::<Result<Vec<_>, _>>().map_err(failed)?.concat();
        let path = |kind: &str| directory.join(format!("{name}-{kind}.pem"));
        let [authority, chain_file, key_file] = ["authority", "chain", "key"].map(path);
        write_private(&authority, &root.certificate.to_pem().map_err(failed)?)?;
        write_private(&chain_file, &chain)?;
        write_private(&key_file, &key.private_key_to_pem_pkcs8().map_err(failed)?)?;
        Ok(ClientIdentity { authority, shown: Shown::read(&chain_file, &key_file)? })
    }
}

const CLIENTS_ROOT: &str = "Widelane root of clients";
const CLIENTS_INTERMEDIATE: &str = "Widelane intermediate of clients";
const CLIENT: &str = "client";

impl Authority {
    /// Makes one for clients, on P-256: an intermediate one if there is one `above` it.
    fn of_clients(above: Option<&Authority>) -> Result<Self, ErrorStack> {
        let key = Key::EcdsaP256.generate()?;
        let name = if above.is_some() { CLIENTS_INTERMEDIATE } else { CLIENTS_ROOT };
        let issuers_key = above.map_or(&key, |above| &above.key);
        let mut constraints = BasicConstraints::new();
        constraints.critical().ca();
        if above.is_some() {
            constraints.pathlen(0);
        }
        let certificate = certificate(name, &key, (CLIENTS_ROOT, issuers_key), |builder| {
            builder.append_extension(constraints.build()?)?;
            let usage = KeyUsage::new().critical().key_cert_sign().crl_sign().build()?;
            builder.append_extension(usage)?;
            identify_keys(builder, above)
        })?;
        Ok(Authority { certificate, key })
    }

    /// Issues the certificate of a client.
    fn issue_to_client(&self, key: &PKeyRef<Private>) -> Result<X509, ErrorStack> {
        certificate(CLIENT, key, (CLIENTS_INTERMEDIATE, &self.key), |builder| {
            builder.append_extension(BasicConstraints::new().critical().build()?)?;
            builder.append_extension(KeyUsage::new().critical().digital_signature().build()?)?;
            builder.append_extension(ExtendedKeyUsage::new().client_auth().build()?)?;
            identify_keys(builder, Some(self))
        })
    }
}

/// Adds by what the key and that of the `issuer` are found, as public authorities do.
fn identify_keys(builder: &mut X509Builder, issuer: Option<&Authority>) -> Result<(), ErrorStack> {
    let issuer = issuer.map(|issuer| issuer.certificate.as_ref());
    let own = SubjectKeyIdentifier::new().build(&builder.x509v3_context(issuer, None))?;
    builder.append_extension(own)?;
    if issuer.is_some() {
        let context = builder.x509v3_context(issuer, None);
        let above = AuthorityKeyIdentifier::new().keyid(true).build(&context)?;
        builder.append_extension(above)?;
    }
    Ok(())
}

/// A certificate of version 3 for a month from now on.
fn certificate(
    subject: &str,
    key: &PKeyRef<Private>,
    (issuer, issuers_key): (&str, &PKeyRef<Private>),
    extend: impl FnOnce(&mut X509Builder) -> Result<(), ErrorStack>,
) -> Result<X509, ErrorStack> {
    let name = |text: &str| -> Result<X509Name, ErrorStack> {
        let mut name = X509NameBuilder::new()?;
        name.append_entry_by_nid(Nid::COMMONNAME, text)?;
        Ok(name.build())
    };
    let mut serial = BigNum::new()?;
    serial.rand(127, MsbOption::MAYBE_ZERO, false)?;
    let serial = serial.to_asn1_integer()?;
    let (from, until) = (Asn1Time::days_from_now(0)?, Asn1Time::days_from_now(30)?);

    let mut builder = X509::builder()?;
    builder.set_version(2)?;
    builder.set_serial_number(&serial)?;
    let [subject, issuer] = [name(subject)?, name(issuer)?];
    builder.set_subject_name(&subject)?;
    builder.set_issuer_name(&issuer)?;
    builder.set_not_before(&from)?;
    builder.set_not_after(&until)?;
    builder.set_pubkey(key)?;
    extend(&mut builder)?;
    builder.sign(issuers_key, MessageDigest::sha256())?;
    Ok(builder.build())
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
    use openssl::stack::Stack;
    use openssl::x509::store::X509StoreBuilder;
    use openssl::x509::{X509PurposeId, X509StoreContext};

    use super::*;

    #[test]
    fn makes_and_loads_an_identity_of_every_kind() {
        let directory = tempfile::tempdir().unwrap();
        for key in Key::ALL {
            let made = Identity::make(key, directory.path()).unwrap();
            let loaded =
                Identity::load(&made.certificate, &made.private_key, directory.path()).unwrap();
            assert_eq!(loaded.leaf, made.leaf);
            assert_eq!((made.key, loaded.key), (key, key));
            let chain = X509::stack_from_pem(&fs::read(&made.certificate).unwrap()).unwrap();
            let [leaf, issuer] = &chain[..] else { panic!("a leaf and its issuer") };
            assert!(leaf.verify(&issuer.public_key().unwrap()).unwrap());
            assert_eq!(leaf.to_der().unwrap(), made.leaf);
            let mode = fs::metadata(&made.private_key).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn clients_show_a_chain_that_only_its_authority_vouches_for() {
        let directory = tempfile::tempdir().unwrap();
        let [made, other] =
            ["one", "other"].map(|name| ClientIdentity::make(name, directory.path()).unwrap());
        let der: Vec<_> =
            made.shown.0.cert.iter().map(|one| X509::from_der(one).unwrap()).collect();
        let [leaf, intermediate] = &der[..] else { panic!("a leaf and its issuer") };
        let mut chain = Stack::new().unwrap();
        chain.push(intermediate.clone()).unwrap();
        let is_trusted = |authority: &Path| {
            let mut store = X509StoreBuilder::new().unwrap();
            store.set_purpose(X509PurposeId::SSL_CLIENT).unwrap();
            let root = X509::from_pem(&fs::read(authority).unwrap()).unwrap();
            store.add_cert(root).unwrap();
            let mut context = X509StoreContext::new().unwrap();
            context.init(&store.build(), leaf, &chain, |context| context.verify_cert()).unwrap()
        };
        assert!(is_trusted(&made.authority));
        assert!(!is_trusted(&other.authority));
    }

    #[test]
    fn refuses_a_key_that_is_not_driven() {
        let directory = tempfile::tempdir().unwrap();
        let group = EcGroup::from_curve_name(Nid::SECP521R1).unwrap();
        let key = PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap();
        let (certificate_path, key_path) =
            (directory.path().join("certificate.pem"), directory.path().join("key.pem"));
        let issued = Authority::make(Key::EcdsaP256).unwrap().issue(&key).unwrap();
        fs::write(&certificate_path, issued.to_pem().unwrap()).unwrap();
        fs::write(&key_path, key.private_key_to_pem_pkcs8().unwrap()).unwrap();
        let error = Identity::load(&certificate_path, &key_path, directory.path()).unwrap_err();
        assert!(error.to_string().contains("P-256"), "{error}");
    }

    #[test]
    fn names_the_file_that_is_missing_or_wrong() {
        let directory = tempfile::tempdir().unwrap();
        let made = Identity::make(Key::Rsa(2048), directory.path()).unwrap();
        let missing = directory.path().join("missing.pem");
        let error = Identity::load(&missing, &made.private_key, directory.path()).unwrap_err();
        assert!(error.to_string().contains("missing.pem"), "{error}");
        let error =
            Identity::load(&made.private_key, &made.private_key, directory.path()).unwrap_err();
        assert!(error.to_string().contains("holds no certificate in PEM"), "{error}");
    }
}
