//! The embedded server: the smallest epoll server on libssl that behaves like nginx.
//!
//! Edge-triggered readiness, non-blocking handshakes on the socket itself, one thread. It links the
//! system's libssl dynamically, so `widelane run` accelerates it the way it accelerates nginx. It
//! is what `widelane compare` measures where no server is installed.
#![allow(unsafe_code, reason = "the handshake is driven by libssl's own calls")]

use std::ffi::c_int;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::path::Path;

use foreign_types::ForeignTypeRef;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use openssl::error::ErrorStack;
use openssl::ssl::{
    ErrorCode, Ssl, SslContext, SslFiletype, SslMethod, SslOptions, SslSessionCacheMode, SslVersion,
};
use openssl_sys as ffi;
use thiserror::Error;

use crate::server::content;

const LISTENER: Token = Token(usize::MAX - 1);

/// Answer to whatever a client asks, unless it asks for a body.
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// Why the embedded server ended.
#[derive(Debug, Error)]
pub enum EmbeddedError {
    /// The key or certificate is not accepted.
    #[error("the certificate, the key or a group is not accepted")]
    Identity(#[from] ErrorStack),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The event loop failed.
    #[error("the event loop failed")]
    Loop(#[from] io::Error),
}

/// Serves TLS on `address` until the process is ended, with `groups` as OpenSSL reads them.
/// `identities` are certificate chains with their private keys; the client's signature algorithms
/// decide which one it is shown.
///
/// # Errors
///
/// See [`EmbeddedError`].
pub fn serve(
    address: SocketAddr,
    identities: &[(&Path, &Path)],
    groups: &str,
) -> Result<(), EmbeddedError> {
    let context = context(identities, groups)?;
    let listen = |source| EmbeddedError::Listen { address, source };
    let mut listener = TcpListener::bind(address).map_err(listen)?;
    let mut poll = Poll::new()?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut crowd = Crowd { context, slots: Vec::new(), free: Vec::new() };
    let mut events = Events::with_capacity(512);
    loop {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            outcome => outcome?,
        }
        for event in &events {
            match event.token() {
                LISTENER => crowd.accept_all(&listener, &poll)?,
                Token(slot) => crowd.advance(slot),
            }
        }
    }
}

fn context(identities: &[(&Path, &Path)], groups: &str) -> Result<SslContext, ErrorStack> {
    let mut builder = SslContext::builder(SslMethod::tls_server())?;
    builder.set_min_proto_version(Some(SslVersion::TLS1_2))?;
    builder.set_options(SslOptions::NO_TICKET);
    builder.set_num_tickets(0)?;
    builder.set_session_cache_mode(SslSessionCacheMode::OFF);
    builder.set_groups_list(groups)?;
    for (certificate, private_key) in identities {
        builder.set_certificate_chain_file(certificate)?;
        builder.set_private_key_file(private_key, SslFiletype::PEM)?;
        builder.check_private_key()?;
    }
    Ok(builder.build())
}

/// All connections, by slot.
struct Crowd {
    context: SslContext,
    slots: Vec<Option<Connection>>,
    free: Vec<usize>,
}

impl Crowd {
    /// Accepts until no connection is waiting, since the next edge comes only after that.
    fn accept_all(&mut self, listener: &TcpListener, poll: &Poll) -> io::Result<()> {
        loop {
            let mut stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // The client is gone already.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error),
            };
            let slot = self.free.pop().unwrap_or_else(|| {
                self.slots.push(None);
                self.slots.len() - 1
            });
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry().register(&mut stream, Token(slot), interest)?;
            self.slots[slot] = Some(Connection::new(&self.context, stream)?);
            self.advance(slot);
        }
    }

    /// Moves a connection on as far as it goes; forgets it when it is over.
    fn advance(&mut self, slot: usize) {
        // An event for a connection that ended earlier in the same round finds nothing.
        if let Some(Some(connection)) = self.slots.get_mut(slot)
            && connection.advance() == Progress::Over
        {
            self.slots[slot] = None;
            self.free.push(slot);
        }
    }
}

#[derive(PartialEq, Eq)]
enum Progress {
    Waiting,
    Over,
}

/// One connection. The session is freed before the socket is closed, as servers do.
struct Connection {
    ssl: Ssl,
    _stream: TcpStream,
    established: bool,
    /// The answer, once the client has asked.
    answer: Option<Answer>,
}

/// An answer on its way.
struct Answer {
    head: Vec<u8>,
    head_sent: usize,
    bytes: u64,
    sent: u64,
}

