//! A simulator of servers: bytes, taken for events, drive the runtime, libssl and real clients.
//!
//! Each byte decides what happens next: a client moves, the server calls for a connection that it
//! was told of or that it was not, from its own thread or another one, reads instead, takes a
//! connection out of its epoll set and puts it back, hands it to another thread with a set of its
//! own, gives it up, forks. Threads wait by epoll, by a duplicate of their set or one around it, by
//! `poll` and its relatives; they end, and one blocks for good elsewhere. Every order ends with a
//! server that does nothing but what it is told to: each thread calls for its connections that are
//! reported to it, and for no other. A handshake that was forgotten would never end then.
#![allow(unsafe_code, reason = "libssl and epoll by their C interfaces")]

mod servers;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{mem, thread};

use openssl::error::ErrorStack;
use openssl::ssl::{
    ClientHelloResponse, HandshakeError, MidHandshakeSslStream, Ssl, SslContext, SslMethod,
    SslStream, SslVerifyMode, SslVersion,
};
use openssl_sys as sys;
use widelane_testkit::fuzz::Decisions;

use super::by_hand::{Connection, context, long_context, quick_context, rare_context_with};
use servers::{Interest, ROOM, Server, Way};

unsafe extern "C" {
    fn SSL_get_state(ssl: *const sys::SSL) -> c_uint;
    fn SSL_state_string(ssl: *const sys::SSL) -> *const c_char;
    fn SSL_clear(ssl: *mut sys::SSL) -> c_int;
    fn SSL_in_init(ssl: *const sys::SSL) -> c_int;
}

/// Events of one order, before it is brought to its end.
const STEPS_MAX: usize = 400;

/// Connections at a time; more than any room has lanes.
const CONNECTIONS_MAX: usize = 20;

/// Rounds of a server that is only told what is ready, in which all handshakes have to end.
const ROUNDS_MAX: usize = 2_000;

/// Threads of the server, the test's own first.
const THREADS: usize = 3;

/// About as long as operations wait for company.
const REST: Duration = Duration::from_micros(400);

/// What happens to a connection, or to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Connect,
    MoveClient,
    /// Called without being told to: a spurious event.
    Call,
    CallElsewhere,
    /// A function that reads or writes, and handshakes first.
    Read,
    /// Functions that do not drive a handshake.
    Shutdown,
    Look,
    /// Out of the epoll set, or into it again.
    Register,
    /// To another thread, which registers it, or will.
    HandOver,
    /// The thread that serves it ends, or blocks elsewhere; its connections are handed over before.
    EndThread,
    BlockThread,
    HangUp,
    Free,
    FreeElsewhere,
    CallAndFree,
    ClearAndFree,
    Fork,
    /// A round of the event loop, without sleep and with.
    Serve,
    ServeOrSleep,
    /// Nothing, until what waits for company has waited long enough, or nearly.
    Rest,
}

impl Event {
    /// Every event, by how often it comes.
    pub const ALL: [(Event, usize); 20] = [
        (Event::Connect, 12),
        (Event::MoveClient, 14),
        (Event::Call, 6),
        (Event::CallElsewhere, 1),
        (Event::Read, 3),
        (Event::Shutdown, 1),
        (Event::Look, 1),
        (Event::Register, 2),
        (Event::HandOver, 6),
        (Event::EndThread, 2),
        (Event::BlockThread, 2),
        (Event::HangUp, 1),
        (Event::Free, 1),
        (Event::FreeElsewhere, 1),
        (Event::CallAndFree, 1),
        (Event::ClearAndFree, 1),
        (Event::Fork, 1),
        (Event::Serve, 11),
        (Event::ServeOrSleep, 9),
        (Event::Rest, 1),
    ];

    /// Whether it happens to one connection.
    pub fn is_of_one(self) -> bool {
        !matches!(self, Event::Connect | Event::Serve | Event::ServeOrSleep | Event::Rest)
    }

    fn by_chance(decisions: &mut Decisions<'_>) -> Self {
        let total = Event::ALL.iter().map(|(_, share)| share).sum();
        let mut ticket = decisions.below(total);
        let drawn = Event::ALL.iter().find(|(_, share)| match ticket.checked_sub(*share) {
            Some(rest) => {
                ticket = rest;
                false
            }
            None => true,
        });
        drawn.expect("a ticket below the total").0
    }
}

