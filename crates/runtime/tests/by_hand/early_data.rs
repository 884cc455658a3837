//! Early data of a handshake that is suspended, and tickets that a program asks for later.
//!
//! Each test runs this program again under `widelane run`, with the ignored test of the scenario.
#![allow(unsafe_code, reason = "libssl by its C interface")]

use std::ffi::c_int;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread;

use openssl::ssl::{
    Ssl, SslContext, SslMethod, SslSession, SslSessionCacheMode, SslStream, SslVerifyMode,
    SslVersion,
};
use openssl_sys as sys;

use crate::support::by_hand::{
    Connection, Epoll, accelerated_and_native, accelerated_with_lanes, early_context, file,
};

#[test]
fn early_data_of_a_suspended_handshake_are_told() {
    let Some(counters) = accelerated_with_lanes("early_data::scenario_early") else { return };
    assert_eq!((counters.handshakes, counters.jobs_cancelled), (2, 0), "{counters:?}");
}

#[test]
fn early_data_are_told_in_parts_to_whoever_has_little_room() {
    let Some(counters) = accelerated_with_lanes("early_data::scenario_in_parts") else { return };
    assert_eq!((counters.handshakes, counters.jobs_cancelled), (2, 0), "{counters:?}");
}

#[test]
fn a_ticket_that_is_asked_for_later_arrives() {
    let ([accelerated, native], _) = accelerated_and_native("early_data::scenario_later_ticket");
    assert_eq!(accelerated, native);
    assert_eq!(native, "3 tickets, then a word");
}

unsafe extern "C" {
    fn SSL_new_session_ticket(ssl: *mut sys::SSL) -> c_int;
}

/// The sessions that a client was given, as ASN.1: OpenSSL does not resume those of a client that
/// has ended.
type Sessions = Arc<Mutex<Vec<Vec<u8>>>>;

fn client_context(sessions: &Sessions) -> SslContext {
    let mut context = SslContext::builder(SslMethod::tls_client()).expect("OpenSSL");
    context.set_verify(SslVerifyMode::NONE);
    context.set_min_proto_version(Some(SslVersion::TLS1_3)).expect("a version");
    context.set_session_cache_mode(SslSessionCacheMode::CLIENT);
    let sessions = Arc::clone(sessions);
    context.set_new_session_callback(move |_, session| {
        sessions.lock().expect("one thread").push(session.to_der().expect("memory"));
    });
    context.build()
}

/// Makes a handshake; both ends of the connection.
fn connect(context: &SslContext, client: &SslContext) -> (Connection, SslStream<UnixStream>) {
    let epoll = Epoll::new();
    let (server, stream) = Connection::with_client(context);
    epoll.add(server.socket.as_raw_fd(), libc::EPOLLIN);
    stream.set_nonblocking(true).expect("our own socket");
    let mut client = SslStream::new(Ssl::new(client).expect("a client"), stream).expect("a client");
    let is_done = (0..100).any(|_| {
        let _ = client.connect();
        epoll.ready(1);
        server.handshake() == 1
    });
    assert!(is_done);
    (server, client)
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_early() {
    early(|_epoll| {
        // The program waits by other means than epoll: the handshake goes on by itself.
        // SAFETY: waits for no descriptor.
        unsafe { libc::poll(std::ptr::null_mut(), 0, 1) };
    });
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_in_parts() {
    early(|epoll| {
        while epoll.wait(0).is_some() {}
        epoll.wait(-1).expect("its turn, which it takes with little room");
    });
}

/// Early data of a handshake that is suspended, and executed when the program waits.
fn early(wait: impl Fn(&Epoll)) {
    let (context, sessions) = (early_context(), Sessions::default());
    let client_context = client_context(&sessions);
    // A thread that has met nobody would not wait again.
    let first = || {
        let (server, mut client) = connect(&context, &client_context);
        // A server takes back a session whose connection was not shut down.
        // SAFETY: a live SSL.
        unsafe { sys::SSL_shutdown(server.ssl) };
        assert_eq!(client.read(&mut [0; 16]).expect("the end"), 0);
        server.free();
    };
    thread::scope(|scope| scope.spawn(first).join()).expect("a handshake");
    let session = sessions.lock().expect("one thread").pop().expect("a ticket");
    let session = SslSession::from_der(&session).expect("a session");

    let epoll = Epoll::new();
    let (server, stream) = Connection::with_client(&context);
    epoll.add(server.socket.as_raw_fd(), libc::EPOLLIN | libc::EPOLLET);
    let mut ssl = Ssl::new(&client_context).expect("a client");
    // SAFETY: a session of the same context.
    unsafe { ssl.set_session(&session) }.expect("a session");
    ssl.set_connect_state();
    let mut client = SslStream::new(ssl, stream).expect("a client");
    assert_eq!(client.write_early_data(b"early").expect("it may"), 5);

    let read = |room: usize| {
        let (mut buffer, mut bytes) = ([0_u8; 16], 0);
        let place = buffer.as_mut_ptr().cast();
        // SAFETY: a live SSL, and room for as many bytes.
        let result = unsafe { sys::SSL_read_early_data(server.ssl, place, room, &mut bytes) };
        (result, buffer[..bytes].to_vec())
    };
    assert_eq!(read(16), (sys::SSL_READ_EARLY_DATA_ERROR, Vec::new()), "it is suspended");
    wait(&epoll);
    assert_eq!(read(2), (sys::SSL_READ_EARLY_DATA_SUCCESS, b"ea".to_vec()));
    assert_eq!(read(16), (sys::SSL_READ_EARLY_DATA_SUCCESS, b"rly".to_vec()));
    client.get_ref().set_nonblocking(true).expect("our own socket");
    let is_done = (0..100).any(|_| {
        let _ = client.connect();
        epoll.ready(1);
        read(16).0 == sys::SSL_READ_EARLY_DATA_FINISH
    });
    assert!(is_done);
    server.free();
}

#[test]
#[ignore = "runs under `accelerated_and_native`"]
fn scenario_later_ticket() {
    let (context, sessions) = (early_context(), Sessions::default());
    let (server, mut client) = connect(&context, &client_context(&sessions));
    // SAFETY: a live SSL.
    assert_eq!(unsafe { SSL_new_session_ticket(server.ssl) }, 1);
    assert_eq!(server.handshake(), 1);
    // SAFETY: a live SSL, and four bytes.
    assert_eq!(unsafe { sys::SSL_write(server.ssl, c"word".as_ptr().cast(), 4) }, 4);
    let mut word = [0; 4];
    let heard = match client.read(&mut word) {
        Ok(4) if word == *b"word" => "a word",
        Ok(_) => "something else",
        Err(_) => "nothing",
    };
    let count = sessions.lock().expect("one thread").len();
    let answers = format!("{count} tickets, then {heard}");
    std::fs::write(file("answers"), answers).expect("a write");
    server.free();
}
