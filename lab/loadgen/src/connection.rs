//! One slot: a socket that connects again and again, and the TLS session that it carries now.
//!
//! Nothing is made anew that can be kept. A connection that is over is disconnected, which resets
//! what only the kernel still knows and leaves no TIME_WAIT, and its socket connects again. Data
//! goes out in one piece per flight: `close_notify` or the first request with Finished, where
//! the protocol allows it.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto};

use crate::configurations::{Configurations, Drawn};
use crate::http::{self, Answer};
use crate::plan::{Plan, Work};
use crate::session::{Outgoing, Session};
use crate::tally::{Failure, Tally};
use crate::times::Times;

/// What all connections of a thread use.
pub struct Shared {
    /// Where the server listens.
    pub target: SocketAddr,
    /// Where connections come from, in turn; anywhere if there are none.
    pub sources: Vec<IpAddr>,
    /// What a connection does after its handshake.
    pub work: Work,
    /// Configurations to draw from.
    pub configurations: Configurations,
    /// Counts and latencies.
    pub tally: Tally,
    /// Makes the draws.
    pub random: fastrand::Rng,
    /// Connections begun so far.
    begun: usize,
    /// Room for what is received.
    pub incoming: Vec<u8>,
    /// Room for a datagram to be sent.
    pub datagram: Vec<u8>,
    outgoing: Outgoing,
}

impl Shared {
    /// Prepares connections of `plan`, of which none has begun.
    pub fn new(plan: &Plan, configurations: Configurations, random: fastrand::Rng) -> Self {
        Shared {
            target: plan.target,
            sources: plan.sources.clone(),
            work: plan.work.clone(),
            configurations,
            tally: Tally::new(),
            random,
            begun: 0,
            incoming: vec![0; INCOMING_BYTES],
            datagram: Vec::new(),
            outgoing: Outgoing::new(),
        }
    }

    /// Draws what the next connection offers.
    pub fn draw(&mut self) -> Drawn {
        let turn = self.begun;
        self.begun = turn.wrapping_add(1);
        self.configurations.draw(turn, &mut self.random)
    }
}

/// Bytes taken from a socket at once: several records of full size.
const INCOMING_BYTES: usize = 128 << 10;

/// Reads before other connections have their turn.
const READS_AT_ONCE: usize = 8;

/// Whether a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It waits for the server.
    Waits,
    /// There is more to read than others should wait for.
    More,
    /// It has done its work.
    Done,
}

/// One slot.
#[derive(Default)]
pub struct Connection {
    socket: Option<OwnedFd>,
    phase: Phase,
    session: Option<Session>,
    drawn: Drawn,
    /// The beginning of a record whose end has not come yet.
    unread: Vec<u8>,
    /// What the kernel would not take yet.
    unsent: Vec<u8>,
    requests_left: u32,
    answer: Answer,
    times: Option<Times>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// There is no connection.
    #[default]
    Idle,
    /// TCP is not established.
    Connecting,
    /// TLS is not established.
    Handshaking,
    /// A request awaits its answer.
    Asking,
    /// Goodbye is said; the server will close.
    Closing,
}

impl Connection {
    /// Whether there is a connection at present.
    pub fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// When the present connection should have begun, if its work is not done yet.
    pub fn unfinished_since(&self) -> Option<Instant> {
        match self.phase {
            Phase::Idle | Phase::Closing => None,
            Phase::Asking => self.times.map(|times| times.asked_due),
            Phase::Connecting | Phase::Handshaking => self.times.map(|times| times.due),
        }
    }

    /// When the present connection, or its last request, has begun.
    pub fn begun(&self) -> Option<Instant> {
        self.times.map(|times| times.begun).filter(|_| !self.is_idle())
    }

    /// Begins a connection that should have begun at `due`. Events of it will carry `slot`.
    pub fn begin(
        &mut self,
        due: Instant,
        epoll: &OwnedFd,
        slot: usize,
        shared: &mut Shared,
    ) -> Result<(), Failure> {
        assert!(self.is_idle() && self.unread.is_empty() && self.unsent.is_empty());
        self.phase = Phase::Connecting;
        let now = Instant::now();
        self.times = Some(Times::of(due, now));
        let socket = match &self.socket {
            Some(socket) => socket,
            None => self.socket.insert(socket_for(shared, epoll, slot)?),
        };
        match net::connect(socket, &shared.target) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        self.drawn = shared.draw();
        let configuration = shared.configurations.configuration(self.drawn);
        let name = shared.configurations.server_name(self.drawn);
        shared.outgoing.clear();
        self.session = Some(Session::open(&configuration.speech, name, &mut shared.outgoing)?);
        // Over loopback the connection is there already.
        self.transmit(shared)
    }

