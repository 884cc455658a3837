//! Programs that are told that a handshake can go on, and do not call for it at once; and those
//! that cannot be told.
//!
//! Each test runs this program again under `widelane run`, with the ignored test of the scenario.
#![allow(unsafe_code, reason = "libssl and epoll by their C interfaces")]

use std::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use openssl::ssl::{Ssl, SslContext, SslMethod, SslVersion};
use openssl_sys as sys;

use crate::ahead::kind_of_haproxy;
use crate::support::by_hand::{
    BIO_s_socket, Connection, DATA, Epoll, accelerated_with_lanes, context, file, ssl_over,
};

/// Tests by their scenarios, in which handshakes have to be parked.
macro_rules! scenarios {
    ($($test:ident: $scenario:literal;)*) => {
        $(
            #[test]
            fn $test() {
                let Some(counters) = accelerated_with_lanes(concat!("told::", $scenario)) else {
                    return;
                };
                assert!(counters.parked() > 0, "{counters:?}");
            }
        )*
    };
}

scenarios! {
    what_was_told_and_handed_over_goes_on: "scenario_handed_over";
    what_was_told_and_not_called_for_goes_on: "scenario_not_called_for";
    what_finds_no_room_among_events_goes_on: "scenario_no_room";
    what_was_registered_before_there_was_tls_goes_on: "scenario_registered_before";
    what_leaves_another_set_stays_in_its_own: "scenario_second_set";
    what_others_execute_by_themselves_goes_on: "scenario_filled_lanes";
}

#[test]
fn a_thread_that_only_polls_keeps_no_handshake() {
    for (scenario, kept) in [("only_polls", 0), ("haproxy_only_polls", 1)] {
        let Some(counters) = accelerated_with_lanes(&format!("told::scenario_{scenario}")) else {
            return;
        };
        assert_eq!(counters.handshakes, kept, "{scenario}: {counters:?}");
    }
}

/// An `SSL` that another thread calls for.
struct Lent(*mut sys::SSL);

// SAFETY: who lends it does not use it meanwhile.
unsafe impl Send for Lent {}

impl Lent {
    fn handshake(&self) -> c_int {
        // SAFETY: a live SSL.
        unsafe { sys::SSL_do_handshake(self.0) }
    }
}