/// What an order has seen.
#[derive(Debug)]
pub struct Seen {
    pub ended: usize,
    pub given_up: usize,
    /// Answers other than that the peer must send first.
    pub waited_for_room: usize,
    pub waited_for_itself: usize,
    /// How often each event met a handshake that was parked.
    pub parked: [usize; Event::ALL.len()],
    /// How often each event met a handshake in each of libssl's states.
    pub states: [[u8; STATES]; Event::ALL.len()],
}

impl Default for Seen {
    fn default() -> Self {
        Seen {
            ended: 0,
            given_up: 0,
            waited_for_room: 0,
            waited_for_itself: 0,
            parked: [0; Event::ALL.len()],
            states: [[0; STATES]; Event::ALL.len()],
        }
    }
}

impl Seen {
    /// Adds what another order has seen.
    pub fn add(&mut self, other: &Seen) {
        self.ended += other.ended;
        self.given_up += other.given_up;
        self.waited_for_room += other.waited_for_room;
        self.waited_for_itself += other.waited_for_itself;
        for (here, there) in self.parked.iter_mut().zip(&other.parked) {
            *here += there;
        }
        let states = self.states.as_flattened_mut().iter_mut();
        for (here, there) in states.zip(other.states.as_flattened()) {
            *here = here.saturating_add(*there);
        }
    }
}

/// More than libssl has.
pub const STATES: usize = 64;

/// What epoll is asked for, as servers do: edges, levels, both directions, one event at a time.
const MODES: [c_int; 5] = [
    libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET,
    libc::EPOLLIN | libc::EPOLLET,
    libc::EPOLLIN,
    libc::EPOLLIN | libc::EPOLLOUT,
    libc::EPOLLIN | libc::EPOLLONESHOT,
];

/// How often the callback of a context has asked to be called again.
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// Certificates whose keys share no batch, the quickest first; of the others one is so long that
/// it does not fit into a small socket, and one has a callback that asks for patience.
static CONTEXTS: LazyLock<[SslContext; 4]> = LazyLock::new(|| {
    let patient = rare_context_with(|| match ASKED.fetch_add(1, Ordering::Relaxed) % 3 {
        0 => ClientHelloResponse::SUCCESS,
        _ => ClientHelloResponse::RETRY,
    });
    [quick_context(), context(), long_context(), patient]
});

/// Runs an order of events to its end.
pub fn handshake_orders(bytes: &[u8]) -> Seen {
    ASKED.store(0, Ordering::Relaxed);
    let mut order = Order::new(bytes);
    for _ in 0..STEPS_MAX {
        if order.decisions.is_empty() {
            break;
        }
        order.step();
    }
    order.bring_to_an_end();
    mem::take(&mut order.seen)
}

/// One order of events.
struct Order<'a> {
    decisions: Decisions<'a>,
    servers: Vec<Server>,
    pairs: Vec<Pair>,
    next_number: u64,
    seen: Seen,
}

/// A server's side of a connection and its client.
struct Pair {
    /// Its data word in epoll.
    number: u64,
    server: Connection,
    /// Which thread serves it.
    home: usize,
    /// Whether its server waits to read, whatever it is told.
    is_deaf: bool,
    /// Whether its socket has hardly room. What was told to read and finds no room is a thing of
    /// its own thread, and of its own set.
    is_narrow: bool,
    mode: c_int,
    /// What the server was told to wait for.
    wanted: c_int,
    is_registered: bool,
    /// Which call comes next, as long as there is one.
    next: Option<Call>,
    /// Whether the server was told to call again by itself.
    is_on_its_own: bool,
    client: Client,
}

/// How servers drive a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    DoHandshake,
    Accept,
    ReadEarlyData,
    Read,
    Peek,
    Write,
}

