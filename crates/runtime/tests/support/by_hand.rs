//! A server made by hand: connections over libssl's and epoll's C interfaces, parked at will.
//!
//! A test runs its own program again under `widelane run`, with the ignored test of its scenario.
#![allow(unsafe_code, reason = "libssl and epoll by their C interfaces")]

use std::ffi::{CStr, c_char, c_int, c_long};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use foreign_types::ForeignTypeRef;
use openssl::ssl::{ClientHelloResponse, SslContext, SslContextBuilder, SslFiletype, SslMethod};
use openssl::x509::X509;
use openssl_sys as sys;
use widelane_testkit::program::assert_ran_one;
use widelane_testkit::rooms::has_lanes;

use super::authority::{Authority, Kind};
use super::clients::client_hello;
use super::counters::Sums;
use super::widelane;

/// Stems of the files of the identities.
const USUAL: &str = "usual";
const RARE: &str = "rare";
const QUICK: &str = "quick";

/// What clients of each version say first, by the file that holds it.
pub const HELLOS: [(&str, &str); 2] = [("hello", "-tls1_2"), ("hello-of-1.3", "-tls1_3")];

const DIRECTORY: &str = "HAND_MADE_DIRECTORY";
pub const DATA: u64 = 0x1122_3344_5566_7788;

/// Runs `scenario` of this program under `widelane run`; its counters.
pub fn accelerated(scenario: &str) -> Sums {
    accelerated_with(scenario, &[])
}

/// The same with options for `widelane run`.
pub fn accelerated_with(scenario: &str, options: &[&str]) -> Sums {
    let authority = prepared();
    let counters = authority.path("counters");
    let mut widelane = Command::new(widelane());
    widelane.arg("run").args(options).arg("--counters-dir").arg(&counters).arg("--");
    run(widelane.arg(this_program()), scenario, &authority);
    Sums::read(&counters)
}

/// The same for a scenario whose operations wait for others; nothing where none can.
pub fn accelerated_with_lanes(scenario: &str) -> Option<Sums> {
    has_lanes().then(|| accelerated(scenario))
}

/// Runs `scenario` of this program under `widelane run` and without; what it has written to
/// `answers` each time, and the counters.
pub fn accelerated_and_native(scenario: &str) -> ([String; 2], Sums) {
    let authority = prepared();
    let counters = authority.path("counters");
    let mut widelane = Command::new(widelane());
    widelane.args(["run", "--counters-dir"]).arg(&counters).arg("--");
    widelane.arg(this_program());
    let answers = [&mut widelane, &mut Command::new(this_program())].map(|command| {
        run(command, scenario, &authority);
        std::fs::read_to_string(authority.path("answers")).expect("the scenario has answers")
    });
    (answers, Sums::read(&counters))
}

/// Starts this program anew under `widelane run`, and ends as that does; where that was done
/// already, answers. For a fuzzer, whose program has no scenarios.
pub fn accelerate_this_program() {
    if std::env::var_os(DIRECTORY).is_some() {
        // As in every program of Rust's, but for those whose `main` is another's.
        // SAFETY: no handler is installed.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        return;
    }
    let authority = prepared();
    let mut cargo = super::cargo();
    // A fuzzer's are for its own code.
    cargo.env_remove("RUSTFLAGS");
    let mut widelane = Command::new(super::build(cargo));
    widelane
        .args(["run", "--pq", "--wait-max", "2ms", "--"])
        .arg(this_program())
        .args(std::env::args_os().skip(1));
    let status = widelane.env(DIRECTORY, authority.path("")).status().expect("it was built");
    drop(authority);
    std::process::exit(status.code().unwrap_or(1));
}

fn this_program() -> PathBuf {
    std::env::current_exe().expect("a running test has a file")
}

fn run(command: &mut Command, scenario: &str, authority: &Authority) {
    let output = super::run(
        command
            .args(["--ignored", "--exact", scenario, "--test-threads=1"])
            .env(DIRECTORY, authority.path("")),
    );
    assert_ran_one(&output.stdout);
}

/// An authority, and beside it some identities and what clients say first.
fn prepared() -> Authority {
    let (authority, identity) = super::localhost();
    let rare = authority.issue_with("localhost", Kind::Rsa3072);
    let quick = authority.issue_with("localhost", Kind::P256);
    for (name, identity) in [(USUAL, identity), (RARE, rare), (QUICK, quick)] {
        let file = |what| authority.path(&format!("{name}.{what}"));
        std::fs::copy(identity.key, file("key")).expect("a copy");
        std::fs::copy(identity.certificate, file("pem")).expect("a copy");
    }
    for (name, version) in HELLOS {
        let hello = client_hello(&authority.path(""), version);
        std::fs::write(authority.path(name), hello).expect("a short write");
    }
    authority
}

