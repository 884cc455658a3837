//! Servers whose processes choose among policies while they run.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use widelane_bridge::counters::CipherKind;
use widelane_host::choice::{Choice, Verdict};
use widelane_host::counters::Counts;
use widelane_loadgen::{Load, Tally, TlsVersion, Work};
use widelane_testkit::background::while_repeating;

use crate::support;
use crate::support::authority::Identity;
use crate::support::clients::{load, load_of};
use crate::support::server::Server;
use crate::support::{run, wait_until, widelane};

/// Outstanding at a time.
const CONNECTIONS: usize = 24;

const AUTO: [&str; 2] = ["--policy", "auto"];

/// What the processes of a server have chosen that have compared something.
fn choices(server: &Server) -> Vec<Choice> {
    let all = Counts::read_all(&server.path("counters"));
    let choices = all.into_iter().filter_map(|counts| counts.choice);
    choices.filter(|choice| choice.comparisons > 0).collect()
}

/// Loads a server until a process has made its choice; no client may meet an error.
fn load_until_chosen(server: &Server, load: impl Fn(TlsVersion) -> Tally + Sync) {
    let mut versions = [TlsVersion::Tls13, TlsVersion::Tls12].into_iter().cycle();
    let clients = || {
        let tally = load(versions.next().expect("they never end"));
        assert!(tally.errors.is_empty(), "{:?}", tally.errors);
    };
    let is_chosen = || choices(server).iter().any(|it| it.verdict != Verdict::Idle);
    while_repeating(clients, || wait_until("a choice", is_chosen));
}

/// Demands a choice that was made for a reason, and that `widelane top` tells it.
fn assert_chosen(server: &Server) {
    let counters = server.path("counters");
    let choice = choices(server).into_iter().find(|choice| choice.verdict != Verdict::Idle);
    let choice = choice.expect("one was waited for");
    assert!(choice.alternatives.len() > 1 && choice.switches > 0, "{choice:?}");
    for alternative in &choice.alternatives {
        let (slices, cost) = (alternative.slices, alternative.relative_cost);
        assert!(slices >= 3 && (900..20_000).contains(&cost), "{choice:?}");
    }
    let mut top = Command::new(widelane());
    let output =
        run(top.args(["top", "--once", "--interval", "0.1", "--counters-dir"]).arg(counters));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("Policy of "), "{said}");
}

#[test]
fn nginx_chooses_and_loses_no_handshake() {
    let (_authority, identity) = support::localhost();
    let (certificate, key) = (identity.certificate.display(), identity.key.display());
    let http = format!(
        "ssl_certificate {certificate}; ssl_certificate_key {key};
         location / {{ return 204; }}"
    );
    let server = Server::nginx_under(&AUTO, 1, &http);
    if !has_alternatives(&server, &identity) {
        return;
    }
    load_until_chosen(&server, |version| load(server.port, &identity, version, CONNECTIONS, 200));
    assert_chosen(&server);
    assert!(!server.output().contains("SSL_do_handshake() failed"), "{}", server.output());
}

#[test]
fn threads_choose_together() {
    let (authority, identity) = support::localhost();
    let pem = authority.bundle(&identity);
    let server = Server::haproxy_under(&AUTO, "  nbthread 3\n", &pem, &["-db"]);
    if !has_alternatives(&server, &identity) {
        return;
    }
    load_until_chosen(&server, |version| load(server.port, &identity, version, CONNECTIONS, 200));
    assert_chosen(&server);
}

#[test]
fn downloads_go_on_from_room_to_room() {
    const BYTES: usize = 48 << 20;
    let (_authority, identity) = support::localhost();
    let directory = tempfile::tempdir().expect("a temporary directory");
    fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).expect("our own");
    fs::write(directory.path().join("long"), vec![b'w'; BYTES]).expect("a write");
    let (certificate, key) = (identity.certificate.display(), identity.key.display());
    let http = format!(
        "ssl_certificate {certificate}; ssl_certificate_key {key}; root {};",
        directory.path().display()
    );
    let server = Server::nginx_under(&AUTO, 1, &http);
    if !has_alternatives(&server, &identity) {
        return;
    }
    let body_bytes = Some(BYTES as u64);
    let work = Work::Requests { path: "/long".to_owned(), count: 2, body_bytes, pattern: None };
    let template =
        Load { work, connections: 3, handshakes_max: 3, ..load_of(server.port, &[&identity]) };
    load_until_chosen(&server, |version| {
        let load = Load { version, ..template.clone() };
        widelane_loadgen::run(&load, &AtomicBool::new(false), |_| ()).expect("a load").tally
    });
    let counts = Counts::read(&server.path("counters"));
    let gcm = &counts.by_cipher[CipherKind::Aes256Gcm as usize].messages_by_room;
    let rooms = gcm.iter().filter(|messages| **messages > 0).count();
    assert!(rooms == 0 || rooms > 1, "one room did all: {gcm:?}");
}

/// Whether there is anything to choose from: in what the machine has and the environment leaves
/// open, and not in a file that the environment names, which `--policy auto` replaces.
fn has_alternatives(server: &Server, identity: &Identity) -> bool {
    load(server.port, identity, TlsVersion::Tls13, CONNECTIONS, 200);
    server.counters().lanes > 1
}
