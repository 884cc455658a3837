//! What no server does on request: a connection parked at will, then freed, cleared, read, forked.
//!
//! Each test runs this program again under `widelane run`, with the ignored test of the scenario.
#![allow(unsafe_code, reason = "libssl and epoll by their C interfaces")]

mod support;

use std::ffi::{c_int, c_void};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::Command;

use foreign_types::ForeignTypeRef;
use openssl::ssl::{SslContext, SslFiletype, SslMethod};
use openssl_sys as sys;
use support::authority::Authority;
use support::clients::client_hello;
use support::counters::Sums;
use support::widelane;

const DIRECTORY: &str = "HAND_MADE_DIRECTORY";
const DATA: u64 = 0x1122_3344_5566_7788;

/// Runs `scenario` of this program under `widelane run`; its counters.
fn accelerated(scenario: &str) -> Sums {
    let authority = Authority::new();
    let identity = authority.issue("localhost");
    std::fs::copy(identity.key, authority.path("key.pem")).expect("a copy");
    std::fs::copy(identity.certificate, authority.path("certificate.pem")).expect("a copy");
    let hello = client_hello(&authority.path(""));
    std::fs::write(authority.path("hello"), hello).expect("a short write");
    let counters = authority.path("counters");
    support::run(
        Command::new(widelane())
            .args(["run", "--counters-dir"])
            .arg(&counters)
            .arg("--")
            .arg(std::env::current_exe().expect("a running test has a file"))
            .args(["--ignored", "--exact", scenario, "--test-threads=1"])
            .env(DIRECTORY, authority.path("")),
    );
    Sums::read(&counters)
}

#[test]
fn freeing_a_parked_connection_withdraws_its_operation() {
    let counters = accelerated("scenario_free");
    assert_eq!((counters.jobs_cancelled, counters.parked()), (1, 0), "{counters:?}");
}

#[test]
fn another_thread_may_free_a_parked_connection() {
    let counters = accelerated("scenario_free_elsewhere");
    assert_eq!((counters.jobs_cancelled, counters.parked()), (1, 0), "{counters:?}");
}

#[test]
fn a_cleared_connection_handshakes_anew() {
    let counters = accelerated("scenario_clear");
    assert_eq!((counters.jobs_cancelled, counters.parked()), (1, 1), "{counters:?}");
}

#[test]
fn reading_a_parked_connection_waits_like_the_handshake() {
    let counters = accelerated("scenario_read");
    assert_eq!((counters.jobs_cancelled, counters.parked()), (0, 1), "{counters:?}");
}

#[test]
fn a_forked_child_may_free_its_copy() {
    let counters = accelerated("scenario_fork");
    assert_eq!(counters.parked(), 1, "{counters:?}");
}

#[test]
fn one_shot_and_level_triggered_programs_are_served() {
    let counters = accelerated("scenario_other_epoll_modes");
    assert_eq!(counters.parked(), 3, "{counters:?}");
}

#[test]
fn blocking_sockets_and_memory_are_not_parked() {
    let counters = accelerated("scenario_not_parked");
    assert_eq!((counters.handshakes, counters.parked()), (0, 0), "{counters:?}");
    assert_eq!(counters.jobs_synchronous, 2, "{counters:?}");
}

unsafe extern "C" {
    fn SSL_clear(ssl: *mut sys::SSL) -> c_int;
}

/// A server's side of a connection whose client has said hello.
struct Connection {
    ssl: *mut sys::SSL,
    socket: UnixStream,
    client: UnixStream,
}

/// A thread's epoll set.
struct Epoll(RawFd);

impl Epoll {
    fn new() -> Self {
        // SAFETY: makes a descriptor.
        let epoll = Self(unsafe { libc::epoll_create1(0) });
        assert_eq!(epoll.wait(0), None);
        epoll
    }

    fn add(&self, descriptor: RawFd, events: c_int) {
        let mut event = libc::epoll_event { events: events.cast_unsigned(), u64: DATA };
        // SAFETY: the kernel reads the event during the call.
        let done = unsafe { libc::epoll_ctl(self.0, libc::EPOLL_CTL_ADD, descriptor, &mut event) };
        assert_eq!(done, 0);
    }

