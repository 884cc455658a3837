//! What HAProxy's connections do right behind their batch, before HAProxy calls for them, and what
//! passes through their BIO.
//!
//! Each test runs this program again under `widelane run`, with the ignored test of the scenario.
#![allow(unsafe_code, reason = "libssl and a BIO by their C interfaces")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use openssl::ssl::{Ssl, SslContext, SslMethod, SslSession, SslSessionCacheMode, SslVersion};
use openssl_sys as sys;

use crate::support::by_hand::{
    BIO_s_socket, Connection, Epoll, accelerated, accelerated_and_native, context, executed, file,
};

#[test]
fn handshakes_go_on_with_their_batch() {
    let counters = accelerated("ahead::scenario_go_on");
    counters.assert_parked(Some(counters.lanes as u64));
    assert_eq!(counters.jobs_cancelled, 0, "{counters:?}");
}

#[test]
fn programs_that_are_not_haproxy_are_waited_for() {
    let counters = accelerated("ahead::scenario_wait");
    counters.assert_parked(Some(counters.lanes as u64));
}

#[test]
fn what_ends_ahead_of_its_call_is_told_by_it() {
    let counters = accelerated("ahead::scenario_held");
    counters.assert_parked(Some(counters.lanes as u64));
}

#[test]
fn what_ends_ahead_of_its_call_may_be_freed() {
    let counters = accelerated("ahead::scenario_free_held");
    assert_eq!(counters.jobs_cancelled, 0, "its operation was done: {counters:?}");
}

#[test]
fn session_tickets_leave_together() {
    let (answers, counters) = accelerated_and_native("ahead::scenario_tickets");
    assert!(counters.handshakes > 0, "{counters:?}");
    let [accelerated, native] = answers;
    assert_eq!(native, "full: 3 writes, 2 tickets; resumed: 2 writes, 1 ticket");
    assert_eq!(accelerated, "full: 2 writes, 2 tickets; resumed: 2 writes, 1 ticket");
}

/// A function of a BIO's, whatever its signature: they are only copied.
pub(crate) type Function = *const c_void;

unsafe extern "C" {
    fn BIO_get_new_index() -> c_int;
    fn BIO_meth_get_create(method: *const sys::BIO_METHOD) -> Function;
    fn BIO_meth_get_ctrl(method: *const sys::BIO_METHOD) -> Function;
    fn BIO_meth_get_destroy(method: *const sys::BIO_METHOD) -> Function;
    fn BIO_meth_get_read(method: *const sys::BIO_METHOD) -> Function;
    fn BIO_meth_get_write(method: *const sys::BIO_METHOD) -> Function;
    fn BIO_meth_set_create(method: *mut sys::BIO_METHOD, function: Function) -> c_int;
    fn BIO_meth_set_ctrl(method: *mut sys::BIO_METHOD, function: Function) -> c_int;
    fn BIO_meth_set_destroy(method: *mut sys::BIO_METHOD, function: Function) -> c_int;
    fn BIO_meth_set_read(method: *mut sys::BIO_METHOD, function: Function) -> c_int;
    pub(crate) fn BIO_meth_set_write(method: *mut sys::BIO_METHOD, function: Function) -> c_int;
}

/// A BIO like HAProxy's: of a kind and name of its own, with the socket where libssl does not see
/// it.
pub(crate) fn kind_of_haproxy() -> *mut sys::BIO_METHOD {
    // SAFETY: no precondition.
    let index = unsafe { BIO_get_new_index() };
    // SAFETY: a C string that lives as long as the program; the table is never freed.
    let kind = unsafe { sys::BIO_meth_new(index, c"ha methods".as_ptr()) };
    // SAFETY: libcrypto's constant table.
    let socket = unsafe { BIO_s_socket() };
    macro_rules! copy {
        ($($get:ident, $set:ident;)*) => {
            $(
                // SAFETY: reads one entry of a live table.
                let function = unsafe { $get(socket) };
                // SAFETY: writes the same entry of the table just made.
                assert_eq!(unsafe { $set(kind, function) }, 1);
            )*
        };
    }
    copy! {
        BIO_meth_get_create, BIO_meth_set_create;
        BIO_meth_get_ctrl, BIO_meth_set_ctrl;
        BIO_meth_get_destroy, BIO_meth_set_destroy;
        BIO_meth_get_read, BIO_meth_set_read;
        BIO_meth_get_write, BIO_meth_set_write;
    }
    kind
}