/// How far a client is.
enum Client {
    Handshaking(MidHandshakeSslStream<UnixStream>),
    Ended(#[allow(dead_code, reason = "keeps the connection open")] SslStream<UnixStream>),
    Gone,
}

impl<'a> Order<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let mut decisions = Decisions::new(bytes);
        let ways = if decisions.is_chosen() { &Way::ALL[..] } else { &Way::PLAIN };
        let mut servers = vec![Server::own(decisions.one(ways))];
        servers.resize_with(THREADS, || Server::beside(decisions.one(ways)));
        let seen = Seen::default();
        Order { decisions, servers, pairs: Vec::new(), next_number: 0, seen }
    }

    fn step(&mut self) {
        let drawn = Event::by_chance(&mut self.decisions);
        let event = if self.pairs.is_empty() { Event::Connect } else { drawn };
        let index = if event.is_of_one() { self.decisions.below(self.pairs.len()) } else { 0 };
        let is_of_thread = matches!(event, Event::EndThread | Event::BlockThread);
        if is_of_thread && !self.servers[self.pairs[index].home].is_beside() {
            return;
        }
        if event.is_of_one() {
            self.note(event, index);
        }
        match event {
            Event::Connect if self.pairs.len() == CONNECTIONS_MAX => {}
            Event::Connect => self.connect(),
            Event::MoveClient => self.pairs[index].client.go_on(),
            Event::Call => self.call(index),
            Event::CallElsewhere => self.call_elsewhere(index),
            Event::Read => self.read(index),
            Event::Shutdown => self.shut_down(index),
            Event::Look => self.look(index),
            Event::HandOver => {
                let (home, is_told) = (self.decisions.below(THREADS), self.decisions.is_chosen());
                self.hand_over(index, home, is_told);
            }
            Event::EndThread => {
                let home = self.pairs[index].home;
                self.vacate(home);
                self.servers[home].replace();
            }
            Event::BlockThread => {
                let home = self.pairs[index].home;
                self.vacate(home);
                self.servers[home].block();
            }
            Event::Register => self.register(index),
            Event::HangUp => self.pairs[index].hang_up(),
            Event::Free => self.remove(index).server.free(),
            Event::FreeElsewhere => self.free_elsewhere(index),
            Event::CallAndFree => {
                let count = self.pairs.len();
                self.call(index);
                if self.pairs.len() == count {
                    self.remove(index).server.free();
                }
            }
            Event::ClearAndFree => {
                let (home, ssl) = (self.pairs[index].home, Lent(self.pairs[index].server.ssl));
                // SAFETY: a live SSL.
                self.servers[home].run(move || unsafe { SSL_clear(ssl.get()) });
                self.remove(index).server.free();
            }
            Event::Fork => self.fork(index),
            Event::Serve | Event::ServeOrSleep => {
                let server = [0, 0, 0, 1, 2][self.decisions.below(5)];
                let room = 1 + self.decisions.below(ROOM);
                let usual = self.servers[server].way;
                let way = match self.decisions.below(4) {
                    0 if !Way::PLAIN.contains(&usual) => self.decisions.one(&Way::ALL),
                    _ => usual,
                };
                self.serve(server, way, room, c_int::from(event == Event::ServeOrSleep));
            }
            Event::Rest => thread::sleep(REST),
        }
    }

    /// Notes in which state an event meets a handshake.
    fn note(&mut self, event: Event, index: usize) {
        let ssl = self.pairs[index].server.ssl;
        // SAFETY: a live SSL.
        let state = unsafe { SSL_get_state(ssl) };
        // SAFETY: as above.
        let name = unsafe { SSL_state_string(ssl) };
        // SAFETY: a constant of libssl's.
        let name = unsafe { CStr::from_ptr(name) };
        let count = &mut self.seen.states[event as usize][(state as usize).min(STATES - 1)];
        *count = count.saturating_add(1);
        let is_parked = [c"TWSH", c"TWSKE", c"TWSCV"].contains(&name);
        self.seen.parked[event as usize] += usize::from(is_parked);
    }

    /// Only what is reported is called for, until all handshakes have ended.
    fn bring_to_an_end(&mut self) {
        for index in 0..self.pairs.len() {
            if !self.pairs[index].is_registered {
                self.register(index);
            }
        }
        for _ in 0..ROUNDS_MAX {
            self.pairs.iter_mut().for_each(|pair| pair.client.go_on());
            for index in (0..self.pairs.len()).rev() {
                if self.pairs[index].is_on_its_own {
                    self.call(index);
                }
            }
            for server in 0..THREADS {
                self.serve(server, self.servers[server].way, ROOM, 1);
            }
            let is_over = |pair: &Pair| pair.next.is_none() && !pair.client.is_on_the_way();
            while let Some(index) = self.pairs.iter().position(is_over) {
                self.seen.ended += 1;
                self.seen.given_up -= 1;
                self.remove(index).server.free();
            }
            if self.pairs.is_empty() {
                return;
            }
        }
        let described =
            |pair: &Pair| (pair.number, pair.mode, self.servers[pair.home].way, pair.is_deaf);
        let waiting: Vec<_> = self.pairs.iter().map(described).collect();
        panic!("these handshakes never end (number, mode, way, is deaf): {waiting:x?}");
    }

    fn connect(&mut self) {
        // Half of them have the quickest key, so that batches are filled.
        let context = &CONTEXTS[[0, 0, 0, 0, 1, 1, 2, 3][self.decisions.below(8)]];
        let (server, client) = Connection::with_client(context);
        let is_plain = self.servers.iter().all(|server| Way::PLAIN.contains(&server.way));
        let is_narrow = is_plain && self.decisions.is_chosen();
        if is_narrow {
            narrow(&server.socket);
        }
        let is_deaf = !is_narrow && self.decisions.below(4) == 1;
        let mode = self.decisions.one(&MODES);
        let version = self.decisions.one(&[SslVersion::TLS1_2, SslVersion::TLS1_3]);
        let calls = [Call::DoHandshake, Call::Accept, Call::ReadEarlyData];
        let next = Some(self.decisions.one(&calls));
        let (number, wanted) = (self.next_number, libc::EPOLLIN);
        self.next_number += 1;
        // One client in three offers what `--pq` adds.
        let groups = (number % 3 != 0).then_some("X25519:P-256");
        let client = Client::begin(client, version, groups);
        self.pairs.push(Pair {
            number,
            server,
            home: 0,
            is_deaf,
            is_narrow,
            mode,
            wanted,
            is_registered: false,
            next,
            is_on_its_own: false,
            client,
        });
        // Some programs register a connection when they have called for it.
        if self.decisions.below(4) != 1 {
            self.register(self.pairs.len() - 1);
        }
    }

    /// The server calls for a connection, and tells epoll what it was told.
    fn call(&mut self, index: usize) {
        if let Some(call) = self.pairs[index].next {
            self.make(index, call);
        }
    }

    /// The thread that serves a connection makes this call for it.
    fn make(&mut self, index: usize, call: Call) {
        let pair = &self.pairs[index];
        let ssl = Lent(pair.server.ssl);
        let answer = self.servers[pair.home].run(move || call.make(ssl.get()));
        self.take_answer(index, call, answer);
    }

    /// The same from a thread that does not wait for anything.
    fn call_elsewhere(&mut self, index: usize) {
        if let Some(call) = self.pairs[index].next {
            let ssl = Lent(self.pairs[index].server.ssl);
            let thread = thread::spawn(move || call.make(ssl.get()));
            let answer = thread.join().expect("a thread that calls");
            self.take_answer(index, call, answer);
        }
    }

    /// The same by a function that handshakes first. No program writes before a flight that did not
    /// fit: libssl takes that for a shorter retry of the flight, and fails.
    fn read(&mut self, index: usize) {
        let pair = &self.pairs[index];
        if matches!(pair.next, Some(Call::DoHandshake | Call::Accept)) {
            let is_held_up = pair.is_narrow && pair.wanted & libc::EPOLLOUT != 0;
            let calls = [Call::Read, Call::Peek, Call::Write];
            let call = self.decisions.one(if is_held_up { &calls[..2] } else { &calls });
            self.make(index, call);
        }
    }

    /// A connection is not shut down in the middle of its handshake. (One that waits for early data
    /// is, which ends that handshake; no program does so.)
    fn shut_down(&mut self, index: usize) {
        let ssl = self.pairs[index].server.ssl;
        // SAFETY: a live SSL.
        if unsafe { SSL_in_init(ssl) } == 0 {
            return;
        }
        let ssl = Lent(ssl);
        let answer = self.servers[self.pairs[index].home].run(move || {
            drop(ErrorStack::get());
            // SAFETY: a live SSL.
            let result = unsafe { sys::SSL_shutdown(ssl.get()) };
            // SAFETY: as above.
            (result, unsafe { sys::SSL_get_error(ssl.get(), result) })
        });
        // A thread that blocks elsewhere may have finished the handshake meanwhile.
        let is_refused = answer == (-1, sys::SSL_ERROR_SSL);
        assert!(is_refused || answer.0 >= 0 || self.pairs[index].client.is_gone(), "{answer:?}");
    }

    /// There is nothing to read in the middle of a handshake.
    fn look(&mut self, index: usize) {
        let ssl = Lent(self.pairs[index].server.ssl);
        let pending = self.servers[self.pairs[index].home].run(move || {
            // SAFETY: a live SSL.
            unsafe { sys::SSL_pending(ssl.get()) }
        });
        assert_eq!(pending, 0);
    }

    /// Another thread serves a connection from now on.
    fn hand_over(&mut self, index: usize, home: usize, is_told: bool) {
        if !self.servers[home].is_awake() || self.pairs[index].is_narrow {
            return;
        }
        if self.pairs[index].is_registered {
            self.register(index);
        }
        self.pairs[index].home = home;
        if is_told {
            self.register(index);
        }
    }

    /// The test's own thread serves what another one has served.
    fn vacate(&mut self, home: usize) {
        for index in 0..self.pairs.len() {
            if self.pairs[index].home == home {
                self.hand_over(index, 0, true);
            }
        }
    }

    fn take_answer(&mut self, index: usize, call: Call, (result, error): (c_int, c_int)) {
        let pair = &mut self.pairs[index];
        pair.is_on_its_own = false;
        // SAFETY: a live SSL.
        let is_finished = unsafe { sys::SSL_is_init_finished(pair.server.ssl) } == 1;
        match (call, result) {
            (Call::DoHandshake | Call::Accept, 1) => return pair.next = None,
            // What is left of the handshake is driven as usual.
            (Call::ReadEarlyData, 2) => {
                (pair.next, pair.is_on_its_own) = (Some(Call::DoHandshake), true);
                return;
            }
            (Call::Read | Call::Peek, ..=0) if is_finished => return pair.next = None,
            (Call::Write, 1..) => return pair.next = None,
            _ => {}
        }
        pair.wanted = match error {
            sys::SSL_ERROR_WANT_READ => libc::EPOLLIN,
            sys::SSL_ERROR_WANT_WRITE => {
                self.seen.waited_for_room += 1;
                libc::EPOLLIN | libc::EPOLLOUT
            }
            sys::SSL_ERROR_WANT_CLIENT_HELLO_CB => {
                self.seen.waited_for_itself += 1;
                return pair.is_on_its_own = true;
            }
            sys::SSL_ERROR_SYSCALL | sys::SSL_ERROR_SSL if pair.client.is_gone() => {
                return self.remove(index).server.free();
            }
            other => panic!("{call:?} of connection {} fails: {result}, {other}", pair.number),
        };
        // A server with both directions registered for good changes nothing.
        if pair.is_registered && pair.mode & libc::EPOLLOUT == 0 {
            self.control(libc::EPOLL_CTL_MOD, index);
        }
    }

    /// One round of a thread's event loop.
    fn serve(&mut self, server: usize, way: Way, room: usize, timeout: c_int) {
        if !self.servers[server].is_awake() {
            return;
        }
        let mine = |pair: &&Pair| pair.home == server && pair.is_registered;
        let interests: Vec<_> = self.pairs.iter().filter(mine).map(Pair::interest).collect();
        for number in self.servers[server].wait(way, room, timeout, &interests) {
            let is_it = |pair: &Pair| pair.number == number && pair.home == server;
            if let Some(index) = self.pairs.iter().position(is_it) {
                self.call(index);
            }
        }
    }

    fn register(&mut self, index: usize) {
        let operation = match self.pairs[index].is_registered {
            true => libc::EPOLL_CTL_DEL,
            false => libc::EPOLL_CTL_ADD,
        };
        self.control(operation, index);
        self.pairs[index].is_registered ^= true;
    }

    fn control(&self, operation: c_int, index: usize) {
        let pair = &self.pairs[index];
        self.servers[pair.home].control(operation, pair.interest());
    }

    /// Takes a connection away, wherever its handshake stands.
    fn remove(&mut self, index: usize) -> Pair {
        self.seen.given_up += 1;
        if self.pairs[index].is_registered {
            self.register(index);
        }
        self.pairs.swap_remove(index)
    }

    fn free_elsewhere(&mut self, index: usize) {
        let pair = self.remove(index);
        let ssl = Lent(pair.server.ssl);
        // SAFETY: the SSL's only owner now.
        let thread = thread::spawn(move || unsafe { sys::SSL_free(ssl.get()) });
        thread.join().expect("a thread that frees");
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
        assert_eq!(status, 0, "the child frees its copy");
    }
}

