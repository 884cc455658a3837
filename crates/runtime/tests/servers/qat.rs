//! A stock server whose private-key operations a stand-in for a QAT device does, with faults.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use widelane_loadgen::TlsVersion;
use widelane_qat_stand_in::VARIABLE;
use widelane_testkit::server::{free_address, nginx_files};

use crate::support;
use crate::support::authority::Identity;
use crate::support::clients::load;
use crate::support::counters::Sums;
use crate::support::server::Server;
use crate::support::{wait_until, widelane};

/// Outstanding at a time.
const CONNECTIONS: usize = 24;

/// A directory in which the dynamic linker finds the stand-in as qatlib.
fn stand_in() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let program = std::env::current_exe().expect("this program");
    let library = program.with_file_name("libwidelane_qat_stand_in.so");
    assert!(library.exists(), "cargo builds {} with its tests", library.display());
    for name in ["libqat.so.4", "libusdm.so.0"] {
        symlink(&library, directory.path().join(name)).expect("a link");
    }
    directory
}

/// `widelane run` with a device that has faults.
fn run(library: &Path, faults: &str) -> Command {
    // Where the system's OpenSSL is not the one that is tested, this finds that.
    let libraries = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let others = std::env::split_paths(&libraries).filter(|path| !path.as_os_str().is_empty());
    let libraries = std::iter::once(library.to_owned()).chain(others);
    let mut run = Command::new(widelane());
    run.args(["run", "--engine", "qat-first"])
        .env("LD_LIBRARY_PATH", std::env::join_paths(libraries).expect("paths without colons"))
        .env(VARIABLE, faults);
    run
}

fn nginx(identity: &Identity, run: &mut Command) -> Server {
    let port = free_address().port();
    let (certificate, key) = (identity.certificate.display(), identity.key.display());
    let http = format!(
        "http {{ {} ssl_protocols TLSv1.2 TLSv1.3; server {{ listen 127.0.0.1:{port} ssl;
           ssl_certificate {certificate}; ssl_certificate_key {key};
           location / {{ return 204; }} }} }}",
        nginx_files(Path::new("."))
    );
    // nginx keeps no other variables for its workers.
    Server::nginx_run(run, port, 2, &format!("env {VARIABLE};"), &http)
}

/// Every handshake of a load ends well. The device or the CPU has signed for each, and the device
/// has done key exchanges besides.
fn under_load(server: &Server, identity: &Identity, handshakes: u64) -> Sums {
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        load(server.port, identity, version, CONNECTIONS, handshakes);
    }
    let sums = server.counters();
    assert_eq!((sums.fallbacks, sums.jobs_refused), (0, 0), "{sums:?}");
    if sums.has_lanes() {
        // Who only looked whether the server listens did not get as far as a signature.
        let unsigned = sums.handshakes.saturating_sub(sums.device_jobs + sums.rsa());
        assert!(unsigned <= 1, "{sums:?}");
    }
    let output = server.output();
    assert!(!output.contains("SSL_do_handshake() failed"), "{output}");
    assert!(!output.contains("[alert]"), "{output}");
    sums
}

/// The same of a device with faults.
fn with_faults(faults: &str, handshakes: u64) -> Sums {
    let (_authority, identity) = support::localhost();
    let library = stand_in();
    let server = nginx(&identity, &mut run(library.path(), faults));
    under_load(&server, &identity, handshakes)
}

#[test]
fn the_device_makes_all_signatures() {
    for faults in ["", "silent", "slow=3000,backwards"] {
        let sums = with_faults(faults, 200);
        if sums.has_lanes() {
            assert_eq!((sums.rsa(), sums.device_faults, sums.device_late), (0, 0, 0), "{sums:?}");
        }
    }
}

#[test]
fn what_it_has_no_room_for_the_lanes_do() {
    let sums = with_faults("slow=5000,room=2", 200);
    if sums.has_lanes() {
        assert!(sums.device_full > 0 && sums.device_jobs > 0, "{sums:?}");
        assert!((1..=sums.device_full).contains(&sums.rsa()), "{sums:?}");
    }
}

#[test]
fn wrong_and_failing_operations_end_in_a_right_signature() {
    for faults in ["wrong=7", "fails=7", "resets=40"] {
        let sums = with_faults(faults, 300);
        if sums.has_lanes() {
            assert!(sums.device_faults > 0 && sums.device_jobs > 0, "{faults}: {sums:?}");
        }
    }
}

#[test]
fn late_operations_are_done_by_the_lanes() {
    let sums = with_faults("late=9", 300);
    if sums.has_lanes() {
        assert!(sums.device_late > 0 && sums.device_jobs > 0, "{sums:?}");
    }
}

#[test]
fn without_a_device_the_server_runs_and_says_so_once_for_each_worker() {
    let (_authority, identity) = support::localhost();
    let library = stand_in();
    for (library, why) in [
        (library.path(), "icp_sal_userStart: it failed; see that the service qat runs"),
        (Path::new("/nonexistent"), "libqat.so.4: cannot open shared object file"),
    ] {
        let server = nginx(&identity, &mut run(library, "absent"));
        let sums = under_load(&server, &identity, 100);
        let output = server.output();
        let said = output.lines().filter(|line| line.contains("no QAT device: ")).count();
        assert_eq!(sums.device_jobs, 0);
        if sums.has_lanes() {
            assert!((1..=2).contains(&said) && output.contains(why), "{output}");
        }
    }
}

#[test]
fn workers_of_a_reload_open_it_anew() {
    let (_authority, identity) = support::localhost();
    let library = stand_in();
    let server = nginx(&identity, &mut run(library.path(), ""));
    if !under_load(&server, &identity, 50).has_lanes() {
        return;
    }
    let processes = server.counters().processes;
    for _ in 0..3 {
        server.signal(libc::SIGHUP);
        thread::sleep(Duration::from_millis(200));
        under_load(&server, &identity, 50);
    }
    wait_until("new workers", || server.counters().processes > processes);
    assert_eq!(server.counters().rsa(), 0);
}

#[test]
fn threads_of_haproxy_use_it() {
    let (authority, identity) = support::localhost();
    let (pem, library) = (authority.bundle(&identity), stand_in());
    let arguments = ["/usr/sbin/haproxy", "-db", "-f", "configuration"];
    let port = free_address().port();
    let server =
        Server::haproxy_run(&mut run(library.path(), ""), port, "  nbthread 2\n", &pem, &arguments);
    let sums = under_load(&server, &identity, 200);
    if sums.has_lanes() {
        assert_eq!(sums.rsa(), 0, "{sums:?}");
    }
}
