//! What a load counted.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
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
    /// CPU time of the client's thread within the window.
    pub client_cpu: Duration,
    /// Counts and latencies of the handshakes that ended within the window.
    pub tally: Tally,
}

/// Counts and latencies.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Full handshakes, as the connection itself reports them.
    pub full: u64,
    /// Handshakes that resumed a session.
    pub resumed: u64,
    /// Failures by kind.
    pub errors: BTreeMap<ErrorKind, u64>,
    /// Nanoseconds from the start of TCP connect to the finished handshake.
    pub latency_ns: Histogram<u64>,
    /// Nanoseconds from the ClientHello to the finished handshake.
    pub handshake_ns: Histogram<u64>,
}

impl Tally {
    pub(crate) fn new() -> Self {
        let histogram = || {
            Histogram::new_with_bounds(LATENCY_NS_MIN, LATENCY_NS_MAX, 3).expect("bounds in order")
        };
        Tally {
            full: 0,
            resumed: 0,
            errors: BTreeMap::new(),
            latency_ns: histogram(),
            handshake_ns: histogram(),
        }
    }
}

/// Resolution of the histograms.
const LATENCY_NS_MIN: u64 = 100;

/// Latencies above are counted as this much.
const LATENCY_NS_MAX: u64 = 100_000_000_000;

/// Kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorKind {
    /// Nobody listens.
    Refused,
    /// The server reset the connection.
    Reset,
    /// The server closed the connection in the middle of the handshake.
    Closed,
    /// The connection took longer than the client's patience.
    Timeout,
    /// The server sent a fatal alert.
    Alert,
    /// Not the pinned certificate.
    Certificate,
    /// The server's signature does not verify.
    Signature,
    /// The server took another key-exchange group than the one to be measured.
    Group,
    /// Any other violation of the protocol.
    Protocol,
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
            ErrorKind::System => "system",
        }
    }

    pub(crate) fn of(error: &std::io::Error) -> Self {
        use std::io::ErrorKind as Io;
        if error.get_ref().is_some_and(|inner| inner.is::<OtherGroup>()) {
            return ErrorKind::Group;
        }
        if let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            return match tls {
                rustls::Error::InvalidCertificate(rustls::CertificateError::BadSignature) => {
                    ErrorKind::Signature
                }
                rustls::Error::InvalidCertificate(_) => ErrorKind::Certificate,
                rustls::Error::AlertReceived(_) => ErrorKind::Alert,
                _ => ErrorKind::Protocol,
            };
        }
        match error.kind() {
            Io::ConnectionRefused => ErrorKind::Refused,
            Io::ConnectionReset | Io::BrokenPipe => ErrorKind::Reset,
            Io::UnexpectedEof => ErrorKind::Closed,
            Io::TimedOut => ErrorKind::Timeout,
            _ => ErrorKind::System,
        }
    }
}

/// The handshake used another key-exchange group than the one to be measured.
#[derive(Debug, Error)]
#[error("the server took another key-exchange group; let it heed the order of the client")]
pub(crate) struct OtherGroup;

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