/// Calls once for a connection, and waits for the event by which it can go on.
fn tell(ssl: &Lent, epoll: &Epoll) {
    assert_eq!(ssl.handshake(), -1);
    assert_eq!(epoll.wait(-1), Some(libc::EPOLLIN.cast_unsigned()));
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_handed_over() {
    let context = context();
    for ends in [false, true] {
        let connection = Connection::new(&context, false);
        let (lent, descriptor) = (Lent(connection.ssl), connection.socket.as_raw_fd());
        let ((told, is_told), (go, goes)) = (channel(), channel());
        let thread = thread::spawn(move || {
            let epoll = Epoll::new();
            epoll.add(descriptor, libc::EPOLLIN | libc::EPOLLET);
            tell(&lent, &epoll);
            epoll.remove(descriptor);
            told.send(()).expect("somebody waits");
            goes.recv().expect("a word");
            if !ends {
                assert_eq!(epoll.wait(1), None);
            }
        });
        is_told.recv().expect("it is told");
        assert_eq!((connection.handshake(), connection.sent()), (-1, 0), "not now");
        go.send(()).expect("somebody waits");
        thread.join().expect("a thread that sleeps or ends");
        connection.assert_went_on();
        connection.free();
    }
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_not_called_for() {
    let (context, epoll) = (context(), Epoll::new());
    for timeout in [0, 1] {
        // As long as no event has come an operation waits.
        assert_eq!(epoll.wait(1), None);
        let connection = Connection::new(&context, false);
        epoll.add(connection.socket.as_raw_fd(), libc::EPOLLIN);
        tell(&Lent(connection.ssl), &epoll);
        assert_eq!(connection.sent(), 0, "it was told to call");
        assert_eq!(epoll.wait(timeout), None, "its client has said nothing");
        assert!(connection.sent() > 1000, "it went on");
        connection.free();
    }
}

/// A descriptor that is always ready, in an epoll set, which so never has nothing else to do.
struct Bustle(#[allow(dead_code, reason = "keeps the descriptor open")] OwnedFd);

impl Bustle {
    fn in_set(epoll: &Epoll) -> Self {
        // SAFETY: makes a descriptor.
        let descriptor = unsafe { libc::eventfd(1, 0) };
        epoll.add_with(descriptor, libc::EPOLLIN, !DATA);
        // SAFETY: made above, and nobody else's.
        Self(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }
}

/// Whether the connection is among the events that a wait brings.
fn is_told(epoll: &Epoll, room: c_int) -> bool {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 4];
    // SAFETY: there is room for four, and `room` is no more.
    let count = unsafe { libc::epoll_wait(epoll.0, events.as_mut_ptr(), room, 100) };
    events[..usize::try_from(count).expect("no error")].iter().any(|event| event.u64 == DATA)
}

/// A server's side of a connection, and a thread that handshakes at the other.
///
/// By TLS 1.2, in which the client's last words lie there while the operation before waits.
fn with_client(context: &SslContext, socket: &UnixStream, client: UnixStream) -> Lent {
    // SAFETY: libcrypto's constant table.
    let ssl = ssl_over(unsafe { BIO_s_socket() }, context, socket.as_raw_fd());
    thread::spawn(move || {
        let mut context = SslContext::builder(SslMethod::tls_client()).expect("OpenSSL");
        context.set_max_proto_version(Some(SslVersion::TLS1_2)).expect("a version");
        let client_ssl = Ssl::new(&context.build()).expect("a client");
        let connected = client_ssl.connect(client);
        // The server has nothing to hear after that.
        std::mem::forget(connected);
    });
    Lent(ssl)
}

/// Two ends of a connection, the first of which does not block.
fn ends() -> (UnixStream, UnixStream) {
    let (socket, client) = UnixStream::pair().expect("two sockets");
    socket.set_nonblocking(true).expect("our own socket");
    (socket, client)
}

/// Calls for a connection whenever it is told to, and for no other reason, until it is done; does
/// something after each call.
fn serve(epoll: &Epoll, room: c_int, ssl: Lent, then: impl Fn()) {
    let begin = Instant::now();
    while !(is_told(epoll, room) && ssl.handshake() == 1) {
        then();
        assert!(begin.elapsed() < Duration::from_secs(10), "the handshake hangs");
    }
    // SAFETY: freed once.
    unsafe { sys::SSL_free(ssl.0) };
}

const EDGES: c_int = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET;

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_no_room() {
    let (context, epoll) = (context(), Epoll::new());
    let _bustle = Bustle::in_set(&epoll);
    for mode in [EDGES, libc::EPOLLIN | libc::EPOLLET, libc::EPOLLIN] {
        let (socket, client) = ends();
        let ssl = with_client(&context, &socket, client);
        epoll.add(socket.as_raw_fd(), mode);
        serve(&epoll, 1, ssl, || ());
    }
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_registered_before() {
    // The provider comes with the program's first context.
    let epoll = Epoll::new();
    let _bustle = Bustle::in_set(&epoll);
    let (socket, client) = ends();
    epoll.add(socket.as_raw_fd(), EDGES);
    let ssl = with_client(&context(), &socket, client);
    serve(&epoll, 4, ssl, || ());
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_second_set() {
    let (context, second, epoll) = (context(), Epoll::new(), Epoll::new());
    let _bustle = Bustle::in_set(&epoll);
    let (socket, client) = ends();
    epoll.add(socket.as_raw_fd(), EDGES);
    let ssl = with_client(&context, &socket, client);
    let descriptor: RawFd = socket.as_raw_fd();
    serve(&epoll, 4, ssl, || {
        second.add(descriptor, libc::EPOLLIN);
        second.remove(descriptor);
    });
}

/// More connections than any room has lanes.
const CONNECTIONS_MAX: usize = 17;

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_filled_lanes() {
    let (context, epoll) = (context(), Epoll::new());
    let hello = std::fs::read(file("hello-of-1.3")).expect("captured");
    // SAFETY: libcrypto's constant table.
    let kind = unsafe { BIO_s_socket() };
    for count in 1..CONNECTIONS_MAX {
        let connections: Vec<_> =
            (0..count).map(|_| Connection::silent(kind, &context, false)).collect();
        for connection in &connections {
            std::io::Write::write_all(&mut &connection.client, &hello).expect("room");
            assert_eq!(connection.handshake(), -1);
        }
        // Nobody is told of them: with their key exchanges they go on to their signatures.
        assert_eq!(epoll.ready(20), 0);
        let silent = connections.iter().filter(|connection| connection.sent() < 1_000).count();
        assert_eq!(silent, 0, "of {count} connections");
        connections.iter().for_each(Connection::free);
    }
}

/// A thread that has looked into an epoll set, and never slept there: it may have done so for
/// another thread, and so never look again.
fn only_polls(kind: *const sys::BIO_METHOD) -> bool {
    let context = context();
    let connection = Connection::over(kind, &context, false);
    let epoll = Epoll::unused();
    (0..10).for_each(|_| assert_eq!(epoll.ready(0), 0));
    let has_parked = connection.parks();
    connection.free();
    has_parked
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_only_polls() {
    // SAFETY: libcrypto's constant table.
    assert!(!only_polls(unsafe { BIO_s_socket() }));
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_haproxy_only_polls() {
    assert!(only_polls(kind_of_haproxy()));
}
