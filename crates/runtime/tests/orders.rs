//! Handshakes in orders that no server would choose: a simulator of servers drives the runtime,
//! libssl and real clients by a seed, one event at a time.
//!
//! Every order ends with a server that does nothing but what it is told to: it calls for the
//! connections that `epoll_wait` reports, and for no other. A handshake that was forgotten would
//! never end then. The seed of an order that fails is in its message; `WIDELANE_ORDERS_SEED` runs
//! that one alone.
#![allow(unsafe_code, reason = "libssl and epoll by their C interfaces")]

mod support;

use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use openssl::ssl::{
    HandshakeError, MidHandshakeSslStream, Ssl, SslContext, SslMethod, SslStream, SslVerifyMode,
    SslVersion,
};
use openssl_sys as sys;
use support::by_hand::{Connection, accelerated, context, rare_context};
use widelane_testkit::random::Random;

/// Orders that are tried.
const SEEDS: u64 = 24;

/// Events of one order, before it is brought to its end.
const STEPS: usize = 250;

/// Connections at a time; more than any room has lanes.
const CONNECTIONS_MAX: usize = 20;

/// Rounds of a server that is only told what is ready, in which all handshakes have to end.
const ROUNDS_MAX: usize = 2_000;

#[test]
fn handshakes_end_in_every_order_of_events() {
    let counters = accelerated("scenario_orders");
    eprintln!("{SEEDS} orders: {counters:?}");
    assert_eq!(counters.fallbacks, 0, "{counters:?}");
    assert!(counters.parked() > 0 && counters.jobs_cancelled > 0, "{counters:?}");
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_orders() {
    let contexts = [context(), rare_context()];
    let only = std::env::var("WIDELANE_ORDERS_SEED").ok().and_then(|seed| seed.parse().ok());
    let (mut ended, mut freed) = (0, 0);
    for seed in only.map_or(0..SEEDS, |seed: u64| seed..seed + 1) {
        let mut order = Order::new(seed, &contexts);
        (0..STEPS).for_each(|step| order.step(step));
        order.bring_to_an_end();
        ended += order.ended;
        freed += order.freed;
    }
    eprintln!("{ended} handshakes ended, {freed} were given up");
    assert!(ended > 0 && freed > 0);
}

/// What epoll is asked for, as servers do: edges, levels, both directions, one event at a time.
const MODES: [c_int; 5] = [
    libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET,
    libc::EPOLLIN | libc::EPOLLET,
    libc::EPOLLIN,
    libc::EPOLLIN | libc::EPOLLOUT,
    libc::EPOLLIN | libc::EPOLLONESHOT,
];

/// One order of events.
struct Order<'a> {
    seed: u64,
    random: Random,
    contexts: &'a [SslContext; 2],
    epoll: c_int,
    pairs: Vec<Pair>,
    next_number: u64,
    ended: usize,
    freed: usize,
}

/// A server's side of a connection and its client.
struct Pair {
    /// Its data word in epoll.
    number: u64,
    server: Connection,
    mode: c_int,
    client: Client,
    server_ended: bool,
}

/// How far a client is.
enum Client {
    Handshaking(MidHandshakeSslStream<UnixStream>),
    Ended(#[allow(dead_code, reason = "keeps the connection open")] SslStream<UnixStream>),
    /// Between two steps.
    Moving,
}

impl<'a> Order<'a> {
    fn new(seed: u64, contexts: &'a [SslContext; 2]) -> Self {
        // SAFETY: makes a descriptor.
        let epoll = unsafe { libc::epoll_create1(0) };
        let order = Order {
            seed,
            random: Random::new(seed),
            contexts,
            epoll,
            pairs: Vec::new(),
            next_number: 0,
            ended: 0,
            freed: 0,
        };
        order.poll(0);
        order
    }

