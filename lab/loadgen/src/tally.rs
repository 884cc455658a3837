//! What a load counted.

use std::collections::BTreeMap;
use std::time::Duration;
use std::{fmt, io};

use hdrhistogram::Histogram;
use quinn_proto::ConnectionError;
use rustix::io::Errno;
use rustls::{CertificateError, NamedGroup, OtherError};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// One measured window of a load, with what the caller observed at both of its edges.
#[derive(Debug)]
pub struct Window<T> {
    /// The caller's observation at the beginning.
    pub begin: T,
    /// The caller's observation at the end.
    pub end: T,
    /// Length of the window.
    pub wall: Duration,
    /// CPU time within the window of the thread of clients that used most.
    pub client_cpu_most: Duration,
    /// Counts and latencies of the handshakes that ended within the window.
    pub tally: Tally,
}

/// Counts and latencies. Those from the start of a connection count from the instant at which it
/// was due, even if the client was late.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Connections that were due.
    pub due: u64,
    /// Connections that were due before any connection of their thread had ended. Nothing can end
    /// for each of these within the window yet, however well the server keeps up.
    pub due_before_any_ended: u64,
    /// Connections that did all that they could do: a server may end one after fewer requests than
    /// were planned.
    pub done: u64,
    /// Full handshakes, as the connection itself reports them.
    pub full: u64,
    /// Handshakes that resumed a session.
    pub resumed: u64,
    /// Handshakes that negotiated encrypt-then-MAC.
    pub encrypt_then_mac: u64,
    /// Whole answers to requests.
    pub answers: u64,
    /// Bytes of bodies, those of unfinished answers included.
    pub body_bytes: u64,
    /// Length of the longest body that a server announced.
    pub body_bytes_announced: u64,
    /// Failures by kind.
    pub errors: BTreeMap<ErrorKind, u64>,
    /// Nanoseconds from the start of a connection until TCP is established.
    pub connect_ns: Histogram<u64>,
    /// Nanoseconds from the ClientHello to the finished handshake.
    pub handshake_ns: Histogram<u64>,
    /// Nanoseconds from the start of a connection to the finished handshake.
    pub latency_ns: Histogram<u64>,
    /// Nanoseconds from a request to the first byte of its answer.
    pub first_byte_ns: Histogram<u64>,
    /// Nanoseconds from the start of a connection to the end of the first answer, and from each
    /// further request to the end of its answer.
    pub answer_ns: Histogram<u64>,
    /// Nanoseconds for which connections were under way that had not done their work when the
    /// window ended.
    pub unfinished_ns: Histogram<u64>,
}

impl Tally {
    /// A tally with nothing counted yet.
    pub fn new() -> Self {
        let histogram = || {
            Histogram::new_with_bounds(LATENCY_NS_MIN, LATENCY_NS_MAX, 3).expect("bounds in order")
        };
        Tally {
            due: 0,
            due_before_any_ended: 0,
            done: 0,
            full: 0,
            resumed: 0,
            encrypt_then_mac: 0,
            answers: 0,
            body_bytes: 0,
            body_bytes_announced: 0,
            errors: BTreeMap::new(),
            connect_ns: histogram(),
            handshake_ns: histogram(),
            latency_ns: histogram(),
            first_byte_ns: histogram(),
            answer_ns: histogram(),
            unfinished_ns: histogram(),
        }
    }

    /// Adds another tally to this one. Those of other hosts may tell anything: no sum wraps.
    pub fn add(&mut self, other: &Tally) {
        for (ours, theirs) in [
            (&mut self.due, other.due),
            (&mut self.due_before_any_ended, other.due_before_any_ended),
            (&mut self.done, other.done),
            (&mut self.full, other.full),
            (&mut self.resumed, other.resumed),
            (&mut self.encrypt_then_mac, other.encrypt_then_mac),
            (&mut self.answers, other.answers),
            (&mut self.body_bytes, other.body_bytes),
        ] {
            *ours = ours.saturating_add(theirs);
        }
        self.body_bytes_announced = self.body_bytes_announced.max(other.body_bytes_announced);
        for (kind, count) in &other.errors {
            let ours = self.errors.entry(*kind).or_default();
            *ours = ours.saturating_add(*count);
        }
        for (ours, theirs) in self.histograms_mut().into_iter().zip(other.histograms()) {
            ours.add(theirs).expect("histograms of equal bounds");
        }
    }

