//! Clients that show certificates: what the servers verify of them is verified in batches, and of
//! their chains once.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;

use openssl::ssl::{Ssl, SslContext, SslFiletype, SslMethod, SslVersion};
use openssl::x509::X509;
use widelane_bridge::counters::OperationKind;
use widelane_testkit::rooms::has_lanes_of_curves;

use crate::support;
use crate::support::authority::{Authority, Identity, Kind};
use crate::support::clients::{REQUEST, Together};
use crate::support::counters::Sums;
use crate::support::server::Server;

const VERSIONS: [SslVersion; 2] = [SslVersion::TLS1_2, SslVersion::TLS1_3];

/// Clients at once, and handshakes of each.
const CLIENTS: usize = 16;
const HANDSHAKES: usize = 8;

/// Signatures of a chain.
const OF_CHAIN: u64 = 2;

/// An authority, a server's certificate, and a client's chain: leaf and intermediate, and the root
/// by which a server verifies it.
fn setting(kind: Kind) -> (Authority, Identity, Identity, PathBuf) {
    let (authority, identity) = support::localhost();
    let (root, client) = authority.issue_chain("client", kind);
    (authority, identity, client, root)
}

fn haproxy(authority: &Authority, identity: &Identity, root: &Path, more: &str) -> Server {
    // Further settings stand behind the file on the same line of the configuration.
    let pem = authority.bundle(identity);
    let settings = format!("{} ca-file {} verify required {more}", pem.display(), root.display());
    Server::haproxy("  nbthread 2\n", Path::new(&settings), &["-db"])
}

fn nginx(identity: &Identity, root: &Path) -> Server {
    Server::nginx(
        1,
        &format!(
            "ssl_certificate {}; ssl_certificate_key {}; ssl_verify_client on; \
             ssl_client_certificate {}; ssl_verify_depth 3; location / {{ return 200 ok; }}",
            identity.certificate.display(),
            identity.key.display(),
            root.display()
        ),
    )
}

/// A client's side of all handshakes in a version, which resumes none.
fn client(identity: &Identity, version: SslVersion) -> SslContext {
    let mut context = SslContext::builder(SslMethod::tls_client()).expect("OpenSSL");
    context.set_min_proto_version(Some(version)).expect("a version");
    context.set_max_proto_version(Some(version)).expect("a version");
    context.set_certificate_chain_file(&identity.certificate).expect("a chain");
    context.set_private_key_file(&identity.key, SslFiletype::PEM).expect("its key");
    context.build()
}

/// What a server answers; nothing if it refuses.
fn ask(port: u16, context: &SslContext) -> Option<String> {
    let socket = TcpStream::connect(("127.0.0.1", port)).expect("a server that listens");
    let mut stream = Ssl::new(context).expect("a connection").connect(socket).ok()?;
    stream.write_all(REQUEST.as_bytes()).ok()?;
    let mut answer = String::new();
    match stream.read_to_string(&mut answer) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {}
        Err(_) => return None,
    }
    Some(answer).filter(|answer| answer.contains(" 200 "))
}

/// Has many clients shake hands at once, and demands that all succeed.
fn ask_often(port: u16, context: &SslContext) {
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                (0..HANDSHAKES).for_each(|_| assert!(ask(port, context).is_some(), "refused"));
            });
        }
    });
}

/// Each handshake has a signature of its client's; each of `threads` verifies the chain once.
fn assert_verified(counters: &Sums, kind: OperationKind, handshakes: u64, threads: u64) {
    let of_kind = &counters.by_kind[kind as usize];
    assert_eq!(counters.fallbacks, 0, "{counters:?}");
    if !has_lanes_of_curves() {
        assert_eq!(counters.parked_of(kind) + of_kind.synchronous + of_kind.delegated, 0);
        return;
    }
    assert_eq!(counters.parked_of(kind), handshakes, "{counters:?}");
    assert!(of_kind.batched > 0, "none was in a batch: {counters:?}");
    let of_chains = of_kind.synchronous + of_kind.delegated;
    assert!((OF_CHAIN..=OF_CHAIN * threads).contains(&of_chains), "{counters:?}");
}

