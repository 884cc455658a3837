//! A certificate authority in a directory, run by the `openssl` program.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::run;

/// The authority; its files end with the test.
pub struct Authority {
    directory: tempfile::TempDir,
}

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
        let authority = Self { directory };
        authority.openssl(
            "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 30 \
             -subj /CN=Authority",
        );
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
        let options = kind.options();
        self.openssl(&format!("genpkey {options} -out {key}"));
        self.issue_for_key(name, &self.path(&key))
    }

    /// Issues a certificate for `name` with a key made before.
    pub fn issue_for_key(&self, name: &str, key: &Path) -> Identity {
        let key_file = key.display();
        let stem = key.file_stem().expect("a file").to_string_lossy();
        let certificate = format!("{name}.{stem}.pem");
        self.openssl(&format!(
            "req -x509 -key {key_file} -CA ca.pem -CAkey ca.key -out {certificate} -days 30 \
             -subj /CN={name} -addext subjectAltName=DNS:{name}"
        ));
        Identity { certificate: self.path(&certificate), key: key.to_owned() }
    }

    /// Issues a certificate for `name` below an intermediate authority, both and the root of one
    /// kind of keys; answers the root, and the certificate with the intermediate behind it.
    pub fn issue_chain(&self, name: &str, kind: Kind) -> (PathBuf, Identity) {
        let part = |part: &str| format!("{name}.{part}");
        for (subject, issuer) in [("root", "root"), ("middle", "root"), ("leaf", "middle")] {
            let [subject_file, issuer_file] = [subject, issuer].map(part);
            self.openssl(&format!("genpkey {} -out {subject_file}.key", kind.options()));
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

    /// Runs `openssl` in the directory; `arguments` are separated by spaces.
    fn openssl(&self, arguments: &str) -> Output {
        let directory = self.directory.path();
        run(Command::new("openssl").args(arguments.split_whitespace()).current_dir(directory))
    }
}