    /// The events of the only registration, if it is ready within `timeout`.
    fn wait(&self, timeout: c_int) -> Option<u32> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 4];
        // SAFETY: room for four events.
        let count = unsafe { libc::epoll_wait(self.0, events.as_mut_ptr(), 4, timeout) };
        assert!(matches!(count, 0 | 1), "{count}");
        (count == 1).then(|| {
            let (events, data) = (events[0].events, events[0].u64);
            assert_eq!(data, DATA);
            events
        })
    }
}

fn file(name: &str) -> std::path::PathBuf {
    let directory = std::env::var_os(DIRECTORY).expect("a scenario runs under `accelerated`");
    std::path::Path::new(&directory).join(name)
}

fn context() -> SslContext {
    let mut context = SslContext::builder(SslMethod::tls()).expect("OpenSSL");
    context.set_private_key_file(file("key.pem"), SslFiletype::PEM).expect("a key");
    context.set_certificate_file(file("certificate.pem"), SslFiletype::PEM).expect("a file");
    context.build()
}

impl Connection {
    fn new(context: &SslContext, is_blocking: bool) -> Self {
        let (socket, mut client) = UnixStream::pair().expect("two sockets");
        socket.set_nonblocking(!is_blocking).expect("our own socket");
        client.write_all(&std::fs::read(file("hello")).expect("captured")).expect("room");
        let ssl = new_ssl(context);
        // SAFETY: wraps a descriptor that outlives the BIO.
        let bio = unsafe { sys::BIO_new_socket(socket.as_raw_fd(), 0) };
        // SAFETY: the SSL takes the BIO for both directions.
        unsafe { sys::SSL_set_bio(ssl, bio, bio) };
        Self { ssl, socket, client }
    }

    /// Parked: the handshake is told to wait, and nothing was sent.
    fn parked(context: &SslContext, epoll: &Epoll, events: c_int) -> Self {
        let connection = Self::new(context, false);
        epoll.add(connection.socket.as_raw_fd(), events);
        assert_eq!(connection.handshake(), -1);
        assert!(matches!(
            connection.error(-1),
            sys::SSL_ERROR_WANT_READ | sys::SSL_ERROR_WANT_WRITE
        ));
        assert_eq!(connection.sent(), 0);
        connection
    }

    fn handshake(&self) -> c_int {
        // SAFETY: a live SSL.
        unsafe { sys::SSL_do_handshake(self.ssl) }
    }

    fn error(&self, result: c_int) -> c_int {
        // SAFETY: a live SSL.
        unsafe { sys::SSL_get_error(self.ssl, result) }
    }

    fn free(&self) {
        // SAFETY: called once, at the end.
        unsafe { sys::SSL_free(self.ssl) };
    }

    /// How many bytes the server has sent since the last call.
    fn sent(&self) -> usize {
        let mut client = &self.client;
        self.client.set_nonblocking(true).expect("our own socket");
        client.read(&mut [0; 16384]).unwrap_or(0)
    }

    /// The signature was made: the server's whole flight is on the wire, and it waits for ours.
    fn assert_went_on(&self) {
        assert_eq!(self.handshake(), -1);
        assert_eq!(self.error(-1), sys::SSL_ERROR_WANT_READ);
        assert!(self.sent() > 1000, "certificate and key exchange");
    }
}