unsafe extern "C" {
    pub fn BIO_s_socket() -> *const sys::BIO_METHOD;
    fn SSL_CTX_new_ex(
        library: *mut sys::OSSL_LIB_CTX,
        properties: *const c_char,
        method: *const sys::SSL_METHOD,
    ) -> *mut sys::SSL_CTX;
    fn BIO_int_ctrl(bio: *mut sys::BIO, command: c_int, flag: c_long, value: c_int) -> c_long;
}

const BIO_C_SET_FD: c_int = 104;

/// A server's side of a connection whose client has said hello.
pub struct Connection {
    pub ssl: *mut sys::SSL,
    pub socket: UnixStream,
    pub client: UnixStream,
}

/// A thread's epoll set.
pub struct Epoll(pub RawFd);

impl Epoll {
    pub fn new() -> Self {
        let epoll = Self::unused();
        // Threads that have slept by epoll will do so again; others may only have looked.
        assert_eq!(epoll.wait(1), None);
        epoll
    }

    /// One that its thread has not waited for.
    pub fn unused() -> Self {
        // SAFETY: makes a descriptor.
        Self(unsafe { libc::epoll_create1(0) })
    }

    pub fn add(&self, descriptor: RawFd, events: c_int) {
        self.add_with(descriptor, events, DATA);
    }

    pub fn add_with(&self, descriptor: RawFd, events: c_int, data: u64) {
        let mut event = libc::epoll_event { events: events.cast_unsigned(), u64: data };
        // SAFETY: the kernel reads the event during the call.
        let done = unsafe { libc::epoll_ctl(self.0, libc::EPOLL_CTL_ADD, descriptor, &mut event) };
        assert_eq!(done, 0);
    }

    pub fn remove(&self, descriptor: RawFd) {
        let null = std::ptr::null_mut();
        // SAFETY: takes a registration away.
        let done = unsafe { libc::epoll_ctl(self.0, libc::EPOLL_CTL_DEL, descriptor, null) };
        assert_eq!(done, 0);
    }