    /// Goes on after something happened to the socket.
    pub fn proceed(&mut self, flags: EventFlags, shared: &mut Shared) -> Result<Step, Failure> {
        if self.is_idle() {
            return Ok(Step::Waits);
        }
        if self.phase == Phase::Connecting
            && flags.intersects(EventFlags::ERR | EventFlags::HUP)
            && let Some(socket) = &self.socket
        {
            net::sockopt::socket_error(socket)??;
        }
        if flags.contains(EventFlags::OUT) && !self.unsent.is_empty() {
            shared.outgoing.clear();
            self.transmit(shared)?;
        }
        let ending = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        if !ending && !flags.contains(EventFlags::IN) {
            return Ok(Step::Waits);
        }
        self.receive(ending, shared)
    }

    /// Gives the connection up or ends it; the socket stays if it may connect again.
    pub fn end(&mut self) {
        self.phase = Phase::Idle;
        self.session = None;
        self.unread.clear();
        self.unsent.clear();
        self.answer = Answer::default();
        if self.socket.as_ref().is_some_and(|socket| net::connect_unspec(socket).is_err()) {
            self.socket = None;
        }
    }

    /// Reads what there is; `ending` says that the end may be behind it.
    fn receive(&mut self, ending: bool, shared: &mut Shared) -> Result<Step, Failure> {
        for _ in 0..READS_AT_ONCE {
            let begun = self.unread.len();
            shared.incoming[..begun].copy_from_slice(&self.unread);
            let Some(socket) = &self.socket else { return Ok(Step::Waits) };
            let room = &mut shared.incoming[begun..];
            let room_bytes = room.len();
            let count = match net::recv(socket, room, RecvFlags::empty()) {
                Ok((_, count)) => count,
                Err(Errno::AGAIN) => return Ok(Step::Waits),
                Err(Errno::INTR) => continue,
                Err(Errno::CONNRESET) if self.phase == Phase::Closing => return Ok(Step::Done),
                Err(error) => return Err(error.into()),
            };
            if count == 0 {
                return self.closed_by_server(shared);
            }
            self.unread.clear();
            self.take(begun + count, shared)?;
            if count < room_bytes && !ending {
                return Ok(Step::Waits);
            }
        }
        Ok(Step::More)
    }

    /// Takes the first `count` bytes of what came in.
    fn take(&mut self, count: usize, shared: &mut Shared) -> Result<(), Failure> {
        let keeps_tickets = shared.configurations.configuration(self.drawn).keeps_tickets;
        if self.phase == Phase::Closing && !keeps_tickets {
            return Ok(());
        }
        let Some(session) = &mut self.session else { return Ok(()) };
        shared.outgoing.clear();
        let answer = &mut self.answer;
        let (awaited, body_before) = (answer.is_awaited(), answer.body_bytes());
        let taken = session.receive(
            &mut shared.incoming[..count],
            &mut shared.outgoing,
            |plain| match self.phase {
                Phase::Asking => answer.take(plain),
                _ => Ok(()),
            },
        )?;
        self.unread.extend_from_slice(&shared.incoming[taken..count]);
        match self.phase {
            Phase::Handshaking if !session.is_handshaking() => self.established(shared)?,
            Phase::Asking => {
                let bytes = answer.body_bytes() - body_before;
                shared.tally.count_body(bytes, answer.body_bytes_announced());
                let began = awaited && !answer.is_awaited();
                self.answered(began, shared)?;
            }
            _ => {}
        }
        self.transmit(shared)
    }

    /// Counts the handshake, and asks or says goodbye with the client's last flight.
    fn established(&mut self, shared: &mut Shared) -> Result<(), Failure> {
        let (Some(session), Some(times)) = (&self.session, &self.times) else { return Ok(()) };
        let group = shared.configurations.configuration(self.drawn).group;
        let resumed = session.is_resumed();
        if !resumed && session.group() != group {
            return Err(Failure::Group(session.group()));
        }
        let now = Instant::now();
        shared.tally.count_handshake(resumed, now - times.due, now - times.hello);
        shared.tally.encrypt_then_mac += u64::from(session.encrypts_then_macs());
        match &shared.work {
            Work::Handshake => self.say_goodbye(shared),
            Work::Requests { count, .. } => {
                self.requests_left = *count;
                let due = times.due;
                self.ask(due, shared)
            }
        }
    }

