//! The latencies of a connection, by name.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::plan::Work;
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

    /// Its histogram in what was counted of `work`, nanoseconds.
    pub fn of<'a>(self, tally: &'a Tally, work: &Work) -> &'a Histogram<u64> {
        match self {
            Latency::Connect => &tally.connect_ns,
            Latency::Handshake => &tally.handshake_ns,
            Latency::FirstByte => &tally.first_byte_ns,
            Latency::Total => match work {
                Work::Handshake => &tally.latency_ns,
                Work::Requests { .. } => &tally.answer_ns,
            },
        }
    }

    /// Its histogram for a comparison with `limit`: what was unfinished when the window ended and
    /// already older than that is in the total, with its age. It would have taken longer.
    pub fn against(self, limit: Duration, tally: &Tally, work: &Work) -> Histogram<u64> {
        let mut all = self.of(tally, work).clone();
        if self == Latency::Total {
            for value in tally.unfinished_ns.iter_recorded() {
                if u128::from(value.value_iterated_to()) > limit.as_nanos() {
                    all.saturating_record_n(value.value_iterated_to(), value.count_at_value());
                }
            }
        }
        all
    }
}
