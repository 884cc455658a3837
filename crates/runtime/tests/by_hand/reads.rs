//! Handshakes that a program leaves to the functions that read and write, as lighttpd does.
//!
//! Each test runs this program again under `widelane run`, with the ignored test of the scenario.
#![allow(unsafe_code, reason = "libssl by its C interface")]

use std::ffi::{c_int, c_void};
use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::thread;

use foreign_types::ForeignTypeRef;
use openssl::error::ErrorStack;
use openssl::ssl::{
    HandshakeError, MidHandshakeSslStream, Ssl, SslContext, SslMethod, SslStream, SslVerifyMode,
    SslVersion,
};
use openssl_sys as sys;

use crate::support::by_hand::{
    Connection, Epoll, accelerated_and_native, accelerated_with_lanes, context, context_builder,
    file,
};

#[test]
fn whatever_is_called_first_parks() {
    let Some(counters) = accelerated_with_lanes("reads::scenario_first") else { return };
    let functions = Function::ALL.len() as u64;
    assert_eq!(counters.handshakes, 2 * functions, "{counters:?}");
    assert_eq!((counters.jobs_cancelled, counters.parked()), (functions, functions));
    assert_eq!(counters.jobs_synchronous, 0, "{counters:?}");
}

#[test]
fn data_follow_a_handshake_as_natively() {
    let ([accelerated, native], counters) = accelerated_and_native("reads::scenario_data");
    assert_eq!(accelerated, native);
    // The handshakes after the first are the program's own business.
    assert_eq!(counters.handshakes, 2, "{counters:?}");
    counters.assert_parked(None);
}

#[test]
fn what_cannot_be_read_is_told_as_natively() {
    let ([accelerated, native], _) = accelerated_and_native("reads::scenario_refused");
    assert_eq!(accelerated, native);
    assert_eq!(native.lines().count(), 2 * Function::ALL.len());
}

#[test]
fn a_connection_within_a_bio_never_parks() {
    let Some(counters) = accelerated_with_lanes("reads::scenario_bio") else { return };
    assert_eq!((counters.handshakes, counters.parked()), (0, 0), "{counters:?}");
}

#[test]
fn a_cookie_is_answered_as_natively() {
    let ([accelerated, native], counters) = accelerated_and_native("reads::scenario_stateless");
    assert_eq!(accelerated, native);
    assert_eq!(native, "0 -1 1 1");
    assert_eq!(counters.parked(), 0, "{counters:?}");
}

unsafe extern "C" {
    fn BIO_f_ssl() -> *const sys::BIO_METHOD;
    fn SSL_peek_ex(ssl: *mut sys::SSL, buffer: *mut c_void, size: usize, n: *mut usize) -> c_int;
    fn SSL_renegotiate(ssl: *mut sys::SSL) -> c_int;
    fn SSL_set_fd(ssl: *mut sys::SSL, descriptor: c_int) -> c_int;
    fn SSL_set_shutdown(ssl: *mut sys::SSL, mode: c_int);
    fn SSL_stateless(ssl: *mut sys::SSL) -> c_int;
}

/// A function that handshakes before it does anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    Read,
    ReadEx,
    Peek,
    PeekEx,
    Write,
    WriteEx,
}

impl Function {
    pub const ALL: [Self; 6] =
        [Self::Read, Self::ReadEx, Self::Peek, Self::PeekEx, Self::Write, Self::WriteEx];

    /// Calls it; what it has read, its result, and what `SSL_get_error` says of that.
    pub fn call(self, ssl: *mut sys::SSL) -> (String, c_int, c_int) {
        let (mut buffer, mut bytes) = ([0_u8; 16], 0);
        let (place, word) = (buffer.as_mut_ptr().cast::<c_void>(), c"word".as_ptr().cast());
        let result = match self {
            // SAFETY: a live SSL, and room for 16 bytes.
            Self::Read => unsafe { sys::SSL_read(ssl, place, 16) },
            // SAFETY: as above.
            Self::ReadEx => unsafe { sys::SSL_read_ex(ssl, place, 16, &mut bytes) },
            // SAFETY: as above.
            Self::Peek => unsafe { sys::SSL_peek(ssl, place, 16) },
            // SAFETY: as above.
            Self::PeekEx => unsafe { SSL_peek_ex(ssl, place, 16, &mut bytes) },
            // SAFETY: a live SSL, and four bytes.
            Self::Write => unsafe { sys::SSL_write(ssl, word, 4) },
            // SAFETY: as above.
            Self::WriteEx => unsafe { sys::SSL_write_ex(ssl, word, 4, &mut bytes) },
        };
        // SAFETY: a live SSL, whose last call this thread has made.
        let error = unsafe { sys::SSL_get_error(ssl, result) };
        (String::from_utf8_lossy(&buffer).trim_end_matches('\0').to_owned(), result, error)
    }

