//! HTTP/3 against a QUIC server in this process.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use openssl::nid::Nid;
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{Connection, ConnectionHandle, DatagramEvent, Endpoint};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use widelane_loadgen::{
    Cipher, Course, ErrorKind, GivenUp, Group, LoadError, Mix, Pace, Plan, Resume, Tally,
    TlsVersion, Trust, Weighted, Work, drive,
};

use crate::support::{certificate, elliptic};

/// A server that sends so many tickets after each handshake.
fn serve(tickets: usize) -> SocketAddr {
    serve_by(aws_lc_rs::default_provider(), tickets)
}

fn serve_by(provider: CryptoProvider, tickets: usize) -> SocketAddr {
    let key = elliptic(Nid::X9_62_PRIME256V1);
    let private = PrivatePkcs8KeyDer::from(key.private_key_to_pkcs8().unwrap());
    let chain = vec![CertificateDer::from(certificate(&key))];
    let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, private.into())
        .unwrap();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    tls.send_tls13_tickets = tickets;
    let crypto = Arc::new(QuicServerConfig::try_from(tls).unwrap());
    let config = Arc::new(quinn_proto::ServerConfig::with_crypto(crypto));
    let endpoint = Endpoint::new(Arc::default(), Some(config), false, None);
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || attend(&socket, endpoint));
    address
}

fn attend(socket: &UdpSocket, mut endpoint: Endpoint) {
    let mut connections: HashMap<ConnectionHandle, Connection> = HashMap::new();
    let (mut datagram, mut room) = ([0; 2048], Vec::new());
    loop {
        room.clear();
        let received = socket.recv_from(&mut datagram);
        let now = Instant::now();
        let event = received.ok().and_then(|(count, client)| {
            let bytes = BytesMut::from(&datagram[..count]);
            endpoint.handle(now, client, None, None, bytes, &mut room)
        });
        match event {
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = endpoint.accept(incoming, now, &mut room, None);
                connections.extend(accepted.ok());
            }
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                connections.get_mut(&handle).unwrap().handle_event(event);
            }
            Some(DatagramEvent::Response(_)) | None => {}
        }
        connections.retain(|handle, connection| {
            if connection.poll_timeout().is_some_and(|at| at <= now) {
                connection.handle_timeout(now);
            }
            while connection.poll().is_some() {}
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(event) = endpoint.handle_event(*handle, event) {
                    connection.handle_event(event);
                }
            }
            room.clear();
            while let Some(sent) = connection.poll_transmit(now, 1, &mut room) {
                let _ = socket.send_to(&room[..sent.size], sent.destination);
                room.clear();
            }
            !connection.is_drained()
        });
    }
}

/// What four connections count in two seconds that offer to resume sessions.
fn counted(target: SocketAddr) -> Tally {
    counted_as(target, Group::X25519, Resume::Ticket).unwrap()
}

fn counted_as(target: SocketAddr, group: Group, resume: Resume) -> Result<Tally, GivenUp> {
    let mix = Mix::alike(TlsVersion::Tls13, Cipher::Aes256Gcm, group, "localhost");
    let plan = Plan {
        target,
        sources: Vec::new(),
        trust: Trust::Anyone,
        mix: Mix {
            protocols: Weighted::only(Some("h3".to_owned())),
            resumption: Weighted::only(resume),
            ..mix
        },
        work: Work::Handshake,
        pace: Pace::Closed { connections: 4, ramp: Duration::ZERO },
        patience: Duration::from_secs(10),
        seed: 1,
    };
    let window = Duration::from_secs(2);
    let course = Course { threads: 1, cpus: Vec::new(), warm_up: Duration::ZERO, window };
    drive(&plan, &course, &AtomicBool::new(false), |_, _| ()).map(|outcome| outcome.tally)
}

#[test]
fn a_ticket_that_a_server_does_not_send_is_not_awaited_for_long() {
    let with = counted(serve(1));
    assert!(with.errors.is_empty() && with.resumed > 0, "{:?} {}", with.errors, with.resumed);
    let without = counted(serve(0));
    assert!(without.errors.is_empty(), "{:?}", without.errors);
    assert_eq!(without.resumed, 0);
    assert!(without.done >= 16, "{}", without.done);
}

#[test]
fn another_group_than_the_one_asked_for_is_an_error() {
    for resume in [Resume::Never, Resume::Ticket] {
        let hybrid = counted_as(serve(1), Group::X25519MlKem768, resume).unwrap();
        assert!(hybrid.errors.is_empty() && hybrid.full > 0, "{:?}", hybrid.errors);
        let kx_groups = vec![aws_lc_rs::kx_group::X25519];
        let provider = CryptoProvider { kx_groups, ..aws_lc_rs::default_provider() };
        let other = counted_as(serve_by(provider, 1), Group::X25519MlKem768, resume);
        let error = other.unwrap_err().error;
        assert!(matches!(error, LoadError::Failing { kind: ErrorKind::Group, .. }), "{error}");
    }
}