    /// Sends the next request, which should have left at `due`.
    fn ask(&mut self, due: Instant, shared: &mut Shared) -> Result<(), Failure> {
        let Work::Requests { path, pattern, .. } = &shared.work else { return Ok(()) };
        let Some(session) = &mut self.session else { return Ok(()) };
        self.requests_left = self.requests_left.saturating_sub(1);
        let host = shared.configurations.host(self.drawn);
        let request = http::request(path, host, self.requests_left == 0);
        session.send(&request, &mut shared.outgoing)?;
        self.answer = Answer::expecting(*pattern);
        self.phase = Phase::Asking;
        if let Some(times) = &mut self.times {
            times.ask(due);
        }
        Ok(())
    }

    /// Counts what has come of an answer; after a whole one, asks again or says goodbye.
    fn answered(&mut self, began: bool, shared: &mut Shared) -> Result<(), Failure> {
        let Some(times) = self.times else { return Ok(()) };
        if began {
            shared.tally.count_first_byte(times.asked.elapsed());
        }
        if !self.answer.is_complete() {
            return Ok(());
        }
        let now = Instant::now();
        self.count_answer(now, shared)?;
        if self.requests_left > 0 && !self.answer.is_last() {
            self.ask(now, shared)
        } else {
            self.say_goodbye(shared)
        }
    }

    /// Counts a whole answer, unless it is not the one expected.
    fn count_answer(&mut self, now: Instant, shared: &mut Shared) -> Result<(), Failure> {
        let (Work::Requests { body_bytes, .. }, Some(times)) = (&shared.work, self.times) else {
            return Ok(());
        };
        if self.answer.status() >= 400 {
            return Err(Failure::Status(self.answer.status()));
        }
        if body_bytes.is_some_and(|expected| expected != self.answer.body_bytes()) {
            return Err(Failure::Answer("a body of another length than expected"));
        }
        shared.tally.count_answer(now - times.asked_due);
        Ok(())
    }

    fn say_goodbye(&mut self, shared: &mut Shared) -> Result<(), Failure> {
        self.phase = Phase::Closing;
        shared.tally.count_done();
        match &mut self.session {
            Some(session) => session.close(&mut shared.outgoing),
            None => Ok(()),
        }
    }

    fn closed_by_server(&mut self, shared: &mut Shared) -> Result<Step, Failure> {
        match self.phase {
            Phase::Closing => Ok(Step::Done),
            Phase::Asking if self.answer.ends_with_connection() => {
                self.count_answer(Instant::now(), shared)?;
                shared.tally.count_done();
                Ok(Step::Done)
            }
            _ => Err(Failure::Closed),
        }
    }

    /// Sends what is unsent and then what is outgoing, and keeps what the kernel does not take.
    fn transmit(&mut self, shared: &mut Shared) -> Result<(), Failure> {
        let Some(socket) = &self.socket else { return Ok(()) };
        let outgoing = shared.outgoing.bytes();
        let joined = !self.unsent.is_empty();
        if joined {
            self.unsent.extend_from_slice(outgoing);
        }
        let bytes = if joined { &self.unsent[..] } else { outgoing };
        if bytes.is_empty() {
            return Ok(());
        }
        let began = (self.phase == Phase::Connecting).then(Instant::now);
        let sent = match net::send(socket, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => sent,
            Err(Errno::AGAIN) => 0,
            // The server has closed without waiting for our goodbye.
            Err(Errno::PIPE | Errno::CONNRESET) if self.phase == Phase::Closing => bytes.len(),
            Err(error) => return Err(error.into()),
        };
        if joined {
            self.unsent.drain(..sent);
        } else {
            self.unsent.extend_from_slice(&outgoing[sent..]);
        }
        if sent > 0
            && let Some((began, times)) = began.zip(self.times.as_mut())
        {
            self.phase = Phase::Handshaking;
            times.hello = began;
            shared.tally.count_connect(began - times.due);
        }
        Ok(())
    }
}

/// A socket for connections of `slot`, watched for all that can happen to it.
fn socket_for(shared: &Shared, epoll: &OwnedFd, slot: usize) -> Result<OwnedFd, Errno> {
    let family = if shared.target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    net::sockopt::set_tcp_nodelay(&socket, true)?;
    if !shared.sources.is_empty() {
        let source = shared.sources[slot % shared.sources.len()];
        net::bind(&socket, &SocketAddr::new(source, 0))?;
    }
    let interest = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
    epoll::add(epoll, &socket, EventData::new_u64(slot as u64), interest)?;
    Ok(socket)
}
