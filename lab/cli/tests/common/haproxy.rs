//! A stock HAProxy to load.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::Command;

use widelane_testkit::server::{Process, free_address};

use super::nginx::{EC, make_certificate};

/// HAProxy as installed, which answers requests by itself and counts handshakes.
pub struct Haproxy {
    _process: Process,
    directory: tempfile::TempDir,
    /// Where it listens: on loopback.
    pub address: String,
}

impl Haproxy {
    /// Starts it, and waits until it listens.
    pub fn start() -> Self {
        Self::with("")
    }

    /// Starts one that takes so many connections per second; others wait.
    pub fn limited(per_second: u32) -> Self {
        Self::with(&format!("  rate-limit sessions {per_second}\n"))
    }

    fn with(more: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path();
        make_certificate(place, EC);
        let read = |name: &str| fs::read_to_string(place.join(name)).unwrap();
        let both = read("certificate.pem") + &read("key.pem");
        fs::write(place.join("both.pem"), both).unwrap();
        let address = free_address();
        let configuration = format!(
            "global\n  stats socket {0}/admin mode 600 level operator\n  nbthread 1\n\
             defaults\n  mode http\n  timeout client 10s\n  timeout connect 1s\n\
             \x20 timeout server 1s\n\
             frontend f\n  bind {address} ssl crt {0}/both.pem ssl-min-ver TLSv1.2\n\
             \x20 stick-table type string len 16 size 16 store http_req_cnt\n\
             \x20 http-request track-sc0 str(resumed) if {{ ssl_fc_is_resumed }}\n\
             \x20 http-request track-sc0 str(full) unless {{ ssl_fc_is_resumed }}\n\
             \x20 http-request return status 200 content-type text/plain string hello\n{more}",
            place.display()
        );
        fs::write(place.join("haproxy.cfg"), configuration).unwrap();
        let mut command = Command::new("/usr/sbin/haproxy");
        command.arg("-db").arg("-f").arg(place.join("haproxy.cfg"));
        let process = Process::ready(&mut command, || {
            UnixStream::connect(place.join("admin")).is_ok() && TcpStream::connect(address).is_ok()
        });
        Haproxy { _process: process, directory, address: address.to_string() }
    }

    /// Requests on full and on resumed sessions, as HAProxy counted them.
    pub fn counted(&self) -> (u64, u64) {
        let mut admin = UnixStream::connect(self.directory.path().join("admin")).unwrap();
        admin.write_all(b"show table f\n").unwrap();
        let mut table = String::new();
        admin.read_to_string(&mut table).unwrap();
        let count = |key: &str| {
            let line = table.lines().find(|line| line.contains(&format!("key={key} ")));
            let count = line.and_then(|line| line.split("http_req_cnt=").nth(1));
            count.map_or(0, |count| count.split(' ').next().unwrap().trim().parse().unwrap())
        };
        (count("full"), count("resumed"))
    }
}