    /// What it returns if it can do nothing.
    fn failure(self) -> c_int {
        match self {
            Self::Read | Self::Peek | Self::Write => -1,
            Self::ReadEx | Self::PeekEx | Self::WriteEx => 0,
        }
    }
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_first() {
    let context = context();
    for function in Function::ALL {
        for is_freed in [true, false] {
            // A thread that has met nobody would not wait again.
            let context = context.clone();
            let thread = thread::spawn(move || first(function, is_freed, &context));
            thread.join().expect("a thread that handshakes");
        }
    }
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_bio() {
    const BIO_C_SET_SSL: c_int = 109;
    const BIO_C_DO_STATE_MACHINE: c_int = 101;
    let (epoll, connection) = (Epoll::new(), Connection::new(&context(), false));
    epoll.add(descriptor(&connection), libc::EPOLLIN);
    assert_eq!(epoll.ready(0), 1);
    // SAFETY: libssl's constant table.
    let kind = unsafe { BIO_f_ssl() };
    // SAFETY: as above.
    let bio = unsafe { sys::BIO_new(kind) };
    // SAFETY: a BIO for connections, and one.
    unsafe { sys::BIO_ctrl(bio, BIO_C_SET_SSL, 1, connection.ssl.cast()) };
    // SAFETY: a live BIO.
    let result = unsafe { sys::BIO_ctrl(bio, BIO_C_DO_STATE_MACHINE, 0, std::ptr::null_mut()) };
    assert_eq!(result, -1, "it waits for its client");
    assert!(connection.sent() > 0, "it has answered at once");
    // SAFETY: a live BIO, and four bytes.
    assert_eq!(unsafe { sys::BIO_write(bio, c"word".as_ptr().cast(), 4) }, -1);
    assert_eq!(connection.sent(), 0, "nothing is said before the end of the handshake");
    // SAFETY: frees the connection as well.
    unsafe { sys::BIO_free_all(bio) };
}

/// A HelloRetryRequest with a cookie, and the handshake behind it: what each call returns.
#[test]
#[ignore = "runs under `accelerated_and_native`"]
fn scenario_stateless() {
    let mut context = context_builder();
    context.set_stateless_cookie_generate_cb(|_, cookie| {
        cookie[..4].copy_from_slice(b"word");
        Ok(4)
    });
    context.set_stateless_cookie_verify_cb(|_, cookie| cookie == b"word");
    let (epoll, context) = (Epoll::new(), context.build());
    let (server, client) = Connection::with_client(&context);
    epoll.add(descriptor(&server), libc::EPOLLIN);
    let mut client = Client::begin(client, SslVersion::TLS1_3);
    let mut answers = String::new();
    // Between the client's hellos stands its ChangeCipherSpec.
    for _ in 0..3 {
        epoll.wait(-1).expect("a record of the client");
        // SAFETY: a live SSL.
        let result = unsafe { SSL_stateless(server.ssl) };
        let _ = write!(answers, "{result} ");
        client.go_on(&mut &[][..]);
    }
    epoll.wait(-1).expect("the end of the client's handshake");
    // SAFETY: as above.
    let result = unsafe { sys::SSL_accept(server.ssl) };
    let _ = write!(answers, "{result}");
    server.free();
    std::fs::write(file("answers"), answers).expect("a write");
}

fn first(function: Function, is_freed: bool, context: &SslContext) {
    let (epoll, connection) = (Epoll::new(), Connection::new(context, false));
    epoll.add(descriptor(&connection), libc::EPOLLIN);
    let wants_to_read = (String::new(), function.failure(), sys::SSL_ERROR_WANT_READ);
    assert_eq!(function.call(connection.ssl), wants_to_read, "{function:?}");
    assert_eq!(connection.sent(), 0, "{function:?} parks");
    while !is_freed && connection.sent() == 0 {
        epoll.wait(-1).expect("an event");
        assert_eq!(function.call(connection.ssl), wants_to_read, "{function:?}");
    }
    connection.free();
    assert_eq!(connection.sent(), 0, "nothing follows");
}

/// A client, wherever its handshake stands.
pub enum Client {
    Handshaking(MidHandshakeSslStream<UnixStream>),
    Connected(SslStream<UnixStream>),
    Moving,
}

impl Client {
    pub fn begin(stream: UnixStream, version: SslVersion) -> Self {
        let mut context = SslContext::builder(SslMethod::tls_client()).expect("OpenSSL");
        context.set_verify(SslVerifyMode::NONE);
        context.set_min_proto_version(Some(version)).expect("a version");
        context.set_max_proto_version(Some(version)).expect("a version");
        stream.set_nonblocking(true).expect("our own socket");
        Self::of(Ssl::new(&context.build()).expect("a client").connect(stream))
    }

    fn of(outcome: Result<SslStream<UnixStream>, HandshakeError<UnixStream>>) -> Self {
        match outcome {
            Ok(stream) => Self::Connected(stream),
            Err(HandshakeError::WouldBlock(handshake)) => Self::Handshaking(handshake),
            Err(error) => panic!("a client fails: {error}"),
        }
    }

    /// Goes on with its handshake, or says `word` and reads what the server says.
    pub fn go_on(&mut self, word: &mut &[u8]) -> String {
        *self = match std::mem::replace(self, Self::Moving) {
            Self::Handshaking(handshake) => Self::of(handshake.handshake()),
            other => other,
        };
        let Self::Connected(stream) = self else { return String::new() };
        if !word.is_empty() {
            stream.write_all(word).expect("room");
            *word = &[];
        }
        let mut buffer = [0; 16];
        match stream.read(&mut buffer) {
            Ok(bytes) => String::from_utf8_lossy(&buffer[..bytes]).into_owned(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => String::new(),
            Err(error) => panic!("a client cannot read: {error}"),
        }
    }
}

/// A server's connection, its client, and the thread's epoll set.
struct Pair {
    server: Connection,
    client: Client,
    epoll: Epoll,
}

/// Calls until a function has done what it is for; what both sides have heard.
fn exchange(function: Function, pair: &mut Pair, word: &str) -> String {
    let Pair { server, client, epoll } = pair;
    let mut word = word.as_bytes();
    for _ in 0..100 {
        epoll.wait(1);
        let heard = client.go_on(&mut word);
        let (read, result, error) = function.call(server.ssl);
        match error {
            sys::SSL_ERROR_NONE => return format!("{read} {result} {heard}"),
            sys::SSL_ERROR_WANT_READ | sys::SSL_ERROR_WANT_WRITE => {}
            other => panic!("{function:?}: {result}, {other}, {}", ErrorStack::get()),
        }
    }
    panic!("{function:?} never ends");
}

#[test]
#[ignore = "runs under `accelerated_and_native`"]
fn scenario_data() {
    let context = context();
    let mut answers = String::new();
    for version in [SslVersion::TLS1_2, SslVersion::TLS1_3] {
        let epoll = Epoll::new();
        let (server, client) = Connection::with_client(&context);
        epoll.add(descriptor(&server), libc::EPOLLIN);
        let mut pair = Pair { server, client: Client::begin(client, version), epoll };
        let calls = [(Function::Peek, "first"), (Function::Read, ""), (Function::WriteEx, "")];
        for (function, word) in calls {
            let said = exchange(function, &mut pair, word);
            let _ = writeln!(answers, "{version:?} {function:?}: {said}");
        }
        let _ = writeln!(answers, "{}", pair.client.go_on(&mut &[][..]));
        if version == SslVersion::TLS1_2 {
            // A later handshake, and a word that the client may say in the middle of it.
            // SAFETY: a live SSL.
            assert_eq!(unsafe { SSL_renegotiate(pair.server.ssl) }, 1);
            for word in ["second", "third"] {
                let said = exchange(Function::Read, &mut pair, word);
                let _ = writeln!(answers, "again: {said}");
            }
        }
        pair.server.free();
    }
    std::fs::write(file("answers"), answers).expect("a write");
}

/// Reads and writes where libssl refuses to handshake: of whom nobody has said that it is a
/// server, and who has said goodbye already.
#[test]
#[ignore = "runs under `accelerated_and_native`"]
fn scenario_refused() {
    let (context, _epoll) = (context(), Epoll::new());
    let mut answers = String::new();
    for function in Function::ALL {
        for says_goodbye in [false, true] {
            let connection = Connection::new(&context, false);
            // SAFETY: a live context.
            let bare = unsafe { sys::SSL_new(context.as_ptr()) };
            let ssl = if says_goodbye { connection.ssl } else { bare };
            if says_goodbye {
                // SAFETY: a live SSL; said and heard.
                unsafe { SSL_set_shutdown(ssl, 3) };
            } else {
                // SAFETY: both live; the SSL takes a BIO of its own for the socket.
                let done = unsafe { SSL_set_fd(ssl, descriptor(&connection)) };
                assert_eq!(done, 1);
            }
            let _ = writeln!(answers, "{function:?}: {:?} {:?}", function.call(ssl), reasons());
            // SAFETY: freed once.
            unsafe { sys::SSL_free(bare) };
            connection.free();
        }
    }
    std::fs::write(file("answers"), answers).expect("a write");
}

fn descriptor(connection: &Connection) -> c_int {
    connection.socket.as_raw_fd()
}

/// What is in the error queue.
fn reasons() -> Vec<u64> {
    ErrorStack::get().errors().iter().map(openssl::error::Error::code).collect()
}