/// The same kind, which sends as HAProxy's does.
pub(crate) fn sending_kind() -> *const sys::BIO_METHOD {
    let kind = kind_of_haproxy();
    // SAFETY: writes an entry of the table just made.
    assert_eq!(unsafe { BIO_meth_set_write(kind, send as Function) }, 1);
    kind
}

/// What is written to a BIO of [`sending_kind`]; nothing here waits for room in a socket.
pub(crate) extern "C" fn send(bio: *mut sys::BIO, data: *const c_char, bytes: c_int) -> c_int {
    let mut descriptor: c_int = -1;
    // SAFETY: a live BIO of a socket, which writes its descriptor.
    unsafe { sys::BIO_ctrl(bio, BIO_C_GET_FD, 0, (&raw mut descriptor).cast()) };
    let count = usize::try_from(bytes).expect("a length");
    // SAFETY: bytes of libssl's, of this length.
    let sent = unsafe { libc::send(descriptor, data.cast(), count, libc::MSG_NOSIGNAL) };
    sent as c_int
}

const BIO_C_GET_FD: c_int = 105;

/// Why the oldest entry of this thread's error queue is there; takes it out.
fn next_reason() -> Option<&'static CStr> {
    // SAFETY: no precondition.
    let told = unsafe { sys::ERR_get_error() };
    if told == 0 {
        return None;
    }
    // SAFETY: libcrypto's constant string, or null.
    let reason = unsafe { sys::ERR_reason_error_string(told) };
    assert!(!reason.is_null(), "{told:x}");
    // SAFETY: not null, a C string that stays.
    Some(unsafe { CStr::from_ptr(reason) })
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_go_on() {
    let (context, _epoll) = (context(), Epoll::new());
    let connections = executed(kind_of_haproxy(), &context, |_, _| ());
    let (last, others) = connections.split_last().expect("at least one");
    assert_eq!(last.error(-1), sys::SSL_ERROR_WANT_READ);
    for other in others {
        assert!(other.sent() > 1000, "its flight is on the wire before it is called for");
        assert_eq!(other.error(-1), sys::SSL_ERROR_WANT_READ, "as libssl itself has it now");
        assert_eq!(other.handshake(), -1);
        assert_eq!(other.error(-1), sys::SSL_ERROR_WANT_READ);
        assert_eq!(other.sent(), 0);
    }
    connections.iter().for_each(Connection::free);
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_wait() {
    let (context, _epoll) = (context(), Epoll::new());
    // SAFETY: libcrypto's constant table.
    let kind = unsafe { BIO_s_socket() };
    let connections = executed(kind, &context, |_, _| ());
    let (_, others) = connections.split_last().expect("at least one");
    for other in others {
        assert_eq!(other.sent(), 0, "nobody has called for it");
        other.assert_went_on();
    }
    connections.iter().for_each(Connection::free);
}

/// Connections, the first of which has a client that talks nonsense after its hello.
fn with_nonsense(context: &SslContext) -> Vec<Connection> {
    let connections = executed(kind_of_haproxy(), context, |index, connection| {
        if index == 0 {
            (&connection.client).write_all(&[b'?'; 64]).expect("room");
        }
    });
    // Where a batch is one operation, it fails in its own call.
    if connections.len() > 1 {
        assert_eq!(next_reason(), None, "the error is not that of the call at hand");
    }
    connections
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_held() {
    let (context, _epoll) = (context(), Epoll::new());
    let connections = with_nonsense(&context);
    let first = &connections[0];
    if connections.len() > 1 {
        assert!(first.sent() > 1000, "its flight, and an alert");
        assert_eq!(first.error(-1), sys::SSL_ERROR_WANT_WRITE, "it has not been told yet");
        assert_eq!(first.handshake(), -1);
    }
    assert_eq!(first.error(-1), sys::SSL_ERROR_SSL);
    let told: Vec<_> = std::iter::from_fn(next_reason).collect();
    // From OpenSSL 3.2 on libssl adds a line of its own to that of its record layer.
    let (reason, more) = told.split_first().expect("a reason");
    assert_eq!(*reason, c"wrong version number");
    assert!(more.iter().all(|reason| *reason == c"record layer failure"), "{more:?}");
    assert_eq!(first.handshake(), -1, "it has failed for good");
    connections.iter().for_each(Connection::free);
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_free_held() {
    let (context, _epoll) = (context(), Epoll::new());
    let connections = with_nonsense(&context);
    while next_reason().is_some() {}
    connections.iter().for_each(Connection::free);
    assert_eq!(next_reason(), None, "what nobody was told is gone");
}

type SocketWrite = extern "C" fn(*mut sys::BIO, *const c_char, c_int) -> c_int;

/// What a socket's BIO writes by.
static SOCKET_WRITE: OnceLock<SocketWrite> = OnceLock::new();

/// Calls of [`counted_write`].
static WRITES: AtomicUsize = AtomicUsize::new(0);

extern "C" fn counted_write(bio: *mut sys::BIO, data: *const c_char, bytes: c_int) -> c_int {
    WRITES.fetch_add(1, Ordering::Relaxed);
    SOCKET_WRITE.get().map_or(-1, |write| write(bio, data, bytes))
}

/// The same kind, which counts its writes.
fn counting_kind() -> *const sys::BIO_METHOD {
    let kind = kind_of_haproxy();
    // SAFETY: reads an entry of a live table.
    let write = unsafe { BIO_meth_get_write(kind) };
    // SAFETY: the signature of this entry, by OpenSSL's header.
    SOCKET_WRITE.get_or_init(|| unsafe { std::mem::transmute::<Function, SocketWrite>(write) });
    // SAFETY: writes an entry of the table just made.
    assert_eq!(unsafe { BIO_meth_set_write(kind, counted_write as Function) }, 1);
    kind
}

/// Handshakes as a client and reads a byte, and with it the tickets that come before: their number,
/// and a session of the last one.
fn client(socket: UnixStream, resumed: Option<SslSession>) -> (usize, SslSession) {
    let tickets = Arc::new(std::sync::Mutex::new(Vec::new()));
    let store = Arc::clone(&tickets);
    let mut context = SslContext::builder(SslMethod::tls_client()).expect("OpenSSL");
    context.set_min_proto_version(Some(SslVersion::TLS1_3)).expect("a version");
    // Sessions that a context stores end with it.
    let mode = SslSessionCacheMode::CLIENT | SslSessionCacheMode::NO_INTERNAL;
    context.set_session_cache_mode(mode);
    context.set_new_session_callback(move |_, session| {
        store.lock().expect("nobody panics").push(session);
    });
    let mut ssl = Ssl::new(&context.build()).expect("a connection");
    if let Some(session) = resumed {
        // SAFETY: the session is of a context that is alike.
        unsafe { ssl.set_session(&session) }.expect("a session of TLS 1.3");
    }
    let mut stream = ssl.connect(socket).expect("a handshake");
    stream.read_exact(&mut [0]).expect("the byte");
    // What is not shut down is not resumed.
    stream.shutdown().expect("an open connection");
    let mut tickets = tickets.lock().expect("nobody panics");
    (tickets.len(), tickets.pop().expect("a ticket"))
}

/// A handshake with `client`, and the writes that it took.
fn served(
    kind: *const sys::BIO_METHOD,
    context: &SslContext,
    session: Option<SslSession>,
) -> (usize, usize, SslSession) {
    let epoll = Epoll::new();
    let connection = Connection::silent(kind, context, false);
    let socket = connection.client.try_clone().expect("a second handle");
    epoll.add(connection.socket.as_raw_fd(), libc::EPOLLIN);
    WRITES.store(0, Ordering::Relaxed);
    thread::scope(|scope| {
        let client = scope.spawn(|| client(socket, session));
        while connection.handshake() != 1 {
            if connection.error(-1) == sys::SSL_ERROR_WANT_READ {
                epoll.wait(10_000).expect("the client goes on");
            }
        }
        let writes = WRITES.load(Ordering::Relaxed);
        // SAFETY: a live SSL, and one byte.
        assert_eq!(unsafe { sys::SSL_write(connection.ssl, [0u8].as_ptr().cast(), 1) }, 1);
        let (tickets, session) = client.join().expect("a client");
        connection.free();
        (writes, tickets, session)
    })
}

#[test]
#[ignore = "runs under `accelerated_and_native`"]
fn scenario_tickets() {
    let (kind, context) = (counting_kind(), context());
    let (writes, tickets, session) = served(kind, &context, None);
    let full = format!("full: {writes} writes, {tickets} tickets");
    let (writes, tickets, _) = served(kind, &context, Some(session));
    let resumed = format!("resumed: {writes} writes, {tickets} ticket");
    std::fs::write(file("answers"), format!("{full}; {resumed}")).expect("a short write");
}
