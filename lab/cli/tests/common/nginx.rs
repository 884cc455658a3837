//! A stock nginx to load.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use widelane_testkit::server::{Process, free_address_at};

use super::stderr;

/// A key on P-256, for `openssl req`.
pub const EC: &[&str] = &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"];

/// An RSA key.
pub const RSA: &[&str] = &["-newkey", "rsa:2048"];

/// nginx as installed, with a log of which requests came on resumed sessions.
pub struct Nginx {
    _process: Process,
    /// Its files.
    pub directory: tempfile::TempDir,
    /// Where it listens.
    pub address: String,
}

impl Nginx {
    /// Starts it, and waits until it listens.
    pub fn start() -> Self {
        Self::with_key(EC)
    }

    /// Starts it with a key of another kind.
    pub fn with_key(kind: &[&str]) -> Self {
        Self::at(Ipv4Addr::LOCALHOST, kind)
    }

    /// Starts it at another address of this host.
    pub fn at(host: impl Into<IpAddr>, kind: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path();
        make_certificate(place, kind);
        let address = free_address_at(host);
        // Without a master, the worker ends with the process.
        let configuration = format!(
            "daemon off; master_process off; pid {0}/pid; error_log {0}/errors;
            events {{ worker_connections 1024; }}
            http {{
                log_format resumed '$ssl_session_reused'; access_log {0}/access resumed;
                client_body_temp_path {0}/1; proxy_temp_path {0}/2; fastcgi_temp_path {0}/3;
                uwsgi_temp_path {0}/4; scgi_temp_path {0}/5;
                server {{
                    listen {address} ssl;
                    ssl_certificate {0}/certificate.pem; ssl_certificate_key {0}/key.pem;
                    ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:s:1m;
                    location / {{ return 200 'hello'; }}
                    location /missing {{ return 404; }}
                    location /host {{ if ($http_host = '{address}') {{ return 200; }} return 421; }}
                }}
            }}",
            place.display()
        );
        fs::write(place.join("nginx.conf"), configuration).unwrap();
        let mut command = Command::new("/usr/sbin/nginx");
        command.arg("-p").arg(place).arg("-c").arg(place.join("nginx.conf"));
        let process = Process::listening(&mut command, address);
        Nginx { _process: process, directory, address: address.to_string() }
    }

    /// The certificate that vouches for it: its own.
    pub fn authority(&self) -> PathBuf {
        self.directory.path().join("certificate.pem")
    }

    /// Requests on full and on resumed sessions, as nginx counted them, once these are at least so
    /// many: it writes a line when its client has the answer already.
    pub fn counted(&self, at_least: (u64, u64)) -> (u64, u64) {
        let end = Instant::now() + Duration::from_secs(2);
        loop {
            let log = fs::read_to_string(self.directory.path().join("access")).unwrap();
            let count = |mark| log.lines().filter(|line| *line == mark).count() as u64;
            let counted = (count("."), count("r"));
            let are_all = counted.0 >= at_least.0 && counted.1 >= at_least.1;
            if are_all || Instant::now() > end {
                return counted;
            }
            sleep(Duration::from_millis(20));
        }
    }
}

/// A certificate for `localhost`, signed by itself, and its key.
pub fn make_certificate(place: &Path, kind: &[&str]) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-nodes"])
        .args(kind)
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(place.join("key.pem"))
        .arg("-out")
        .arg(place.join("certificate.pem"))
        .output()
        .expect("openssl is installed");
    assert!(made.status.success(), "{}", stderr(&made));
}
