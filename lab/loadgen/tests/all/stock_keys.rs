//! Certificates of every kind that `openssl s_server` serves.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use widelane_loadgen::{
    Cipher, Course, ErrorKind, Group, LoadError, Mix, Outcome, Pace, Plan, TlsVersion, Trust, Work,
    drive,
};
use widelane_testkit::server::{Process, free_address};

/// `openssl s_server` with a key of its own.
struct StockServer {
    _process: Process,
    address: SocketAddr,
    directory: tempfile::TempDir,
}

/// Options of `openssl req` that make a key, and whether its certificate is of version 1.
type Key = (&'static [&'static str], bool);

const P384: Key = (&["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384"], false);
const P521: Key = (&["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-521"], false);
const RSA_1024: Key = (&["-newkey", "rsa:1024"], false);
const RSA_PSS: Key = (&["-newkey", "rsa-pss", "-pkeyopt", "rsa_keygen_bits:2048"], false);
const ED448: Key = (&["-newkey", "ed448"], false);
const VERSION_1: Key = (&["-newkey", "rsa:2048"], true);

impl StockServer {
    fn start((key, is_version_1): Key) -> Self {
        let directory = tempfile::tempdir().unwrap();
        make_certificate(directory.path(), key, is_version_1);
        let address = free_address();
        let mut command = Command::new("openssl");
        command
            .current_dir(directory.path())
            .args(["s_server", "-www", "-cert", "certificate.pem", "-key", "key.pem"])
            .args(["-cipher", "ALL:@SECLEVEL=0", "-accept", &address.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = Process::listening(&mut command, address);
        StockServer { _process: process, address, directory }
    }

    fn load(
        &self,
        version: TlsVersion,
        trust: Trust,
        window: Duration,
    ) -> Result<Outcome, LoadError> {
        let plan = Plan {
            target: self.address,
            sources: Vec::new(),
            trust,
            mix: Mix::alike(version, Cipher::Aes256Gcm, Group::X25519, "localhost"),
            work: Work::Handshake,
            pace: Pace::Closed { connections: 1, ramp: Duration::ZERO },
            patience: Duration::from_secs(10),
            seed: 1,
        };
        let course = Course { threads: 1, cpus: Vec::new(), warm_up: Duration::ZERO, window };
        drive(&plan, &course, &AtomicBool::new(false), |_, _| ()).map_err(|given_up| given_up.error)
    }

    /// Why a load that cannot succeed is given up.
    fn given_up(&self, version: TlsVersion, trust: Trust) -> LoadError {
        self.load(version, trust, Duration::from_secs(60)).map(drop).unwrap_err()
    }
}

fn openssl(directory: &Path, arguments: &[&str]) {
    let made = Command::new("openssl").current_dir(directory).args(arguments).output();
    let made = made.expect("openssl is installed");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

fn make_certificate(directory: &Path, key: &[&str], is_version_1: bool) {
    let subject = ["-nodes", "-subj", "/CN=localhost", "-keyout", "key.pem"];
    if !is_version_1 {
        let names = ["-addext", "subjectAltName=DNS:localhost", "-out", "certificate.pem"];
        return openssl(directory, &[&["req", "-x509"], key, &subject, &names].concat());
    }
    openssl(directory, &[&["req", "-new", "-out", "request.pem"], key, &subject].concat());
    let sign = ["x509", "-req", "-in", "request.pem", "-signkey", "key.pem"];
    openssl(directory, &[&sign[..], &["-out", "certificate.pem"]].concat());
}

#[test]
fn any_certificate_is_loaded_where_none_is_judged() {
    let both = [TlsVersion::Tls12, TlsVersion::Tls13];
    for (key, versions) in [
        (P384, &both[..]),
        (P521, &both),
        (RSA_1024, &both),
        (VERSION_1, &both),
        (RSA_PSS, &both[1..]),
        (ED448, &both[1..]),
    ] {
        let server = StockServer::start(key);
        for version in versions {
            let outcome = server.load(*version, Trust::Anyone, Duration::from_millis(400));
            let outcome = outcome.unwrap_or_else(|error| panic!("{key:?} {version:?}: {error}"));
            assert!(outcome.tally.full > 0, "{key:?} {version:?}");
            assert!(outcome.tally.errors.is_empty(), "{key:?} {:?}", outcome.tally.errors);
        }
    }
}

#[test]
fn keys_that_tls_1_2_lacks_are_named_in_the_advice() {
    for key in [RSA_PSS, ED448] {
        let server = StockServer::start(key);
        let error = server.given_up(TlsVersion::Tls12, Trust::Anyone);
        assert!(matches!(error, LoadError::Failing { kind: ErrorKind::Alert, .. }), "{error}");
        let advice = "RSA-PSS and Ed448 keys work in TLS 1.3 only";
        assert!(error.to_string().contains(advice), "{error}");
    }
}

#[test]
fn authorities_do_not_make_up_for_a_short_key() {
    let server = StockServer::start(RSA_1024);
    let pem = fs::read_to_string(server.directory.path().join("certificate.pem")).unwrap();
    let trust = Trust::authorities_in(&pem).unwrap();
    let error = server.given_up(TlsVersion::Tls13, trust);
    assert!(matches!(error, LoadError::Failing { kind: ErrorKind::Certificate, .. }), "{error}");
    let said = error.to_string();
    assert!(said.contains("1024 bits") && said.contains("or accept any certificate"), "{said}");
}
