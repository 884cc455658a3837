//! A certificate authority in a directory, run by the `openssl` program.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use openssl::asn1::Asn1Time;
use openssl::bn::{BigNum, MsbOption};
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use openssl::x509::extension::SubjectAlternativeName;
use openssl::x509::{X509, X509Name};

use super::run;

/// The authority; its files end with the test.
pub struct Authority {
    directory: tempfile::TempDir,
    /// The kinds of the keys that it has.
    kinds: Mutex<Vec<Kind>>,
}

/// The keys that authorities of this process have, the first ones of a kind first: making RSA keys
/// would take longer than most tests. Two keys of one authority differ.
static KEYS: Mutex<Vec<(Kind, Vec<u8>)>> = Mutex::new(Vec::new());

/// A certificate and its key, in PEM.
pub struct Identity {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// What a key is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Rsa2048,
    Rsa3072,
    P256,
    P384,
    /// Of OpenSSL 3.5 and later.
    MlDsa65,
}

impl Kind {
    fn options(self) -> &'static str {
        match self {
            Kind::Rsa2048 => "-algorithm RSA -pkeyopt rsa_keygen_bits:2048",
            Kind::Rsa3072 => "-algorithm RSA -pkeyopt rsa_keygen_bits:3072",
            Kind::P256 => "-algorithm EC -pkeyopt ec_paramgen_curve:P-256",
            Kind::P384 => "-algorithm EC -pkeyopt ec_paramgen_curve:P-384",
            Kind::MlDsa65 => "-algorithm ML-DSA-65",
        }
    }
}