fn new_ssl(context: &SslContext) -> *mut sys::SSL {
    // SAFETY: a live context.
    let ssl = unsafe { sys::SSL_new(context.as_ptr()) };
    // SAFETY: the SSL just made.
    unsafe { sys::SSL_set_accept_state(ssl) };
    ssl
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_free() {
    let (context, epoll) = (context(), Epoll::new());
    let connection = Connection::parked(&context, &epoll, libc::EPOLLIN | libc::EPOLLET);
    connection.free();
    assert_eq!(connection.sent(), 0, "nothing of an abandoned handshake reaches the wire");
    // SAFETY: reads this thread's queue.
    assert_eq!(unsafe { sys::ERR_get_error() }, 0, "the error queue stays as it was");
    while epoll.wait(0).is_some() {}
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_free_elsewhere() {
    struct Address(usize);
    let (context, epoll) = (context(), Epoll::new());
    let connection = Connection::parked(&context, &epoll, libc::EPOLLIN | libc::EPOLLET);
    let address = Address(connection.ssl as usize);
    std::thread::spawn(move || {
        // SAFETY: the SSL's only owner now.
        unsafe { sys::SSL_free(address.0 as *mut sys::SSL) };
    })
    .join()
    .expect("a thread that frees");
    while epoll.wait(0).is_some() {}
    assert_eq!(connection.sent(), 0);
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_clear() {
    let (context, epoll) = (context(), Epoll::new());
    let mut connection = Connection::parked(&context, &epoll, libc::EPOLLIN | libc::EPOLLET);
    // SAFETY: a live SSL.
    assert_eq!(unsafe { SSL_clear(connection.ssl) }, 1);
    assert_eq!(connection.sent(), 0);
    let hello = std::fs::read(file("hello")).expect("captured");
    connection.client.write_all(&hello).expect("room");
    assert_eq!(connection.handshake(), -1);
    while connection.sent() == 0 {
        epoll.wait(-1).expect("an event");
        assert_eq!(connection.handshake(), -1);
    }
    connection.free();
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_read() {
    let (context, epoll) = (context(), Epoll::new());
    let connection = Connection::parked(&context, &epoll, libc::EPOLLIN | libc::EPOLLET);
    let read = || {
        let mut buffer = [0u8; 16];
        let buffer = buffer.as_mut_ptr().cast::<c_void>();
        // SAFETY: room for 16 bytes.
        unsafe { sys::SSL_read(connection.ssl, buffer, 16) }
    };
    assert_eq!(read(), -1);
    assert_eq!(connection.error(-1), sys::SSL_ERROR_WANT_READ);
    while connection.sent() == 0 {
        epoll.wait(-1).expect("an event");
        assert_eq!(read(), -1);
    }
    assert_eq!(connection.error(-1), sys::SSL_ERROR_WANT_READ);
    connection.free();
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_fork() {
    let (context, epoll) = (context(), Epoll::new());
    let connection = Connection::parked(&context, &epoll, libc::EPOLLIN | libc::EPOLLET);
    // SAFETY: the child calls nothing that needs other threads, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        connection.free();
        // SAFETY: ends the child.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: waits for our child.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    assert_eq!(connection.sent(), 0, "the child's copy sends nothing");
    while epoll.wait(0).is_some() {}
    epoll.wait(-1).expect("an event");
    connection.assert_went_on();
    connection.free();
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_other_epoll_modes() {
    let context = context();
    for events in [
        libc::EPOLLIN,
        libc::EPOLLIN | libc::EPOLLOUT,
        libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLONESHOT,
    ] {
        let epoll = Epoll::new();
        let connection = Connection::parked(&context, &epoll, events);
        while connection.sent() == 0 {
            epoll.wait(-1).expect("an event");
            assert_eq!(connection.handshake(), -1);
            let mut event = libc::epoll_event { events: events.cast_unsigned(), u64: DATA };
            let descriptor = connection.socket.as_raw_fd();
            // SAFETY: the kernel reads the event during the call.
            unsafe { libc::epoll_ctl(epoll.0, libc::EPOLL_CTL_MOD, descriptor, &mut event) };
        }
        connection.free();
    }
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_not_parked() {
    let (context, _epoll) = (context(), Epoll::new());
    let blocking = Connection::new(&context, true);
    blocking.client.shutdown(std::net::Shutdown::Write).expect("our own socket");
    assert_eq!(blocking.handshake(), -1);
    assert!(blocking.sent() > 1000);
    blocking.free();

    let ssl = new_ssl(&context);
    // SAFETY: libcrypto's constant table.
    let kind = unsafe { sys::BIO_s_mem() };
    let memory = || {
        // SAFETY: an empty BIO in memory.
        unsafe { sys::BIO_new(kind) }
    };
    let (read, write) = (memory(), memory());
    let hello = std::fs::read(file("hello")).expect("captured");
    let bytes = c_int::try_from(hello.len()).expect("a short hello");
    // SAFETY: the BIO copies the bytes.
    assert_eq!(unsafe { sys::BIO_write(read, hello.as_ptr().cast(), bytes) }, bytes);
    // SAFETY: the SSL takes both BIOs.
    unsafe { sys::SSL_set_bio(ssl, read, write) };
    // SAFETY: a live SSL.
    assert_eq!(unsafe { sys::SSL_do_handshake(ssl) }, -1);
    let mut flight = [0u8; 4096];
    // SAFETY: room for 4096 bytes.
    let sent = unsafe { sys::BIO_read(write, flight.as_mut_ptr().cast(), 4096) };
    assert!(sent > 1000, "the flight was made at once: {sent}");
    // SAFETY: called once, at the end.
    unsafe { sys::SSL_free(ssl) };
}
