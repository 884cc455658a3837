//! Stock HAProxy under `widelane run`: its own BIO, run queue, threads and asynchronous mode.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use widelane_loadgen::TlsVersion;
use widelane_testkit::rooms::has_x25519;

use crate::support;
use crate::support::authority::Kind;
use crate::support::clients::{REQUEST, load, load_every_group, packets_of_an_answer, s_client};
use crate::support::server::Server;
use crate::support::wait_until;

#[test]
fn full_handshakes_are_batched_on_every_thread() {
    let (authority, identity) = support::localhost();
    let server = Server::haproxy("  nbthread 2\n", &authority.bundle(&identity), &["-db"]);
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        let tally = load(server.port, &identity, version, 64, 600);
        assert!(tally.full >= 600, "{version:?}: {}", tally.full);
    }
    let counters = server.counters();
    counters.assert_batched();
    assert_eq!(counters.jobs_synchronous, 0, "{counters:?}");
}

#[test]
fn both_certificates_and_every_group_are_batched() {
    let (authority, rsa) = support::localhost();
    let rsa_bundle = authority.bundle(&rsa);
    let ecdsa = authority.issue_with("localhost", Kind::P256);
    // Further settings stand behind the file on the same line of the configuration.
    let settings = format!(
        "{} crt {} curves X25519:P-256:P-384 prefer-client-ciphers",
        rsa_bundle.display(),
        authority.bundle(&ecdsa).display()
    );
    let server = Server::haproxy("  nbthread 2\n", Path::new(&settings), &["-db"]);
    load_every_group(&server, &[&rsa, &ecdsa]);
}

#[test]
fn groups_with_ml_kem_are_batched() {
    let (authority, identity) = support::localhost();
    let groups = support::kems::GROUPS.map(|(group, _)| group).join(":");
    // Further settings stand behind the file on the same line of the configuration.
    let pem = PathBuf::from(format!("{} curves {groups}", authority.bundle(&identity).display()));
    support::kems::shake_hands(&Server::haproxy("  nbthread 2\n", &pem, &["-db"]));
}

/// As the configurations of Debian and Ubuntu have it: the worker enters another root, where no
/// counters can be made, after the master has loaded the certificates.
#[test]
fn a_worker_in_another_root_is_counted() {
    let (authority, identity) = support::localhost();
    let root = tempfile::tempdir().expect("a temporary directory");
    let global = format!("  nbthread 2\n  chroot {}\n  user nobody\n", root.path().display());
    if root.path().metadata().expect("a directory").uid() != 0 {
        return eprintln!("only root can enter another root: nothing was tested");
    }
    let server = Server::haproxy(&global, &authority.bundle(&identity), &["-W"]);
    let tally = load(server.port, &identity, TlsVersion::Tls13, 32, 400);
    let counters = server.counters();
    assert!(counters.handshakes >= tally.full, "{counters:?} {}", server.output());
}

#[test]
fn tickets_leave_with_the_answer() {
    let (authority, identity) = support::localhost();
    let server = Server::haproxy("  nbthread 1\n", &authority.bundle(&identity), &["-db"]);
    assert_eq!(packets_of_an_answer(server.port), 2, "a flight, and the rest");
}

#[test]
fn a_lone_handshake_is_not_kept_waiting() {
    let (authority, identity) = support::localhost();
    let server = Server::haproxy("  nbthread 1\n", &authority.bundle(&identity), &["-db"]);
    load(server.port, &identity, TlsVersion::Tls12, 1, 20);
    let counters = server.counters();
    counters.assert_closed_idle(20);
}

#[test]
fn its_own_asynchronous_mode_is_left_to_it() {
    let (authority, identity) = support::localhost();
    let global = "  nbthread 2\n  ssl-mode-async\n";
    let server = Server::haproxy(global, &authority.bundle(&identity), &["-db"]);
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        load(server.port, &identity, version, 64, 400);
    }
    let counters = server.counters();
    assert_eq!(counters.handshakes, 0, "the runtime drives none of these: {counters:?}");
    assert_eq!(counters.jobs_batched > 0, has_x25519(), "{counters:?}");
}

#[test]
fn early_data_is_accepted() {
    let (authority, identity) = support::localhost();
    let pem = authority.bundle(&identity);
    // The option stands behind the file on the same line of the configuration.
    let pem = PathBuf::from(format!("{} allow-0rtt", pem.display()));
    let server = Server::haproxy("  nbthread 1\n", &pem, &["-db"]);
    let session = authority.path("session");
    let session = session.to_str().expect("text");
    s_client(server.port, &["-tls1_3", "-sess_out", session], REQUEST);
    let request = authority.path("request");
    std::fs::write(&request, REQUEST).expect("a short write");
    let request = request.to_str().expect("text");
    let arguments = ["-tls1_3", "-sess_in", session, "-early_data", request];
    let said = s_client(server.port, &arguments, "");
    assert!(said.contains("Early data was accepted"), "{said}");
    assert!(said.contains("200 OK"), "{said}");
    server.counters().assert_signed(1);
    load(server.port, &identity, TlsVersion::Tls13, 32, 200);
    server.counters().assert_batched();
}

#[test]
fn the_master_reloads_into_accelerated_workers_and_its_programs_see_none_of_it() {
    let (authority, identity) = support::localhost();
    let pem = authority.bundle(&identity);
    let global = "  nbthread 1\n\
                  .if version_atleast(3.2)\n  expose-deprecated-directives\n.endif\n\
                  program environment\n  command /usr/bin/env\n  no option start-on-reload\n\
                  global\n  maxconn 2000\n";
    let server = Server::haproxy(global, &pem, &["-W"]);
    wait_until("the program's output", || server.output().contains("PATH="));
    let output = server.output();
    for variable in ["LD_PRELOAD", "WIDELANE_PROVIDER"] {
        assert!(!output.contains(variable), "a child inherited {variable}:\n{output}");
    }
    load(server.port, &identity, TlsVersion::Tls12, 32, 200);
    let before = server.counters();
    before.assert_batched();
    server.signal(libc::SIGUSR2);
    wait_until("a worker after the reload", || {
        s_client(server.port, &[], REQUEST);
        server.counters().processes > before.processes
    });
    load(server.port, &identity, TlsVersion::Tls12, 32, 200);
    server.counters().assert_batched_since(&before);
}