impl Authority {
    /// Makes the authority's own key and certificate.
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let authority = Self { directory, kinds: Mutex::default() };
        authority.write_key("ca.key", Kind::Rsa2048);
        authority.openssl("req -x509 -key ca.key -out ca.pem -days 30 -subj /CN=Authority");
        authority
    }

    pub fn certificate(&self) -> PathBuf {
        self.path("ca.pem")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Issues a certificate for `name` with a new key of RSA-2048.
    pub fn issue(&self, name: &str) -> Identity {
        self.issue_with(name, Kind::Rsa2048)
    }

    /// Issues a certificate for `name` with a new key of a kind.
    pub fn issue_with(&self, name: &str, kind: Kind) -> Identity {
        let key = format!("{name}.{kind:?}.key");
        self.write_key(&key, kind);
        self.issue_for_key(name, &self.path(&key))
    }

    /// Issues a certificate for `name` with a key made before.
    pub fn issue_for_key(&self, name: &str, key: &Path) -> Identity {
        let stem = key.file_stem().expect("a file").to_string_lossy();
        let certificate = format!("{name}.{stem}.pem");
        let issued = self.certify(name, key).expect("a key and an authority of ours");
        std::fs::write(self.path(&certificate), issued).expect("a short write");
        Identity { certificate: self.path(&certificate), key: key.to_owned() }
    }

    /// A certificate in PEM, made here: some tests need hundreds.
    fn certify(&self, name: &str, key: &Path) -> Result<Vec<u8>, ErrorStack> {
        let read = |path: &Path| std::fs::read(path).expect("made");
        let issuer = X509::from_pem(&read(&self.certificate()))?;
        let mut subject = X509Name::builder()?;
        subject.append_entry_by_text("CN", name)?;
        let mut serial = BigNum::new()?;
        serial.rand(127, MsbOption::ONE, false)?;
        let mut certificate = X509::builder()?;
        certificate.set_version(2)?;
        certificate.set_serial_number(&*serial.to_asn1_integer()?)?;
        certificate.set_subject_name(&subject.build())?;
        certificate.set_issuer_name(issuer.subject_name())?;
        certificate.set_not_before(&*Asn1Time::days_from_now(0)?)?;
        certificate.set_not_after(&*Asn1Time::days_from_now(30)?)?;
        let key = PKey::private_key_from_pem(&read(key))?;
        certificate.set_pubkey(&key)?;
        let names = SubjectAlternativeName::new()
            .dns(name)
            .build(&certificate.x509v3_context(Some(&issuer), None))?;
        certificate.append_extension(names)?;
        let issuer_key = PKey::private_key_from_pem(&read(&self.path("ca.key")))?;
        certificate.sign(&issuer_key, MessageDigest::sha256())?;
        certificate.build().to_pem()
    }

    /// Issues a certificate for `name` below an intermediate authority, both and the root of one
    /// kind of keys; answers the root, and the certificate with the intermediate behind it.
    pub fn issue_chain(&self, name: &str, kind: Kind) -> (PathBuf, Identity) {
        let part = |part: &str| format!("{name}.{part}");
        for (subject, issuer) in [("root", "root"), ("middle", "root"), ("leaf", "middle")] {
            let [subject_file, issuer_file] = [subject, issuer].map(part);
            self.write_key(&format!("{subject_file}.key"), kind);
            let issued = match subject == issuer {
                true => String::new(),
                false => format!("-CA {issuer_file}.pem -CAkey {issuer_file}.key"),
            };
            self.openssl(&format!(
                "req -x509 -key {subject_file}.key {issued} -out {subject_file}.pem -days 30 \
                 -subj /CN={subject_file}"
            ));
        }
        let certificate = self.path(&part("chain.pem"));
        let both = ["leaf.pem", "middle.pem"]
            .map(|file| std::fs::read(self.path(&part(file))).expect("made"));
        std::fs::write(&certificate, both.concat()).expect("a short write");
        (self.path(&part("root.pem")), Identity { certificate, key: self.path(&part("leaf.key")) })
    }

    /// Certificate and key of `identity` in one file, as HAProxy wants them.
    pub fn bundle(&self, identity: &Identity) -> PathBuf {
        let path = identity.certificate.with_extension("bundle");
        let both =
            [&identity.certificate, &identity.key].map(|file| std::fs::read(file).expect("made"));
        std::fs::write(&path, both.concat()).expect("a short write");
        path
    }

    /// A good OCSP response for `identity`, in DER.
    pub fn ocsp_response(&self, identity: &Identity) -> PathBuf {
        let certificate = identity.certificate.display();
        let serial = self.openssl(&format!("x509 -in {certificate} -noout -serial"));
        let serial = String::from_utf8_lossy(&serial.stdout);
        let serial = serial.trim().trim_start_matches("serial=");
        let line = format!("V\t391231235959Z\t\t{serial}\tunknown\t/CN=localhost\n");
        std::fs::write(self.path("index"), line).expect("a short write");
        self.openssl(&format!(
            "ocsp -index index -rsigner ca.pem -rkey ca.key -CA ca.pem -issuer ca.pem \
             -cert {certificate} -respout ocsp.der -ndays 1"
        ));
        self.path("ocsp.der")
    }

    /// Writes a key that this authority does not have yet.
    fn write_key(&self, name: &str, kind: Kind) {
        let nth = {
            let mut kinds = self.kinds.lock().expect("nobody panics with it");
            kinds.push(kind);
            kinds.iter().filter(|known| **known == kind).count() - 1
        };
        let mut keys = KEYS.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = keys.iter().filter(|(known, _)| *known == kind);
        let known = known.nth(nth).map(|(_, key)| key.clone());
        let key = known.unwrap_or_else(|| {
            let made = self.openssl(&format!("genpkey {}", kind.options())).stdout;
            keys.push((kind, made.clone()));
            made
        });
        std::fs::write(self.path(name), key).expect("a short write");
    }

    /// Runs `openssl` in the directory; `arguments` are separated by spaces.
    fn openssl(&self, arguments: &str) -> Output {
        let directory = self.directory.path();
        run(Command::new("openssl").args(arguments.split_whitespace()).current_dir(directory))
    }
}