impl Answer {
    fn to(request: &[u8]) -> Self {
        let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let bytes = content::requested(&String::from_utf8_lossy(line));
        let head = bytes.map_or(ANSWER.to_vec(), |bytes| content::head(bytes).into_bytes());
        Answer { head, head_sent: 0, bytes: bytes.unwrap_or_default(), sent: 0 }
    }

    /// What is to be sent next; nothing at the end.
    fn rest(&self) -> &[u8] {
        match &self.head[self.head_sent..] {
            [] => content::rest(self.sent, self.bytes),
            head => head,
        }
    }

    fn count(&mut self, sent: usize) {
        if self.head_sent < self.head.len() {
            self.head_sent += sent;
        } else {
            self.sent += sent as u64;
        }
    }
}

impl Connection {
    fn new(context: &SslContext, stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let mut ssl = Ssl::new(context)?;
        ssl.set_accept_state();
        // SAFETY: makes a BIO on a descriptor that outlives it (see the order of the fields); the
        // BIO does not close it.
        let bio = unsafe { ffi::BIO_new_socket(stream.as_raw_fd(), 0) };
        if bio.is_null() {
            return Err(ErrorStack::get().into());
        }
        // SAFETY: `ssl` is live; it takes over the one reference to `bio`, for both directions.
        unsafe { ffi::SSL_set_bio(ssl.as_ptr(), bio, bio) };
        Ok(Connection { ssl, _stream: stream, established: false, answer: None })
    }

    fn advance(&mut self) -> Progress {
        if !self.established {
            match self.call(|ssl| {
                // SAFETY: `ssl` is live and has a BIO.
                unsafe { ffi::SSL_do_handshake(ssl) }
            }) {
                Ok(_) => self.established = true,
                Err(progress) => return progress,
            }
        }
        self.converse()
    }

    /// Answers the first thing that the client says, or its goodbye, and ends.
    fn converse(&mut self) -> Progress {
        if self.answer.is_none() {
            let mut request = [0u8; 4096];
            let read = self.call(|ssl| {
                // SAFETY: `request` is as long as is said and lives through the call.
                unsafe { ffi::SSL_read(ssl, request.as_mut_ptr().cast(), request.len() as c_int) }
            });
            match read {
                Err(Progress::Waiting) => return Progress::Waiting,
                Err(Progress::Over) => {}
                Ok(length) => self.answer = Some(Answer::to(&request[..length as usize])),
            }
        }
        if let Some(answer) = self.answer.take()
            && let Some(unfinished) = self.send(answer)
        {
            self.answer = Some(unfinished);
            return Progress::Waiting;
        }
        let _ = self.call(|ssl| {
            // SAFETY: `ssl` is live. libssl refuses by itself to shut down a session that has
            // failed.
            unsafe { ffi::SSL_shutdown(ssl) }
        });
        Progress::Over
    }

    /// Sends as much of `answer` as the socket takes; returns it if it is to be gone on with. A
    /// call that could not send is repeated with the same bytes, as libssl wants it.
    fn send(&mut self, mut answer: Answer) -> Option<Answer> {
        loop {
            let rest = answer.rest();
            if rest.is_empty() {
                return None;
            }
            let sent = self.call(|ssl| {
                // SAFETY: `rest` is as long as is said and lives through the call.
                unsafe { ffi::SSL_write(ssl, rest.as_ptr().cast(), rest.len() as c_int) }
            });
            match sent {
                Ok(length) => answer.count(length as usize),
                Err(Progress::Waiting) => return Some(answer),
                Err(Progress::Over) => return None,
            }
        }
    }

    /// Makes one call to libssl and translates its outcome.
    fn call(&mut self, call: impl FnOnce(*mut ffi::SSL) -> c_int) -> Result<c_int, Progress> {
        let ssl = self.ssl.as_ptr();
        // SAFETY: clears this thread's error queue, on which the answer of SSL_get_error depends.
        unsafe { ffi::ERR_clear_error() };
        let outcome = call(ssl);
        if outcome > 0 {
            return Ok(outcome);
        }
        // SAFETY: `ssl` is live and `outcome` is what the call just returned.
        let reason = ErrorCode::from_raw(unsafe { ffi::SSL_get_error(ssl, outcome) });
        Err(match reason {
            ErrorCode::WANT_READ | ErrorCode::WANT_WRITE => Progress::Waiting,
            _ => Progress::Over,
        })
    }
}