/// Leaves a socket room for a record or two.
fn narrow(socket: &UnixStream) {
    let (bytes, size) = (1 as c_int, size_of::<c_int>() as libc::socklen_t);
    let (level, option, value) = (libc::SOL_SOCKET, libc::SO_SNDBUF, (&raw const bytes).cast());
    // SAFETY: a number of its size.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value, size) };
    assert_eq!(done, 0);
}

/// A connection while another thread has it, and nobody else.
struct Lent(*mut sys::SSL);

// SAFETY: whoever lends it waits for the thread.
unsafe impl Send for Lent {}

impl Lent {
    fn get(&self) -> *mut sys::SSL {
        self.0
    }
}

impl Call {
    /// Makes the call: its result, and the error that goes with it.
    fn make(self, ssl: *mut sys::SSL) -> (c_int, c_int) {
        // Errors of others would be taken for this call's.
        drop(ErrorStack::get());
        let mut buffer = [0_u8; 16];
        let (place, mut done) = (buffer.as_mut_ptr().cast::<c_void>(), 0);
        let word = c"word".as_ptr().cast::<c_void>();
        let result = match self {
            // SAFETY: a live SSL.
            Call::DoHandshake => unsafe { sys::SSL_do_handshake(ssl) },
            // SAFETY: a live SSL.
            Call::Accept => unsafe { sys::SSL_accept(ssl) },
            // SAFETY: a live SSL, and room for 16 bytes.
            Call::ReadEarlyData => unsafe { sys::SSL_read_early_data(ssl, place, 16, &mut done) },
            // SAFETY: a live SSL, and room for 16 bytes.
            Call::Read => unsafe { sys::SSL_read(ssl, place, 16) },
            // SAFETY: as above.
            Call::Peek => unsafe { sys::SSL_peek(ssl, place, 16) },
            // SAFETY: a live SSL, and four bytes.
            Call::Write => unsafe { sys::SSL_write(ssl, word, 4) },
        };
        assert_eq!((done, buffer), (0, [0; 16]), "nobody has sent anything");
        // SAFETY: a live SSL, whose last call this thread has made.
        (result, unsafe { sys::SSL_get_error(ssl, result) })
    }
}

