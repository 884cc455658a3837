//! Servers that are switched off and on while they run.

use std::fs::{self, File};
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::thread;
use std::time::Duration;

use widelane_bridge::counters::{Counters, OFF_FOR_GOOD, ON, OperationKind};
use widelane_host::counters::Counts;
use widelane_loadgen::{Group, TlsVersion};
use widelane_testkit::background::while_repeating;

use crate::support;
use crate::support::authority::{Authority, Identity, Kind};
use crate::support::clients::{REQUEST, load, load_mixed, s_client};
use crate::support::counters::Sums;
use crate::support::server::Server;
use crate::support::{wait_until, widelane};

/// Does as `widelane off` and `widelane on` do, to all processes of a server but lane processes.
fn switch(server: &Server, off_until_ns: u64) {
    let counters = server.path("counters");
    let lane_processes = Counts::lane_processes(&counters);
    for entry in fs::read_dir(counters).expect("a directory").flatten() {
        let name = entry.file_name().into_string().expect("text");
        if lane_processes.iter().any(|pid| name == format!("{pid}.counters")) {
            continue;
        }
        // What is being renamed is looked at the next time.
        let Ok(file) = File::options().write(true).open(entry.path()) else { continue };
        let place = offset_of!(Counters, off_until_ns) as u64;
        file.write_all_at(&off_until_ns.to_ne_bytes(), place).expect("a write");
    }
}

/// Full handshakes in both versions and two groups.
fn handshake(server: &Server, identities: &[&Identity]) -> u64 {
    let groups = [Group::X25519, Group::Secp256r1];
    let all = [TlsVersion::Tls12, TlsVersion::Tls13].into_iter();
    all.flat_map(|version| groups.map(|group| (version, group)))
        .map(|(version, group)| load_mixed(server.port, identities, version, group, 24, 100).full)
        .sum()
}

/// Demands that OpenSSL has done all since `before`, with so many handshakes.
fn assert_left_to_openssl(now: &Sums, before: &Sums, handshakes: u64) {
    let messages = |sums: &Sums| -> u64 {
        sums.by_cipher.iter().flat_map(|cipher| cipher.messages_by_room).sum()
    };
    assert_eq!(now.runs_by_room, before.runs_by_room, "{now:?}");
    assert_eq!(messages(now), messages(before), "{now:?}");
    assert_eq!(now.parked(), before.parked(), "{now:?}");
    for kind in OperationKind::ALL.map(|kind| kind as usize) {
        assert_eq!(now.by_kind[kind].pooled, before.by_kind[kind].pooled, "{now:?}");
    }
    assert_eq!(now.fallbacks, 0, "{now:?}");
    assert!(now.jobs_delegated - before.jobs_delegated >= handshakes, "{now:?}");
    assert!(now.handshakes - before.handshakes >= handshakes, "{now:?}");
}

/// Has a server reload by `signal`, and waits until another process serves.
fn reload(server: &Server, signal: i32) {
    let before = server.counters();
    server.signal(signal);
    wait_until("a worker after the reload", || {
        s_client(server.port, &[], REQUEST);
        server.counters().processes > before.processes
    });
}

fn nginx(workers: usize) -> (Server, Authority, Vec<Identity>) {
    let (authority, rsa) = support::localhost();
    let ecdsa = authority.issue_with("localhost", Kind::P256);
    let certificates = [&rsa, &ecdsa].map(|identity| {
        format!(
            "ssl_certificate {}; ssl_certificate_key {};\n",
            identity.certificate.display(),
            identity.key.display()
        )
    });
    let http = format!(
        "{} ssl_ecdh_curve X25519:prime256v1; location / {{ return 204; }}",
        certificates.concat()
    );
    (Server::nginx(workers, &http), authority, vec![rsa, ecdsa])
}

#[test]
fn a_server_leaves_all_to_openssl_until_it_is_switched_on_its_new_workers_too() {
    let (server, _authority, identities) = nginx(2);
    let identities: Vec<_> = identities.iter().collect();
    handshake(&server, &identities);
    let before = server.counters();
    before.assert_batched();

    switch(&server, OFF_FOR_GOOD);
    let full = handshake(&server, &identities);
    let off = server.counters();
    assert_left_to_openssl(&off, &before, full);

    reload(&server, libc::SIGHUP);
    let full = handshake(&server, &identities);
    let reloaded = server.counters();
    assert_left_to_openssl(&reloaded, &off, full);

    switch(&server, ON);
    handshake(&server, &identities);
    server.counters().assert_batched_since(&reloaded);
}

