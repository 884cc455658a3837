//! Stock nginx with HTTP/3 under `widelane run`: handshakes over QUIC, whose connections share a
//! socket, and what networks and operators do to them. Where nginx has none, nothing is tested.

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use widelane_loadgen::{Group, Shown, Tally, Work, run};
use widelane_testkit::server::{free_address, nginx_files};

use crate::support;
use crate::support::authority::{Identity, Kind};
use crate::support::clients::{load, load_of};
use crate::support::server::Server;

/// What a worker says whose process was ended by a fault.
const FAULT: &str = "exited on signal";

/// nginx that listens for HTTP/3, and for TLS over TCP on the same port; nothing if it has none.
fn nginx(workers: usize, identities: &[&Identity], more: &str) -> Option<Server> {
    let version = support::run(Command::new("/usr/sbin/nginx").arg("-V"));
    if !String::from_utf8_lossy(&version.stderr).contains("--with-http_v3_module") {
        return None;
    }
    let port = free_address().port();
    let certificates: String = identities
        .iter()
        .map(|identity| {
            let [certificate, key] = [&identity.certificate, &identity.key].map(|it| it.display());
            format!("ssl_certificate {certificate}; ssl_certificate_key {key};")
        })
        .collect();
    let http = format!(
        "http {{ {} server {{
           listen 127.0.0.1:{port} quic reuseport; listen 127.0.0.1:{port} ssl;
           {certificates} ssl_protocols TLSv1.3; {more}
           location / {{ return 200 \"answer\"; }} }} }}",
        nginx_files(Path::new("."))
    );
    Some(Server::nginx_with(port, workers, "", &http))
}

/// Has clients shake hands over QUIC, or also ask for something.
fn shake_hands(
    port: u16,
    identities: &[&Identity],
    group: Group,
    (connections, handshakes): (usize, u64),
    work: Work,
) -> Tally {
    let load = widelane_loadgen::Load {
        protocol: Some("h3".to_owned()),
        connections,
        handshakes_max: handshakes,
        group,
        work,
        ..load_of(port, identities)
    };
    run(&load, &AtomicBool::new(false), |_| ()).expect("a load that can be made").tally
}

fn requests(count: u32) -> Work {
    Work::Requests { path: "/".to_owned(), count, body_bytes: Some(6), pattern: None }
}

#[test]
fn full_handshakes_are_batched() {
    let (authority, rsa) = support::localhost();
    let ecdsa = authority.issue_with("localhost", Kind::P256);
    let identities = [&rsa, &ecdsa];
    let Some(server) = nginx(1, &identities, "ssl_ecdh_curve X25519:P-256;") else { return };
    for (group, work) in [(Group::X25519, Work::Handshake), (Group::Secp256r1, requests(2))] {
        let tally = shake_hands(server.port, &identities, group, (40, 400), work);
        assert!(tally.errors.is_empty(), "{group:?}: {:?}", tally.errors);
        assert!(tally.full >= 400, "{group:?}: {tally:?}");
    }
    let counters = server.counters();
    counters.assert_batched();
    assert_eq!(counters.jobs_synchronous, 0, "{counters:?}");
    // What comes over TCP is not mistaken for it.
    load(server.port, &rsa, widelane_loadgen::TlsVersion::Tls13, 8, 40);
}

#[test]
fn a_lone_handshake_is_not_kept_waiting() {
    let (_authority, identity) = support::localhost();
    let Some(server) = nginx(1, &[&identity], "") else { return };
    let tally = shake_hands(server.port, &[&identity], Group::X25519, (1, 20), Work::Handshake);
    assert!(tally.errors.is_empty(), "{:?}", tally.errors);
    // Were it left to the next datagram, that would be the one which the client sends again.
    let slowest = tally.latency_ns.max();
    assert!(slowest < 200_000_000, "{slowest} ns");
    server.counters().assert_parked(None);
}

#[test]
fn clients_show_certificates() {
    let (authority, identity) = support::localhost();
    let (root, client) = authority.issue_chain("client", Kind::P256);
    let more = format!(
        "ssl_verify_client on; ssl_client_certificate {}; ssl_verify_depth 3;",
        root.display()
    );
    let Some(server) = nginx(1, &[&identity], &more) else { return };
    let shown = Shown::read(&client.certificate, &client.key).expect("a chain and its key");
    let load = widelane_loadgen::Load {
        protocol: Some("h3".to_owned()),
        shown: Some(shown),
        connections: 16,
        handshakes_max: 160,
        work: requests(1),
        ..load_of(server.port, &[&identity])
    };
    let tally = run(&load, &AtomicBool::new(false), |_| ()).expect("a load that can be made").tally;
    assert!(tally.errors.is_empty(), "{:?}", tally.errors);
    assert!(tally.full >= 160, "{tally:?}");
    server.counters().assert_batched();
}

#[test]
fn addresses_are_validated() {
    let (_authority, identity) = support::localhost();
    let Some(server) = nginx(2, &[&identity], "quic_retry on;") else { return };
    let tally = shake_hands(server.port, &[&identity], Group::X25519, (40, 200), requests(1));
    assert!(tally.errors.is_empty(), "{:?}", tally.errors);
    server.counters().assert_parked(None);
}

#[test]
fn lost_datagrams_are_sent_again() {
    let (_authority, identity) = support::localhost();
    let Some(server) = nginx(1, &[&identity], "") else { return };
    let relay = Relay::begin(server.port, Way { drop_each: Some(12), move_after: None });
    let tally = shake_hands(relay.port, &[&identity], Group::X25519, (40, 200), requests(3));
    assert!(tally.errors.is_empty(), "{:?}", tally.errors);
    server.counters().assert_batched();
}

#[test]
fn clients_change_their_port() {
    let (_authority, identity) = support::localhost();
    let Some(server) = nginx(1, &[&identity], "") else { return };
    // Behind their handshakes: before, QUIC knows no change (RFC 9000, 9).
    let relay = Relay::begin(server.port, Way { drop_each: None, move_after: Some(6) });
    let tally = shake_hands(relay.port, &[&identity], Group::X25519, (20, 60), requests(20));
    assert!(tally.errors.is_empty(), "{:?}", tally.errors);
    assert!(tally.answers >= 1_000, "{tally:?}");
    server.counters().assert_batched();
}

#[test]
fn reloads_and_ends_in_the_middle_of_handshakes() {
    let (_authority, identity) = support::localhost();
    let Some(server) = nginx(2, &[&identity], "") else { return };
    let (port, reloads) = (server.port, 4);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..reloads {
                thread::sleep(Duration::from_millis(150));
                server.signal(libc::SIGHUP);
            }
        });
        // Datagrams of a connection go astray where its worker's socket is taken over: natively,
        // too, such a client has to try again.
        shake_hands(port, &[&identity], Group::X25519, (40, 2_000), Work::Handshake);
    });
    let tally = shake_hands(port, &[&identity], Group::X25519, (40, 200), Work::Handshake);
    assert!(tally.full >= 200, "{tally:?}");
    server.counters().assert_batched();
    // At once: connections are freed while their handshakes are parked.
    let dying = thread::scope(|scope| {
        let clients = scope.spawn(|| {
            let load = widelane_loadgen::Load {
                protocol: Some("h3".to_owned()),
                connections: 64,
                handshakes_max: 100_000,
                patience: Duration::from_millis(300),
                window: Duration::from_secs(3),
                ..load_of(port, &[&identity])
            };
            run(&load, &AtomicBool::new(false), |_| ()).map(|_| ())
        });
        thread::sleep(Duration::from_millis(400));
        server.signal(libc::SIGTERM);
        clients.join().expect("clients")
    });
    // They find that nobody listens any more, or hear nothing.
    assert!(dying.is_err(), "the server goes on");
    assert!(!server.output().contains(FAULT), "{}", server.output());
}