impl Pair {
    /// What its server wants to hear of.
    fn interest(&self) -> Interest {
        let wanted = if self.is_deaf { libc::EPOLLIN } else { self.wanted };
        let events = match self.mode & libc::EPOLLOUT {
            0 => wanted | self.mode & (libc::EPOLLET | libc::EPOLLONESHOT),
            _ => self.mode,
        };
        Interest { descriptor: self.server.socket.as_raw_fd(), events, number: self.number }
    }

    fn hang_up(&mut self) {
        self.client = Client::Gone;
        // The client has two handles.
        self.server.client.shutdown(std::net::Shutdown::Both).expect("our own socket");
    }
}

impl Client {
    /// A client that has said hello, with these groups, or those that OpenSSL offers by itself.
    fn begin(stream: UnixStream, version: SslVersion, groups: Option<&str>) -> Self {
        let mut context = SslContext::builder(SslMethod::tls_client()).expect("OpenSSL");
        context.set_verify(SslVerifyMode::NONE);
        context.set_min_proto_version(Some(version)).expect("a version");
        context.set_max_proto_version(Some(version)).expect("a version");
        if let Some(groups) = groups {
            context.set_groups_list(groups).expect("groups");
        }
        stream.set_nonblocking(true).expect("our own socket");
        let ssl = Ssl::new(&context.build()).expect("a client");
        Client::of(ssl.connect(stream))
    }

    fn of(outcome: Result<SslStream<UnixStream>, HandshakeError<UnixStream>>) -> Self {
        match outcome {
            Ok(stream) => Client::Ended(stream),
            Err(HandshakeError::WouldBlock(handshake)) => Client::Handshaking(handshake),
            Err(error) => panic!("a client fails: {error}"),
        }
    }

    fn go_on(&mut self) {
        *self = match mem::replace(self, Client::Gone) {
            Client::Handshaking(handshake) => Client::of(handshake.handshake()),
            other => other,
        };
    }

    fn is_on_the_way(&self) -> bool {
        matches!(self, Client::Handshaking(_))
    }

    fn is_gone(&self) -> bool {
        matches!(self, Client::Gone)
    }
}