    /// All histograms, in an order that stays.
    pub fn histograms(&self) -> [&Histogram<u64>; 6] {
        [
            &self.connect_ns,
            &self.handshake_ns,
            &self.latency_ns,
            &self.first_byte_ns,
            &self.answer_ns,
            &self.unfinished_ns,
        ]
    }

    /// All histograms, in the same order.
    pub fn histograms_mut(&mut self) -> [&mut Histogram<u64>; 6] {
        [
            &mut self.connect_ns,
            &mut self.handshake_ns,
            &mut self.latency_ns,
            &mut self.first_byte_ns,
            &mut self.answer_ns,
            &mut self.unfinished_ns,
        ]
    }

    /// Finished handshakes of both kinds.
    pub fn handshakes(&self) -> u64 {
        self.full.saturating_add(self.resumed)
    }

    /// Failures of all kinds.
    pub fn failures(&self) -> u64 {
        self.errors.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    pub(crate) fn count_due(&mut self, has_any_ended: bool) {
        self.due += 1;
        self.due_before_any_ended += u64::from(!has_any_ended);
    }

    pub(crate) fn count_connect(&mut self, latency: Duration) {
        record(&mut self.connect_ns, latency);
    }

    pub(crate) fn count_handshake(&mut self, resumed: bool, latency: Duration, tls: Duration) {
        *(if resumed { &mut self.resumed } else { &mut self.full }) += 1;
        record(&mut self.latency_ns, latency);
        record(&mut self.handshake_ns, tls);
    }

    pub(crate) fn count_first_byte(&mut self, latency: Duration) {
        record(&mut self.first_byte_ns, latency);
    }

    pub(crate) fn count_body(&mut self, bytes: u64, announced: u64) {
        self.body_bytes += bytes;
        self.body_bytes_announced = self.body_bytes_announced.max(announced);
    }

    pub(crate) fn count_answer(&mut self, latency: Duration) {
        self.answers += 1;
        record(&mut self.answer_ns, latency);
    }

    pub(crate) fn count_done(&mut self) {
        self.done += 1;
    }

    pub(crate) fn count_failure(&mut self, failure: &Failure) {
        *self.errors.entry(ErrorKind::of(failure)).or_default() += 1;
    }

    pub(crate) fn count_unfinished(&mut self, age: Duration) {
        record(&mut self.unfinished_ns, age);
    }
}

impl Default for Tally {
    fn default() -> Self {
        Tally::new()
    }
}

fn record(histogram: &mut Histogram<u64>, latency: Duration) {
    histogram.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
}

/// Resolution of the histograms.
const LATENCY_NS_MIN: u64 = 100;

/// Latencies above are counted as this much.
const LATENCY_NS_MAX: u64 = 100_000_000_000;

/// Kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ErrorKind {
    /// No server listens.
    Refused,
    /// The server reset the connection.
    Reset,
    /// The server closed the connection in the middle of the handshake or of an answer.
    Closed,
    /// The connection took longer than the client's patience.
    Timeout,
    /// The server sent a fatal alert.
    Alert,
    /// Neither a pinned certificate nor one that an authority vouches for.
    Certificate,
    /// The server's signature does not verify.
    Signature,
    /// The server took another key-exchange group than the one to be measured.
    Group,
    /// Any other violation of TLS.
    Protocol,
    /// Not the answer expected, or none that HTTP knows.
    Answer,
    /// An answer with a status from 400 on.
    Status,
    /// Any other error of the operating system.
    System,
}