#[test]
fn haproxy_verifies_in_batches() {
    for (kind, counted) in
        [(Kind::P256, OperationKind::P256Verify), (Kind::P384, OperationKind::P384Verify)]
    {
        let (authority, identity, shown, root) = setting(kind);
        let server = haproxy(&authority, &identity, &root, "");
        VERSIONS.into_iter().for_each(|version| ask_often(server.port, &client(&shown, version)));
        let handshakes = VERSIONS.len() * CLIENTS * HANDSHAKES;
        assert_verified(&server.counters(), counted, handshakes as u64, 2);
    }
}

#[test]
fn nginx_verifies_in_batches() {
    let (_authority, identity, shown, root) = setting(Kind::P256);
    let server = nginx(&identity, &root);
    VERSIONS.into_iter().for_each(|version| ask_often(server.port, &client(&shown, version)));
    let handshakes = VERSIONS.len() * CLIENTS * HANDSHAKES;
    assert_verified(&server.counters(), OperationKind::P256Verify, handshakes as u64, 1);
}

/// A chain of which the leaf's signature has a wrong bit.
fn spoiled(authority: &Authority, shown: &Identity) -> Identity {
    let pem = std::fs::read(&shown.certificate).expect("made");
    let mut chain = X509::stack_from_pem(&pem).expect("certificates");
    let mut leaf = chain[0].to_der().expect("a certificate");
    *leaf.last_mut().expect("a signature") ^= 1;
    chain[0] = X509::from_der(&leaf).expect("still a certificate");
    let text: Vec<u8> = chain.iter().flat_map(|one| one.to_pem().expect("text")).collect();
    let certificate = authority.path("spoiled.pem");
    std::fs::write(&certificate, text).expect("a short write");
    Identity { certificate, key: shown.key.clone() }
}

#[test]
fn wrong_signatures_are_refused_among_good_ones() {
    let (authority, identity, shown, root) = setting(Kind::P256);
    let wrong = spoiled(&authority, &shown);
    for server in [haproxy(&authority, &identity, &root, ""), nginx(&identity, &root)] {
        for version in VERSIONS {
            let contexts = [&shown, &wrong].map(|identity| client(identity, version));
            thread::scope(|scope| {
                for number in 0..CLIENTS {
                    let (is_wrong, port) = (number % 4 == 0, server.port);
                    let context = &contexts[usize::from(is_wrong)];
                    scope.spawn(move || {
                        for _ in 0..HANDSHAKES {
                            assert_eq!(ask(port, context).is_none(), is_wrong, "{version:?}");
                        }
                    });
                }
            });
        }
        let counters = server.counters();
        let of_kind = &counters.by_kind[OperationKind::P256Verify as usize];
        assert_eq!(of_kind.delegated > 0, has_lanes_of_curves(), "{counters:?}");
        assert_eq!(counters.fallbacks, 0, "{counters:?}");
    }
}

/// Sends all of a handshake's last flight, and hangs up.
fn hang_up(port: u16, context: &SslContext) {
    let socket = TcpStream::connect(("127.0.0.1", port)).expect("a server that listens");
    let late = Together { socket, written: Vec::new() };
    let mut stream = Ssl::new(context).expect("a connection").connect(late).expect("a handshake");
    let late = stream.get_mut();
    let last = std::mem::take(&mut late.written);
    // Either may find the server gone already.
    let _ = late.socket.write_all(&last);
    let _ = late.socket.shutdown(Shutdown::Both);
}

#[test]
fn clients_that_hang_up_while_their_certificates_are_verified_do_no_harm() {
    let (authority, identity, shown, root) = setting(Kind::P256);
    let context = client(&shown, SslVersion::TLS1_3);
    for server in [haproxy(&authority, &identity, &root, ""), nginx(&identity, &root)] {
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| (0..HANDSHAKES).for_each(|_| hang_up(server.port, &context)));
            }
        });
        let before = server.counters();
        ask_often(server.port, &context);
        let counters = server.counters();
        assert_eq!(counters.processes, before.processes, "nobody had to be replaced");
        assert_eq!(counters.fallbacks, 0, "{counters:?}");
        let verified = counters.parked_of(OperationKind::P256Verify);
        assert_eq!(verified > 0, has_lanes_of_curves(), "{counters:?}");
        eprintln!("{} operations were withdrawn", counters.jobs_cancelled);
    }
}