    /// One event, by chance.
    fn step(&mut self, step: usize) {
        if self.pairs.is_empty() || self.random.below(4) == 0 && self.pairs.len() < CONNECTIONS_MAX
        {
            return self.connect();
        }
        let index = self.random.below(self.pairs.len());
        match self.random.below(32) {
            0..9 => self.move_client(index),
            // Called without being asked for: a spurious event.
            9..13 => self.call_server(index),
            13..15 => self.read_server(index),
            15..22 => self.serve(0),
            22..28 => self.serve(1),
            28 => drop(self.take_away(index)),
            29 => self.free_elsewhere(index),
            30 => self.fork(index),
            _ => {
                self.call_server(index);
                drop(self.take_away(index));
            }
        }
        assert!(self.pairs.len() <= CONNECTIONS_MAX, "seed {}, step {step}", self.seed);
    }

    /// Only what is reported is called for, until all handshakes have ended.
    fn bring_to_an_end(&mut self) {
        for _ in 0..ROUNDS_MAX {
            for index in (0..self.pairs.len()).rev() {
                self.move_client(index);
            }
            self.serve(1);
            let is_over = |pair: &Pair| pair.server_ended && pair.client.has_ended();
            while let Some(index) = self.pairs.iter().position(is_over) {
                self.ended += 1;
                self.freed -= 1;
                drop(self.take_away(index));
            }
            if self.pairs.is_empty() {
                return;
            }
        }
        let waiting: Vec<_> = self.pairs.iter().map(|pair| (pair.number, pair.mode)).collect();
        panic!("seed {}: these handshakes never end: {waiting:x?}", self.seed);
    }

    fn connect(&mut self) {
        let context = &self.contexts[usize::from(self.random.below(4) == 0)];
        let (server, client) = Connection::with_client(context);
        let mode = MODES[self.random.below(MODES.len())];
        let version =
            if self.random.below(2) == 0 { SslVersion::TLS1_2 } else { SslVersion::TLS1_3 };
        let number = self.next_number;
        self.next_number += 1;
        self.control(libc::EPOLL_CTL_ADD, server.socket.as_raw_fd(), mode, number);
        let client = Client::begin(client, version);
        self.pairs.push(Pair { number, server, mode, client, server_ended: false });
    }

    fn move_client(&mut self, index: usize) {
        let pair = &mut self.pairs[index];
        pair.client = match std::mem::replace(&mut pair.client, Client::Moving) {
            Client::Handshaking(handshake) => Client::of(handshake.handshake(), self.seed),
            other => other,
        };
    }

    /// The server calls for a connection, and tells epoll what it was told.
    fn call_server(&mut self, index: usize) {
        if !self.pairs[index].server_ended {
            let result = self.pairs[index].server.handshake();
            self.take_answer(index, result);
        }
    }

    /// The same by a read, which handshakes first.
    fn read_server(&mut self, index: usize) {
        let pair = &self.pairs[index];
        if pair.server_ended {
            return;
        }
        let mut buffer = [0u8; 16];
        let buffer = buffer.as_mut_ptr().cast::<c_void>();
        // SAFETY: room for 16 bytes.
        let result = unsafe { sys::SSL_read(pair.server.ssl, buffer, 16) };
        assert!(result < 0, "seed {}: nobody has sent anything", self.seed);
        // SAFETY: a live SSL.
        let is_finished = unsafe { sys::SSL_is_init_finished(pair.server.ssl) } == 1;
        if is_finished {
            self.pairs[index].server_ended = true;
        } else {
            self.take_answer(index, result);
        }
    }

