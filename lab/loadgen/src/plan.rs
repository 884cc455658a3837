//! What a load consists of: which certificates to trust, what to draw per connection, what to do,
//! how fast.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustls::RootCertStore;
use rustls::sign::CertifiedKey;
use serde::{Deserialize, Serialize};

use crate::tls::{Cipher, Group, TlsVersion};

/// A load on one server.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where the server listens.
    pub target: SocketAddr,
    /// Addresses of this host to connect from, in turn; any if there are none. One address has
    /// some 28,000 ports for connections with one server.
    pub sources: Vec<IpAddr>,
    /// Which certificates to accept.
    pub trust: Trust,
    /// What connections differ in.
    pub mix: Mix,
    /// What a connection does after its handshake.
    pub work: Work,
    /// When connections begin.
    pub pace: Pace,
    /// Time after which a handshake or an answer is given up and counted as an error.
    pub patience: Duration,
    /// Makes draws and arrivals reproducible.
    pub seed: u64,
}

impl Plan {
    /// How long connections are waited for at the end. Large bodies are cut off.
    pub(crate) fn farewell(&self) -> Duration {
        const LARGE: u64 = 1 << 20;
        match self.work {
            Work::Requests { body_bytes: Some(LARGE..), .. } => Duration::ZERO,
            Work::Requests { .. } | Work::Handshake => self.patience,
        }
    }
}

/// Which certificates to accept. The signature of every handshake is verified in any case.
#[derive(Clone, Debug)]
pub enum Trust {
    /// These certificates and no others, DER; connections ask for one or the other by its kind of
    /// key, in turn.
    Pinned(Vec<Vec<u8>>),
    /// Certificates that an authority vouches for, for the name sent.
    Authorities(Arc<RootCertStore>),
    /// All certificates, unchecked.
    Anyone,
}

/// What is drawn for each connection. What is written of it leaves out certificates, for they come
/// with private keys.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// Protocol version; no other is offered.
    pub versions: Weighted<TlsVersion>,
    /// Cipher, which names one suite in each protocol version and kind of key; no other is offered.
    pub ciphers: Weighted<Cipher>,
    /// Key-exchange group; a handshake with any other is an error.
    pub groups: Weighted<Group>,
    /// Name sent as SNI and, in requests, as host; with the port unless that is HTTPS's.
    pub names: Weighted<String>,
    /// Protocol offered by ALPN.
    pub protocols: Weighted<Option<String>>,
    /// Sessions to offer.
    pub resumption: Weighted<Resume>,
    /// Certificates to show to servers that ask.
    #[serde(skip, default = "none_to_show")]
    pub identities: Weighted<Option<Shown>>,
}

impl Mix {
    /// Full handshakes that are all alike, without ALPN and without a client's certificate.
    pub fn alike(version: TlsVersion, cipher: Cipher, group: Group, name: &str) -> Self {
        Mix {
            versions: Weighted::only(version),
            ciphers: Weighted::only(cipher),
            groups: Weighted::only(group),
            names: Weighted::only(name.to_owned()),
            protocols: Weighted::only(None),
            resumption: Weighted::only(Resume::Never),
            identities: none_to_show(),
        }
    }

    /// How many combinations can be drawn, whatever the name; each thread has a TLS configuration
    /// for every one.
    pub fn combinations(&self) -> usize {
        [
            self.versions.iter().len(),
            self.ciphers.iter().len(),
            self.groups.iter().len(),
            self.protocols.iter().len(),
            self.resumption.iter().len(),
            self.identities.iter().len(),
        ]
        .into_iter()
        .fold(1, usize::saturating_mul)
    }
}

fn none_to_show() -> Weighted<Option<Shown>> {
    Weighted::only(None)
}

/// A client's certificate and key.
#[derive(Clone, Debug)]
pub struct Shown(pub Arc<CertifiedKey>);

/// Which earlier session a connection offers to resume, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resume {
    /// None, and none is kept.
    Never,
    /// By ticket in TLS 1.2, by pre-shared key in TLS 1.3.
    Ticket,
    /// By session identifier in TLS 1.2, by pre-shared key in TLS 1.3.
    SessionId,
}

/// Alternatives and how often to take each.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(
    try_from = "Vec<(T, u32)>",
    into = "Vec<(T, u32)>",
    bound(serialize = "T: Clone + Serialize")
)]
pub struct Weighted<T> {
    alternatives: Vec<(T, u32)>,
    total: u64,
}

impl<T> Weighted<T> {
    /// Alternatives with their weights; none if no weight is above zero.
    pub fn new(alternatives: Vec<(T, u32)>) -> Option<Self> {
        let alternatives: Vec<_> =
            alternatives.into_iter().filter(|(_, weight)| *weight > 0).collect();
        let total = alternatives.iter().map(|(_, weight)| u64::from(*weight)).sum();
        (total > 0).then_some(Weighted { alternatives, total })
    }