    /// The number of registrations that are ready within `timeout`.
    pub fn ready(&self, timeout: c_int) -> c_int {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 4];
        // SAFETY: room for four events.
        unsafe { libc::epoll_wait(self.0, events.as_mut_ptr(), 4, timeout) }
    }

    /// The events of the only registration, if it is ready within `timeout`.
    pub fn wait(&self, timeout: c_int) -> Option<u32> {
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

pub fn file(name: &str) -> PathBuf {
    let directory = std::env::var_os(DIRECTORY).expect("a scenario runs under `accelerated`");
    Path::new(&directory).join(name)
}

/// A server's context with a key of RSA-2048.
pub fn context() -> SslContext {
    context_builder().build()
}

/// What such a context is made of.
pub fn context_builder() -> SslContextBuilder {
    context_of(USUAL)
}

/// The same, of a program that excludes a provider.
pub fn excluding_context(properties: &CStr) -> SslContext {
    let library = std::ptr::null_mut();
    // SAFETY: OpenSSL's own table.
    let method = unsafe { sys::TLS_method() };
    // SAFETY: the default context, a C string and OpenSSL's own method.
    let context = unsafe { SSL_CTX_new_ex(library, properties.as_ptr(), method) };
    assert!(!context.is_null());
    // SAFETY: just made, and nobody else's.
    furnish(unsafe { SslContextBuilder::from_ptr(context) }, USUAL).build()
}

/// The same for early data, which it reads together with what stands before them.
pub fn early_context() -> SslContext {
    let mut context = context_of(USUAL);
    context.set_max_early_data(1024).expect("a length");
    context.set_read_ahead(true);
    context.build()
}

/// The same with a chain of certificates that no small socket takes at once.
pub fn long_context() -> SslContext {
    let mut context = context_of(USUAL);
    let certificate = std::fs::read(file(&format!("{USUAL}.pem"))).expect("a file");
    for _ in 0..8 {
        let another = X509::from_pem(&certificate).expect("a certificate");
        context.add_extra_chain_cert(another).expect("a chain");
    }
    context.build()
}

/// A server's context with a key of RSA-3072, whose signatures share no batch with the others.
pub fn rare_context() -> SslContext {
    context_of(RARE).build()
}

/// The same with a callback that has a say when a client has said hello.
pub fn rare_context_with(
    callback: impl Fn() -> ClientHelloResponse + Send + Sync + 'static,
) -> SslContext {
    let mut context = context_of(RARE);
    context.set_client_hello_callback(move |_, _| Ok(callback()));
    context.build()
}

/// A server's context with a key of P-256.
pub fn quick_context() -> SslContext {
    context_of(QUICK).build()
}

fn context_of(name: &str) -> SslContextBuilder {
    furnish(SslContext::builder(SslMethod::tls()).expect("OpenSSL"), name)
}

fn furnish(mut context: SslContextBuilder, name: &str) -> SslContextBuilder {
    let (key, certificate) = (file(&format!("{name}.key")), file(&format!("{name}.pem")));
    context.set_private_key_file(key, SslFiletype::PEM).expect("a key");
    context.set_certificate_file(certificate, SslFiletype::PEM).expect("a file");
    context
}

impl Connection {
    pub fn new(context: &SslContext, is_blocking: bool) -> Self {
        // SAFETY: libcrypto's constant table.
        Self::over(unsafe { BIO_s_socket() }, context, is_blocking)
    }

    /// A connection without a word of the client, and a second handle of the client's side.
    pub fn with_client(context: &SslContext) -> (Self, UnixStream) {
        // SAFETY: libcrypto's constant table.
        let connection = Self::silent(unsafe { BIO_s_socket() }, context, false);
        let client = connection.client.try_clone().expect("a second handle");
        (connection, client)
    }

    /// A connection over a BIO of this kind, which treats its socket as libcrypto's own does.
    pub fn over(kind: *const sys::BIO_METHOD, context: &SslContext, is_blocking: bool) -> Self {
        let mut connection = Self::silent(kind, context, is_blocking);
        let hello = std::fs::read(file("hello")).expect("captured");
        connection.client.write_all(&hello).expect("room");
        connection
    }

    pub fn silent(kind: *const sys::BIO_METHOD, context: &SslContext, is_blocking: bool) -> Self {
        let (socket, client) = UnixStream::pair().expect("two sockets");
        socket.set_nonblocking(!is_blocking).expect("our own socket");
        let ssl = ssl_over(kind, context, socket.as_raw_fd());
        Self { ssl, socket, client }
    }

    /// Parked: the handshake is told to wait, and nothing was sent.
    pub fn parked(context: &SslContext, epoll: &Epoll, events: c_int) -> Self {
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

    pub fn handshake(&self) -> c_int {
        // SAFETY: a live SSL.
        unsafe { sys::SSL_do_handshake(self.ssl) }
    }

    /// Calls for the handshake once, and answers whether it is parked: nothing was sent.
    pub fn parks(&self) -> bool {
        assert_eq!(self.handshake(), -1);
        self.sent() == 0
    }

    pub fn error(&self, result: c_int) -> c_int {
        // SAFETY: a live SSL.
        unsafe { sys::SSL_get_error(self.ssl, result) }
    }

    pub fn free(&self) {
        // SAFETY: called once, at the end.
        unsafe { sys::SSL_free(self.ssl) };
    }

    /// How many bytes the server has sent since the last call.
    pub fn sent(&self) -> usize {
        let mut client = &self.client;
        self.client.set_nonblocking(true).expect("our own socket");
        client.read(&mut [0; 16384]).unwrap_or(0)
    }

    /// The signature was made: the server's whole flight is on the wire, and it waits for ours.
    pub fn assert_went_on(&self) {
        assert_eq!(self.handshake(), -1);
        assert_eq!(self.error(-1), sys::SSL_ERROR_WANT_READ);
        assert!(self.sent() > 1000, "certificate and key exchange");
    }
}

/// A server's SSL over a BIO of this kind, whose socket outlives it.
pub fn ssl_over(
    kind: *const sys::BIO_METHOD,
    context: &SslContext,
    descriptor: RawFd,
) -> *mut sys::SSL {
    let ssl = new_ssl(context);
    // SAFETY: a table of libcrypto's, or one made of it.
    let bio = unsafe { sys::BIO_new(kind) };
    // SAFETY: gives the BIO a descriptor that outlives it.
    unsafe { BIO_int_ctrl(bio, BIO_C_SET_FD, 0, descriptor) };
    // SAFETY: the SSL takes the BIO for both directions.
    unsafe { sys::SSL_set_bio(ssl, bio, bio) };
    ssl
}

pub fn new_ssl(context: &SslContext) -> *mut sys::SSL {
    // SAFETY: a live context.
    let ssl = unsafe { sys::SSL_new(context.as_ptr()) };
    // SAFETY: the SSL just made.
    unsafe { sys::SSL_set_accept_state(ssl) };
    ssl
}

/// More connections than any room has lanes.
const LANES_MAX: usize = 16;

/// Connections of one kind, each called once: as many as there are lanes, so that the call for the
/// last one executes the operations of all.
pub fn executed(
    kind: *const sys::BIO_METHOD,
    context: &SslContext,
    prepare: impl Fn(usize, &Connection),
) -> Vec<Connection> {
    let mut connections = Vec::new();
    for index in 0..LANES_MAX {
        let connection = Connection::over(kind, context, false);
        prepare(index, &connection);
        assert_eq!(connection.handshake(), -1);
        let is_last = connection.sent() > 1000;
        assert!(is_last || connection.error(-1) == sys::SSL_ERROR_WANT_WRITE);
        connections.push(connection);
        if is_last {
            return connections;
        }
    }
    panic!("{LANES_MAX} operations filled no batch");
}
