//! The latencies of a connection, by name.

use hdrhistogram::Histogram;

use crate::tally::Tally;

/// Which of the latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latency {
    /// Until TCP is established.
    Connect,
    /// From ClientHello to the finished handshake.
    Handshake,
    /// From request to the first byte.
    FirstByte,
    /// From the start to the end of the work.
    Total,
}

impl Latency {
    /// All, in the order in which they come about.
    pub const ALL: [Latency; 4] =
        [Latency::Connect, Latency::Handshake, Latency::FirstByte, Latency::Total];

    /// What it is called in thresholds and results.
    pub fn name(self) -> &'static str {
        match self {
            Latency::Connect => "connect",
            Latency::Handshake => "handshake",
            Latency::FirstByte => "first-byte",
            Latency::Total => "total",
        }
    }

    /// Its histogram, nanoseconds.
    pub fn of(self, tally: &Tally) -> &Histogram<u64> {
        match self {
            Latency::Connect => &tally.connect_ns,
            Latency::Handshake => &tally.handshake_ns,
            Latency::FirstByte => &tally.first_byte_ns,
            Latency::Total if tally.answer_ns.is_empty() => &tally.latency_ns,
            Latency::Total => &tally.answer_ns,
        }
    }
}