/// What a relay does to datagrams.
#[derive(Clone, Copy)]
struct Way {
    /// Loses one of so many, in either direction.
    drop_each: Option<u32>,
    /// Sends what a client sends after so many datagrams from another port.
    move_after: Option<u32>,
}

/// Passes datagrams between clients and a server, as a network does.
struct Relay {
    port: u16,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A client, as the server sees it.
struct Guise {
    sockets: Vec<UdpSocket>,
    sent: u32,
}

impl Relay {
    fn begin(server: u16, way: Way) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.set_read_timeout(Some(Duration::from_micros(200))).expect("a socket of ours");
        let port = socket.local_addr().expect("a bound socket").port();
        let end = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&end);
        let thread = thread::spawn(move || relay(&socket, server, way, &is_over));
        Relay { port, end, thread: Some(thread) }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

fn relay(socket: &UdpSocket, server: u16, way: Way, is_over: &AtomicBool) {
    let connect = || {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.connect(("127.0.0.1", server)).expect("loopback");
        socket.set_nonblocking(true).expect("a socket of ours");
        socket
    };
    let mut guises: HashMap<SocketAddr, Guise> = HashMap::new();
    let mut passed = 0_u32;
    let mut is_lost = || {
        passed += 1;
        way.drop_each.is_some_and(|each| passed.is_multiple_of(each))
    };
    let mut datagram = [0; 2048];
    while !is_over.load(Ordering::Relaxed) {
        while let Ok((count, client)) = socket.recv_from(&mut datagram) {
            let begin = || Guise { sockets: vec![connect()], sent: 0 };
            let guise = guises.entry(client).or_insert_with(begin);
            if way.move_after == Some(guise.sent) {
                guise.sockets.push(connect());
            }
            guise.sent += 1;
            if !is_lost() {
                let socket = guise.sockets.last().expect("there is always one");
                let _ = socket.send(&datagram[..count]);
            }
        }
        for (client, guise) in &guises {
            for from_server in &guise.sockets {
                while let Ok(count) = from_server.recv(&mut datagram) {
                    if !is_lost() {
                        let _ = socket.send_to(&datagram[..count], client);
                    }
                }
            }
        }
    }
}