    fn take_answer(&mut self, index: usize, result: c_int) {
        let pair = &mut self.pairs[index];
        let wanted = match result {
            1 => {
                pair.server_ended = true;
                return;
            }
            _ => pair.server.error(result),
        };
        let wanted = match wanted {
            sys::SSL_ERROR_WANT_READ => libc::EPOLLIN,
            sys::SSL_ERROR_WANT_WRITE => libc::EPOLLIN | libc::EPOLLOUT,
            other => panic!("seed {}: connection {} fails: {other}", self.seed, pair.number),
        };
        // A server with both directions registered for good changes nothing.
        if pair.mode & libc::EPOLLOUT == 0 {
            let events = wanted | pair.mode & (libc::EPOLLET | libc::EPOLLONESHOT);
            let (descriptor, number) = (pair.server.socket.as_raw_fd(), pair.number);
            self.control(libc::EPOLL_CTL_MOD, descriptor, events, number);
        }
    }

    /// One round of an event loop.
    fn serve(&mut self, timeout: c_int) {
        for number in self.poll(timeout) {
            if let Some(index) = self.pairs.iter().position(|pair| pair.number == number) {
                self.call_server(index);
            }
        }
    }

    fn poll(&self, timeout: c_int) -> Vec<u64> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 8];
        // SAFETY: room for eight events.
        let count = unsafe { libc::epoll_wait(self.epoll, events.as_mut_ptr(), 8, timeout) };
        let count = usize::try_from(count).expect("epoll_wait does not fail");
        events[..count].iter().map(|event| event.u64).collect()
    }

    fn control(&self, operation: c_int, descriptor: c_int, events: c_int, number: u64) {
        let mut event = libc::epoll_event { events: events.cast_unsigned(), u64: number };
        // SAFETY: the kernel reads the event during the call.
        let done = unsafe { libc::epoll_ctl(self.epoll, operation, descriptor, &mut event) };
        assert_eq!(done, 0, "seed {}", self.seed);
    }

    /// Gives a connection up, wherever its handshake stands.
    fn take_away(&mut self, index: usize) -> Pair {
        let pair = self.remove(index);
        pair.server.free();
        pair
    }

    /// The same from another thread.
    fn free_elsewhere(&mut self, index: usize) {
        struct Address(usize);
        let pair = self.remove(index);
        let address = Address(pair.server.ssl as usize);
        let thread = std::thread::spawn(move || {
            // SAFETY: the SSL's only owner now.
            unsafe { sys::SSL_free(address.0 as *mut sys::SSL) };
        });
        thread.join().expect("a thread that frees");
    }

    fn remove(&mut self, index: usize) -> Pair {
        self.freed += 1;
        let pair = self.pairs.swap_remove(index);
        self.control(libc::EPOLL_CTL_DEL, pair.server.socket.as_raw_fd(), 0, 0);
        pair
    }

    /// A child frees its copy and ends; the parent's handshake knows nothing of it.
    fn fork(&mut self, index: usize) {
        // SAFETY: the child calls nothing that needs other threads, and leaves by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            self.pairs[index].server.free();
            // SAFETY: ends the child.
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: waits for our child.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "seed {}", self.seed);
    }
}

impl Drop for Order<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `new`, closed once.
        unsafe { libc::close(self.epoll) };
    }
}

impl Client {
    /// A client that has said hello.
    fn begin(stream: UnixStream, version: SslVersion) -> Self {
        let mut context = SslContext::builder(SslMethod::tls_client()).expect("OpenSSL");
        context.set_verify(SslVerifyMode::NONE);
        context.set_min_proto_version(Some(version)).expect("a version");
        context.set_max_proto_version(Some(version)).expect("a version");
        stream.set_nonblocking(true).expect("our own socket");
        let ssl = Ssl::new(&context.build()).expect("a client");
        Client::of(ssl.connect(stream), 0)
    }

    fn of(outcome: Result<SslStream<UnixStream>, HandshakeError<UnixStream>>, seed: u64) -> Self {
        match outcome {
            Ok(stream) => Client::Ended(stream),
            Err(HandshakeError::WouldBlock(handshake)) => Client::Handshaking(handshake),
            Err(error) => panic!("seed {seed}: a client fails: {error}"),
        }
    }

    fn has_ended(&self) -> bool {
        matches!(self, Client::Ended(_))
    }
}