#[test]
fn no_handshake_is_lost_while_a_server_is_switched_back_and_forth() {
    let (server, _authority, identities) = nginx(2);
    let identities: Vec<_> = identities.iter().collect();
    let clients = || {
        handshake(&server, &identities);
    };
    while_repeating(clients, || {
        for round in 0..40 {
            switch(&server, if round % 2 == 0 { OFF_FOR_GOOD } else { ON });
            thread::sleep(Duration::from_millis(50));
        }
    });
    let counters = server.counters();
    assert!(counters.jobs_delegated > 0, "{counters:?}");
    counters.assert_batched();
    assert!(!server.output().contains("SSL_do_handshake() failed"), "{}", server.output());
}

#[allow(unsafe_code, reason = "asks for the time")]
fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for the time.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) }, 0);
    (now.tv_sec * 1_000_000_000 + now.tv_nsec).cast_unsigned()
}

#[test]
fn it_ends_by_itself_at_its_time() {
    let (server, _authority, identities) = nginx(1);
    let identities: Vec<_> = identities.iter().collect();
    handshake(&server, &identities);
    let before = server.counters();
    switch(&server, monotonic_ns() + 500_000_000);
    load(server.port, identities[0], TlsVersion::Tls13, 1, 1);
    assert!(server.counters().jobs_delegated > before.jobs_delegated, "it was not off");
    wait_until("acceleration", || {
        let before = server.counters();
        handshake(&server, &identities);
        server.counters().jobs_delegated == before.jobs_delegated
    });
    server.counters().assert_batched_since(&before);
}

#[test]
fn a_lane_process_is_never_off() {
    let (_authority, identity) = support::localhost();
    let http = format!(
        "ssl_certificate {}; ssl_certificate_key {}; location / {{ return 204; }}",
        identity.certificate.display(),
        identity.key.display()
    );
    let server = Server::nginx_under(&["--lane-cpus", "0"], 2, &http);
    load(server.port, &identity, TlsVersion::Tls13, 24, 200);
    switch(&server, OFF_FOR_GOOD);
    reload(&server, libc::SIGHUP);
    switch(&server, ON);
    load(server.port, &identity, TlsVersion::Tls13, 24, 200);
    let of_lane_process = Sums::of(&server.path("counters"), |starts| starts > 0);
    // Off, OpenSSL would do all of them.
    let by_kernels = of_lane_process.jobs_batched > of_lane_process.jobs_single;
    assert!(!of_lane_process.has_lanes() || by_kernels, "{of_lane_process:?}");
}

#[test]
fn a_master_that_executes_itself_anew_stays_off() {
    let (authority, identity) = support::localhost();
    let global = "  nbthread 1\n";
    let server = Server::haproxy(global, &authority.bundle(&identity), &["-W"]);
    load(server.port, &identity, TlsVersion::Tls13, 24, 200);
    server.counters().assert_batched();
    switch(&server, OFF_FOR_GOOD);
    reload(&server, libc::SIGUSR2);
    // The master counts anew.
    let before = server.counters();
    let full = load(server.port, &identity, TlsVersion::Tls13, 24, 200).full;
    assert_left_to_openssl(&server.counters(), &before, full);
    switch(&server, ON);
    let before = server.counters();
    load(server.port, &identity, TlsVersion::Tls13, 24, 200);
    server.counters().assert_batched_since(&before);
}

/// `widelane off` fails rather than say that a server is off that it did not reach.
#[test]
fn what_cannot_be_switched_is_told() {
    let (authority, identity) = support::localhost();
    let server = Server::haproxy("  nbthread 1\n", &authority.bundle(&identity), &["-db"]);
    // Before its first handshake, so that an idle server can be switched, too.
    wait_until("its counters", || server.counters().processes == 1);
    let off = || {
        let mut off = Command::new(widelane());
        off.args(["off", &server.pid().to_string()]).env_remove("WIDELANE_COUNTERS_DIR");
        let output = off.output().expect("widelane was built");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let counters = server.path("counters");
    let (is_off, said) = off();
    let expected = format!("its counters are in {}, ", counters.display());
    assert!(!is_off && said.contains(&expected), "{said}");
    assert!(said.contains("--counters-dir"), "{said}");
}
