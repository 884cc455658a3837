//! One slot of HTTP/3: a UDP socket, and the QUIC connection that it carries now.
//!
//! QUIC itself is quinn's state machine. A connection ends by `CONNECTION_CLOSE` once the server
//! has confirmed the handshake; no answer to that is awaited.

mod http3;
mod seen;

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quinn_proto::{
    ClientConfig, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointEvent,
    Event, ReadError, StreamEvent, StreamId, TransportConfig, TransportErrorCode, VarInt,
    WriteError,
};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;

use self::http3::Answer;
use self::seen::Seen;
pub use self::seen::{note_group, note_signature, note_ticket};
use crate::configurations::Drawn;
use crate::connection::{Shared, Step};
use crate::load::LoadError;
use crate::plan::Work;
use crate::tally::Failure;
use crate::times::Times;

/// The name by which ALPN knows HTTP/3.
pub const ALPN: &str = "h3";

/// `H3_NO_ERROR`.
const NO_ERROR: VarInt = VarInt::from_u32(0x100);

/// `H3_REQUEST_REJECTED`: the server has not begun with a request.
const REQUEST_REJECTED: VarInt = VarInt::from_u32(0x10b);

/// Datagrams taken before other connections have their turn.
const DATAGRAMS_AT_ONCE: usize = 64;

/// Refusals in a row that may be for chance.
const REFUSALS_MAX: u32 = 3;

/// How long a ticket is awaited once the work is done and the server has confirmed the handshake:
/// it leaves with that, if the server has any.
const TICKET_WAIT: Duration = Duration::from_millis(100);

/// Room for one datagram.
const DATAGRAM_BYTES: usize = 2048;

/// What a server may send ahead of what was read.
const WINDOW_BYTES: u32 = 8 << 20;

/// Bytes that wait in a socket for a client that is busy.
const SOCKET_BYTES: usize = 4 << 20;

/// How to speak QUIC with the TLS of `config`.
pub fn speech(config: Arc<rustls::ClientConfig>) -> Result<ClientConfig, LoadError> {
    let initial = TLS13_AES_128_GCM_SHA256.tls13().and_then(|suite| suite.quic_suite());
    let initial = initial.ok_or(LoadError::Tls13Only("HTTP/3"))?;
    let crypto = quinn_proto::crypto::rustls::QuicClientConfig::with_initial(config, initial);
    let crypto = crypto.map_err(|_| LoadError::Tls13Only("HTTP/3"))?;
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .stream_receive_window(VarInt::from_u32(WINDOW_BYTES))
        .receive_window(VarInt::from_u32(WINDOW_BYTES))
        // A client hardly sends; to search for what fits would be load of another kind.
        .mtu_discovery_config(None);
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(Arc::new(transport));
    Ok(config)
}

/// One slot.
pub struct Connection {
    socket: Option<OwnedFd>,
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, quinn_proto::Connection)>,
    phase: Phase,
    drawn: Drawn,
    seen: Seen,
    /// Attempts that the server refused for what quinn adds at random.
    refusals: u32,
    requests_left: u32,
    request: Option<StreamId>,
    answer: Answer,
    is_answer_whole: bool,
    /// Whether a request was answered: the server may refuse those behind it.
    has_answers: bool,
    times: Option<Times>,
    /// When quinn has something to do by itself.
    alarm: Option<Instant>,
    /// Until when a ticket is awaited.
    ticket_by: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// There is no connection.
    Idle,
    /// The handshake is under way.
    Handshaking,
    /// The client has what it needs; the server is to confirm the handshake, and to send a ticket
    /// if one is wanted.
    Established,
    /// A request awaits its answer.
    Asking,
    /// All is done; goodbye leaves with what is sent next.
    Closing,
}

impl Default for Connection {
    fn default() -> Self {
        Connection {
            socket: None,
            endpoint: Endpoint::new(Arc::default(), None, false, None),
            connection: None,
            phase: Phase::Idle,
            drawn: Drawn::default(),
            seen: Seen::default(),
            refusals: 0,
            requests_left: 0,
            request: None,
            answer: Answer::default(),
            is_answer_whole: false,
            has_answers: false,
            times: None,
            alarm: None,
            ticket_by: None,
        }
    }
}

