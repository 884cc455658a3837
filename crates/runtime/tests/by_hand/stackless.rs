//! Handshakes for which there is no stack, where memory is short: they go on without fibres, as
//! natively, by whatever function they are driven.
//!
//! Each test runs this program again under `widelane run`, with the ignored test of the scenario.
#![allow(unsafe_code, reason = "libssl by its C interface, a limit of the process's memory")]

use std::os::fd::AsRawFd;
use std::thread;

use openssl::ssl::{SslContext, SslVersion};
use openssl_sys as sys;

use crate::reads::Client;
use crate::support::by_hand::{Connection, Epoll, accelerated_with_lanes, context};

#[test]
fn handshakes_go_on_without_stacks() {
    let Some(counters) = accelerated_with_lanes("stackless::scenario_refused") else { return };
    let without = 2 * Way::ALL.len() as u64 + CALLS;
    assert!(counters.jobs_synchronous >= without, "{counters:?}");
}

/// More calls than are made without a stack once one was refused.
const CALLS: u64 = 1_000;

/// Bytes of address space that are left: fewer than a stack and what it leaves to libssl.
const SPARE_BYTES: u64 = 1 << 20;

/// A function that drives handshakes.
#[derive(Clone, Copy, Debug)]
enum Way {
    Accept,
    DoHandshake,
    ReadEarlyData,
}

impl Way {
    const ALL: [Self; 3] = [Self::Accept, Self::DoHandshake, Self::ReadEarlyData];

    /// Calls it; whether the handshake is done.
    fn call(self, ssl: *mut sys::SSL) -> bool {
        let (mut buffer, mut bytes) = ([0_u8; 16], 0);
        let buffer = buffer.as_mut_ptr().cast();
        let (result, done) = match self {
            // SAFETY: a live SSL.
            Self::Accept => (unsafe { sys::SSL_accept(ssl) }, 1),
            // SAFETY: as above.
            Self::DoHandshake => (unsafe { sys::SSL_do_handshake(ssl) }, 1),
            Self::ReadEarlyData => (
                // SAFETY: as above, and room for 16 bytes.
                unsafe { sys::SSL_read_early_data(ssl, buffer, 16, &mut bytes) },
                sys::SSL_READ_EARLY_DATA_FINISH,
            ),
        };
        if result != done {
            // SAFETY: a live SSL, whose last call this thread has made.
            let error = unsafe { sys::SSL_get_error(ssl, result) };
            assert_eq!(error, sys::SSL_ERROR_WANT_READ, "{self:?}: {result}");
        }
        result == done
    }
}

/// Makes a handshake with a client.
fn handshake(context: &SslContext, epoll: &Epoll, way: Way, version: SslVersion) {
    let (server, client) = Connection::with_client(context);
    epoll.add(server.socket.as_raw_fd(), libc::EPOLLIN);
    let mut client = Client::begin(client, version);
    let is_done = (0..100).any(|_| {
        epoll.ready(1);
        let is_done = way.call(server.ssl);
        client.go_on(&mut &[][..]);
        is_done
    });
    assert!(is_done, "{way:?}, {version:?}");
    server.free();
}

/// One by each function and with each version.
fn each(context: &SslContext, epoll: &Epoll) {
    for way in Way::ALL {
        for version in [SslVersion::TLS1_2, SslVersion::TLS1_3] {
            handshake(context, epoll, way, version);
        }
    }
}

/// Limits the process's address space to what it has and some more.
fn limit_memory() {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages: u64 = pages.split(' ').next().expect("a number").parse().expect("a number");
    let bytes = pages * 4096 + SPARE_BYTES;
    set_limit(bytes);
}

fn set_limit(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: reads the limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_refused() {
    let context = context();
    // What OpenSSL asks of the system only once is there when memory gets short.
    thread::scope(|scope| scope.spawn(|| each(&context, &Epoll::new())).join()).expect("they end");
    let epoll = Epoll::new();
    // The stack that is idle is in use then.
    let parked = Connection::parked(&context, &epoll, libc::EPOLLIN | libc::EPOLLET);
    limit_memory();
    each(&context, &epoll);
    set_limit(libc::RLIM_INFINITY);
    for _ in 0..CALLS {
        let connection = Connection::new(&context, false);
        assert!(!Way::Accept.call(connection.ssl));
        connection.free();
    }
    parked.free();
    while epoll.wait(0).is_some() {}
    // There are stacks again, and nothing is left that would keep the thread from sleeping.
    let connection = Connection::new(&context, false);
    epoll.add(connection.socket.as_raw_fd(), libc::EPOLLIN | libc::EPOLLET);
    let goes_on = || {
        epoll.ready(1);
        connection.handshake() == -1 && connection.sent() > 1000
    };
    assert!((0..100).any(|_| goes_on()));
    connection.free();
    assert_eq!(epoll.wait(1), None);
}