impl ErrorKind {
    /// The kind's name in results.
    pub const fn name(self) -> &'static str {
        match self {
            ErrorKind::Refused => "refused",
            ErrorKind::Reset => "reset",
            ErrorKind::Closed => "closed",
            ErrorKind::Timeout => "timeout",
            ErrorKind::Alert => "alert",
            ErrorKind::Certificate => "certificate",
            ErrorKind::Signature => "signature",
            ErrorKind::Group => "group",
            ErrorKind::Protocol => "protocol",
            ErrorKind::Answer => "answer",
            ErrorKind::Status => "status",
            ErrorKind::System => "system",
        }
    }

    fn of_lost(reason: &ConnectionError) -> Self {
        const ALERTS: std::ops::Range<u64> = 0x100..0x200;
        match reason {
            ConnectionError::ConnectionClosed(close)
                if ALERTS.contains(&u64::from(close.error_code)) =>
            {
                ErrorKind::Alert
            }
            ConnectionError::ConnectionClosed(_) | ConnectionError::ApplicationClosed(_) => {
                ErrorKind::Closed
            }
            ConnectionError::Reset => ErrorKind::Reset,
            ConnectionError::TimedOut => ErrorKind::Timeout,
            _ => ErrorKind::Protocol,
        }
    }

    pub(crate) fn of(failure: &Failure) -> Self {
        match failure {
            Failure::System(error) => match error.kind() {
                io::ErrorKind::ConnectionRefused => ErrorKind::Refused,
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => ErrorKind::Reset,
                io::ErrorKind::TimedOut => ErrorKind::Timeout,
                _ => ErrorKind::System,
            },
            Failure::Tls(rustls::Error::InvalidCertificate(CertificateError::BadSignature)) => {
                ErrorKind::Signature
            }
            Failure::Tls(rustls::Error::InvalidCertificate(_)) => ErrorKind::Certificate,
            Failure::Tls(rustls::Error::AlertReceived(_)) => ErrorKind::Alert,
            Failure::Ports => ErrorKind::System,
            Failure::Lost(reason) => ErrorKind::of_lost(reason),
            Failure::Quic(_) => ErrorKind::Protocol,
            Failure::Tls(_) | Failure::Exhausted => ErrorKind::Protocol,
            Failure::Closed => ErrorKind::Closed,
            Failure::Group(_) => ErrorKind::Group,
            Failure::Patience => ErrorKind::Timeout,
            Failure::Answer(_) => ErrorKind::Answer,
            Failure::Status(_) => ErrorKind::Status,
        }
    }
}

/// Why one connection failed.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// The operating system says so.
    #[error(transparent)]
    System(io::Error),
    /// Nothing is left to connect from.
    #[error(
        "no port is left to connect from, or no such address; give more addresses of this host"
    )]
    Ports,
    /// TLS says so.
    #[error("{}", said(.0))]
    Tls(#[from] rustls::Error),
    /// QUIC says so.
    #[error("{0}")]
    Quic(String),
    /// The server ended a connection of QUIC.
    #[error("{0}")]
    Lost(#[from] ConnectionError),
    /// The server closed the connection.
    #[error("the server closed the connection too early")]
    Closed,
    /// The handshake used another key-exchange group than the one to be measured.
    #[error("the server took {} for the key exchange", taken(.0))]
    Group(Option<NamedGroup>),
    /// Nothing more can be encrypted.
    #[error("the session has sent all that it can send")]
    Exhausted,
    /// The answer is not what it should be.
    #[error("the server's answer has {0}")]
    Answer(&'static str),
    /// The server refuses the request.
    #[error("the server answers with status {0}")]
    Status(u16),
    /// It took too long.
    #[error("the server took too long")]
    Patience,
}

/// The group that a server took, by its number where rustls has no name.
fn taken(group: &Option<NamedGroup>) -> String {
    match group {
        Some(NamedGroup::Unknown(number)) => format!("group {number:#06x}"),
        Some(group) => format!("{group:?}"),
        None => "no group".to_owned(),
    }
}

/// What an error of TLS says; of errors that are not its own, rustls writes only the name.
fn said(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(reason))) => {
            format!("invalid peer certificate: {reason}")
        }
        error => error.to_string(),
    }
}

impl From<Errno> for Failure {
    fn from(error: Errno) -> Self {
        match error {
            Errno::ADDRNOTAVAIL | Errno::ADDRINUSE => Failure::Ports,
            error => Failure::System(error.into()),
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