impl Connection {
    /// Whether there is a connection at present.
    pub fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// When the present connection should have begun, if its work is not done yet.
    pub fn unfinished_since(&self) -> Option<Instant> {
        match self.phase {
            Phase::Idle | Phase::Closing | Phase::Established => None,
            Phase::Asking => self.times.map(|times| times.asked_due),
            Phase::Handshaking => self.times.map(|times| times.due),
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
        assert!(self.is_idle() && self.connection.is_none());
        self.phase = Phase::Handshaking;
        let now = Instant::now();
        self.times = Some(Times::of(due, now));
        if self.socket.is_none() {
            self.socket = Some(socket_for(shared, epoll, slot)?);
        }
        self.drawn = shared.draw();
        self.refusals = 0;
        self.open(now, shared)?;
        self.go_on(now, shared).map(|_| ())
    }

    /// Opens a connection as it was drawn.
    fn open(&mut self, now: Instant, shared: &Shared) -> Result<(), Failure> {
        let name = shared.configurations.server_name(self.drawn).to_str();
        let quic = shared.configurations.configuration(self.drawn).quic.clone();
        let config = quic.ok_or(Failure::Quic("a TLS configuration is not one of QUIC".into()))?;
        let begun = self.endpoint.connect(now, config, shared.target, &name);
        self.connection = Some(begun.map_err(|error| Failure::Quic(error.to_string()))?);
        Ok(())
    }

    /// Goes on after something happened to the socket.
    pub fn proceed(&mut self, flags: EventFlags, shared: &mut Shared) -> Result<Step, Failure> {
        if self.is_idle() || !flags.intersects(EventFlags::IN | EventFlags::ERR) {
            return Ok(Step::Waits);
        }
        let now = Instant::now();
        let is_empty = self.receive(now, shared)?;
        match self.go_on(now, shared)? {
            Step::Waits if !is_empty => Ok(Step::More),
            step => Ok(step),
        }
    }

    /// Does what is due by the clock.
    pub fn tick(&mut self, now: Instant, shared: &mut Shared) -> Result<Step, Failure> {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let (is_alarmed, is_ticket_late) = (is_due(self.alarm), is_due(self.ticket_by));
        match &mut self.connection {
            Some((_, connection)) if is_alarmed || is_ticket_late => {
                if is_alarmed {
                    connection.handle_timeout(now);
                }
                self.go_on(now, shared)
            }
            _ => Ok(Step::Waits),
        }
    }

    /// Gives the connection up or ends it; the socket stays.
    pub fn end(&mut self) {
        self.phase = Phase::Idle;
        self.forget();
        self.request = None;
        self.answer = Answer::default();
        self.is_answer_whole = false;
        self.has_answers = false;
        self.alarm = None;
        self.ticket_by = None;
    }

    fn forget(&mut self) {
        if let Some((handle, _)) = self.connection.take() {
            self.endpoint.handle_event(handle, EndpointEvent::drained());
        }
        self.seen = Seen::default();
    }

    /// Takes datagrams; says whether there are no more.
    fn receive(&mut self, now: Instant, shared: &mut Shared) -> Result<bool, Failure> {
        for _ in 0..DATAGRAMS_AT_ONCE {
            let Some(socket) = &self.socket else { return Ok(true) };
            let room = &mut shared.incoming[..DATAGRAM_BYTES];
            let count = match net::recv(socket, room, RecvFlags::empty()) {
                Ok((_, count)) => count,
                Err(Errno::AGAIN) => return Ok(true),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let datagram = BytesMut::from(&shared.incoming[..count]);
            let (target, reply) = (shared.target, &mut shared.datagram);
            reply.clear();
            let event = self.endpoint.handle(now, target, None, None, datagram, reply);
            // What belongs to no connection would be answered; the server knows better.
            if let Some(DatagramEvent::ConnectionEvent(_, event)) = event
                && let Some((_, connection)) = &mut self.connection
            {
                connection.handle_event(event);
            }
            self.seen.update();
        }
        Ok(false)
    }

    /// Handles what has come of the last events, and sends what is to be sent.
    fn go_on(&mut self, now: Instant, shared: &mut Shared) -> Result<Step, Failure> {
        loop {
            let Some((handle, connection)) = &mut self.connection else { return Ok(Step::Done) };
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(*handle, event) {
                    connection.handle_event(event);
                }
            }
            let Some(event) = connection.poll() else { break };
            match event {
                Event::Connected => self.established(now, shared)?,
                Event::ConnectionLost { reason } if self.is_for_chance(&reason) => {
                    self.refusals += 1;
                    self.forget();
                    self.open(now, shared)?;
                }
                Event::ConnectionLost { reason } if self.is_goodbye(&reason) => {
                    shared.tally.count_done();
                    return Ok(Step::Done);
                }
                Event::ConnectionLost { reason } => return Err(reason.into()),
                Event::Stream(event) => self.follow(event, shared)?,
                _ => {}
            }
        }
        if self.phase == Phase::Established && self.is_confirmed(now, shared) {
            self.phase = Phase::Closing;
        }
        self.transmit(now, shared)?;
        Ok(if self.phase == Phase::Closing { Step::Done } else { Step::Waits })
    }

    /// Counts the handshake, and asks or is done.
    fn established(&mut self, now: Instant, shared: &mut Shared) -> Result<(), Failure> {
        let Some(times) = self.times else { return Ok(()) };
        let is_resumed = !self.seen.signature;
        if !is_resumed && self.seen.group != shared.configurations.configuration(self.drawn).group {
            return Err(Failure::Group(self.seen.group));
        }
        shared.tally.count_handshake(is_resumed, now - times.due, now - times.hello);
        match &shared.work {
            Work::Handshake => {
                self.phase = Phase::Established;
                shared.tally.count_done();
                Ok(())
            }
            Work::Requests { count, .. } => {
                self.requests_left = *count;
                self.open_control()?;
                self.ask(times.due, shared)
            }
        }
    }

    fn open_control(&mut self) -> Result<(), Failure> {
        let Some((_, connection)) = &mut self.connection else { return Ok(()) };
        let stream = connection.streams().open(Dir::Uni).ok_or(NO_STREAM)?;
        write_all(connection, stream, &http3::CONTROL)
    }

    /// Sends the next request, which should have left at `due`.
    fn ask(&mut self, due: Instant, shared: &mut Shared) -> Result<(), Failure> {
        let Work::Requests { path, pattern, .. } = &shared.work else { return Ok(()) };
        let Some((_, connection)) = &mut self.connection else { return Ok(()) };
        self.requests_left = self.requests_left.saturating_sub(1);
        let stream = connection.streams().open(Dir::Bi).ok_or(NO_STREAM)?;
        let request = http3::request(path, shared.configurations.host(self.drawn));
        write_all(connection, stream, &request)?;
        let finished = connection.send_stream(stream).finish();
        finished.map_err(|error| Failure::Quic(error.to_string()))?;
        self.request = Some(stream);
        self.answer = Answer::expecting(*pattern);
        self.is_answer_whole = false;
        self.phase = Phase::Asking;
        if let Some(times) = &mut self.times {
            times.ask(due);
        }
        Ok(())
    }

    /// Reads what has come on streams.
    fn follow(&mut self, event: StreamEvent, shared: &mut Shared) -> Result<(), Failure> {
        match event {
            StreamEvent::Readable { id } => self.read(id, shared),
            StreamEvent::Opened { dir } => {
                while let Some((_, connection)) = &mut self.connection
                    && let Some(id) = connection.streams().accept(dir)
                {
                    self.read(id, shared)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Reads a stream: the answer, or one of the server's own, of which a load need not know.
    fn read(&mut self, id: StreamId, shared: &mut Shared) -> Result<(), Failure> {
        let Some((_, connection)) = &mut self.connection else { return Ok(()) };
        let is_answer = self.request == Some(id);
        let (awaited, before) = (self.answer.status().is_none(), self.answer.body_bytes());
        let mut stream = connection.recv_stream(id);
        // What is closed has nothing to read.
        let Ok(mut chunks) = stream.read(true) else { return Ok(()) };
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) if is_answer => self.answer.take(&chunk.bytes)?,
                Ok(Some(_)) => {}
                Ok(None) if is_answer && !self.answer.is_between_frames() => {
                    return Err(Failure::Answer("an end within a frame"));
                }
                Ok(None) => {
                    self.is_answer_whole |= is_answer;
                    break;
                }
                Err(ReadError::Blocked) => break,
                Err(ReadError::Reset(REQUEST_REJECTED)) if is_answer && self.has_answers => {
                    let _ = chunks.finalize();
                    self.phase = Phase::Established;
                    shared.tally.count_done();
                    return Ok(());
                }
                Err(ReadError::Reset(_)) => return Err(Failure::Closed),
            }
        }
        // Whether that calls for a frame is seen when everything is sent.
        let _ = chunks.finalize();
        if is_answer {
            shared.tally.count_body(self.answer.body_bytes() - before, 0);
            let began = awaited && self.answer.status().is_some();
            self.answered(began, shared)?;
        }
        Ok(())
    }

    /// Counts what has come of an answer; after a whole one, asks again or is done.
    fn answered(&mut self, began: bool, shared: &mut Shared) -> Result<(), Failure> {
        let (Some(times), Work::Requests { body_bytes, .. }) = (self.times, &shared.work) else {
            return Ok(());
        };
        if began {
            shared.tally.count_first_byte(times.asked.elapsed());
        }
        if !self.is_answer_whole {
            return Ok(());
        }
        let status = self.answer.status().ok_or(Failure::Answer("no status"))?;
        if status >= 400 {
            return Err(Failure::Status(status));
        }
        if body_bytes.is_some_and(|expected| expected != self.answer.body_bytes()) {
            return Err(Failure::Answer("a body of another length than expected"));
        }
        let now = Instant::now();
        shared.tally.count_answer(now - times.asked_due);
        self.has_answers = true;
        if self.requests_left > 0 {
            return self.ask(now, shared);
        }
        self.phase = Phase::Established;
        shared.tally.count_done();
        Ok(())
    }

    /// Whether the server has done all that it has to do for the handshake.
    fn is_confirmed(&mut self, now: Instant, shared: &Shared) -> bool {
        let is_confirmed = |(_, connection): &(_, quinn_proto::Connection)| {
            connection.stats().frame_rx.handshake_done > 0
        };
        if !self.connection.as_ref().is_some_and(is_confirmed) {
            return false;
        }
        let ticket_by = *self.ticket_by.get_or_insert(now + TICKET_WAIT);
        let wants_ticket =
            shared.configurations.configuration(self.drawn).keeps_tickets && !self.seen.ticket;
        !wants_ticket || now >= ticket_by
    }

    /// Whether another attempt will do. nginx 1.26 compares 16 bits of a parameter's identifier
    /// alone; quinn adds one of 62 random bits, and once in thousands of times nginx takes it for
    /// another one that it knows, and its value for wrong.
    fn is_for_chance(&self, reason: &ConnectionError) -> bool {
        self.phase == Phase::Handshaking
            && self.refusals < REFUSALS_MAX
            && matches!(reason, ConnectionError::ConnectionClosed(close)
                if close.error_code == TransportErrorCode::TRANSPORT_PARAMETER_ERROR)
    }

    /// Whether the server ends a connection that has served its part, which a request crossed.
    fn is_goodbye(&self, reason: &ConnectionError) -> bool {
        self.phase == Phase::Asking
            && self.has_answers
            && matches!(reason, ConnectionError::ApplicationClosed(close)
                if close.error_code == NO_ERROR)
    }

    /// Sends all that quinn has to send, goodbye included where it is time for that.
    fn transmit(&mut self, now: Instant, shared: &mut Shared) -> Result<(), Failure> {
        let (Some((_, connection)), Some(socket)) = (&mut self.connection, &self.socket) else {
            return Ok(());
        };
        if self.phase == Phase::Closing {
            connection.close(now, NO_ERROR, Bytes::new());
        }
        loop {
            shared.datagram.clear();
            let Some(sent) = connection.poll_transmit(now, 1, &mut shared.datagram) else { break };
            match net::send(socket, &shared.datagram[..sent.size], SendFlags::NOSIGNAL) {
                // What the kernel does not take is lost, as on the way.
                Ok(_) | Err(Errno::AGAIN | Errno::NOBUFS | Errno::PERM) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.alarm = connection.poll_timeout();
        Ok(())
    }
}

const NO_STREAM: Failure = Failure::Answer("no room for another stream");

/// Writes what fits into any window.
fn write_all(
    connection: &mut quinn_proto::Connection,
    stream: StreamId,
    bytes: &[u8],
) -> Result<(), Failure> {
    match connection.send_stream(stream).write(bytes) {
        Ok(written) if written == bytes.len() => Ok(()),
        Ok(_) | Err(WriteError::Blocked) => Err(Failure::Answer("no room for a request")),
        Err(error) => Err(Failure::Quic(error.to_string())),
    }
}

/// A socket for connections of `slot`, watched for what it receives.
fn socket_for(shared: &Shared, epoll: &OwnedFd, slot: usize) -> Result<OwnedFd, Errno> {
    let family = if shared.target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(family, SocketType::DGRAM, flags, None)?;
    net::sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BYTES)?;
    if !shared.sources.is_empty() {
        let source = shared.sources[slot % shared.sources.len()];
        net::bind(&socket, &SocketAddr::new(source, 0))?;
    }
    net::connect(&socket, &shared.target)?;
    epoll::add(epoll, &socket, EventData::new_u64(slot as u64), EventFlags::IN | EventFlags::ET)?;
    Ok(socket)
}