    /// One alternative, always.
    pub fn only(value: T) -> Self {
        Weighted { alternatives: vec![(value, 1)], total: 1 }
    }

    /// The alternatives.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        self.alternatives.iter().map(|(value, _)| value)
    }

    /// Draws an alternative, by its index.
    pub(crate) fn draw(&self, random: &mut fastrand::Rng) -> usize {
        if self.alternatives.len() == 1 {
            return 0;
        }
        let mut left = random.u64(..self.total);
        let taken = self.alternatives.iter().position(|(_, weight)| {
            let weight = u64::from(*weight);
            let here = left < weight;
            left = left.saturating_sub(weight);
            here
        });
        taken.expect("less than the sum of the weights is left")
    }
}

impl<T> From<Weighted<T>> for Vec<(T, u32)> {
    fn from(weighted: Weighted<T>) -> Self {
        weighted.alternatives
    }
}

impl<T> TryFrom<Vec<(T, u32)>> for Weighted<T> {
    type Error = &'static str;

    fn try_from(alternatives: Vec<(T, u32)>) -> Result<Self, Self::Error> {
        Weighted::new(alternatives).ok_or("a list in which nothing has a weight above zero")
    }
}

/// What a connection does after its handshake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Work {
    /// Says goodbye.
    Handshake,
    /// Asks for `path` `count` times, each time after the whole answer to the last: over HTTP/3
    /// where that is the protocol, over HTTP/1.1 otherwise.
    Requests {
        /// Path and query.
        path: String,
        /// Requests on one connection.
        count: u32,
        /// Length that every body must have.
        body_bytes: Option<u64>,
        /// What every body must repeat; it does not travel.
        #[serde(skip)]
        pattern: Option<Pattern>,
    },
}

/// Bytes that a body repeats from beginning to end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Pattern(&'static [u8]);

impl Pattern {
    /// A pattern of these bytes; none if there is none to repeat.
    pub fn of(bytes: &'static [u8]) -> Option<Self> {
        (!bytes.is_empty()).then_some(Pattern(bytes))
    }

    /// Whether `part`, which begins `at` bytes behind the beginning of a body, is as it should be.
    pub(crate) fn is_at(self, mut at: u64, mut part: &[u8]) -> bool {
        while !part.is_empty() {
            let expected = &self.0[(at % self.0.len() as u64) as usize..];
            let (now, later) = part.split_at(part.len().min(expected.len()));
            if now != &expected[..now.len()] {
                return false;
            }
            at += now.len() as u64;
            part = later;
        }
        true
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} bytes", self.0.len())
    }
}

impl Work {
    /// How often the work is done on one connection.
    pub(crate) fn count(&self) -> u64 {
        match self {
            Work::Handshake => 1,
            Work::Requests { count, .. } => u64::from((*count).max(1)),
        }
    }
}

/// When connections begin.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Pace {
    /// `connections` at any time, each beginning as soon as another has ended; spread over `ramp`
    /// at first.
    Closed {
        /// Connections at any time.
        connections: usize,
        /// Time in which they begin.
        ramp: Duration,
    },
    /// At instants that do not depend on the server.
    Open {
        /// Connections begun per second.
        rate: f64,
        /// How they are spread.
        arrivals: Arrivals,
        /// Time in which the rate grows to its value.
        ramp: Duration,
        /// Most connections at any time; those that come beyond begin late, and their lateness
        /// counts.
        connections_max: usize,
    },
}

impl Pace {
    /// Most connections at any time.
    pub fn connections(&self) -> usize {
        match *self {
            Pace::Closed { connections, .. } => connections,
            Pace::Open { connections_max, .. } => connections_max,
        }
    }

    /// Time in which connections or rate grow to their value.
    pub fn ramp(&self) -> Duration {
        let (Pace::Closed { ramp, .. } | Pace::Open { ramp, .. }) = *self;
        ramp
    }

    /// Equal shares, fewer than `parts` if there are fewer connections.
    pub fn divide(&self, parts: usize) -> Vec<Pace> {
        let parts = parts.min(self.connections()).max(1);
        let share = |index: usize| (self.connections() + index) / parts;
        let part = |index: usize| match *self {
            Pace::Closed { ramp, .. } => Pace::Closed { connections: share(index), ramp },
            Pace::Open { rate, arrivals, ramp, .. } => Pace::Open {
                rate: rate / parts as f64,
                arrivals,
                ramp,
                connections_max: share(index),
            },
        };
        (0..parts).map(part).collect()
    }
}

/// How arrivals are spread over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Arrivals {
    /// At equal distances, on each thread.
    Constant,
    /// Independent of each other: a Poisson process.
    #[default]
    Poisson,
}
