//! Measurements: compare, speed and tune; pairing, gating, statistics.
//!
//! [`compare`] starts real servers, native and accelerated side by side, and drives both in
//! interleaved rounds; [`speed`] times the algorithms alone against OpenSSL's. Both fill a
//! [`widelane_results::Results`] and print nothing. [`tune`] finds the width policy under which the
//! whole machine gets most done.
//!
//! **Invariant**: a figure without its rival from the same run is not a result.

pub mod accounting;
pub mod compare;
pub mod cycles;
pub mod embedded;
pub mod groups;
pub mod link;
pub mod machine;
pub mod mixed;
pub mod pairs;
pub mod programs;
pub mod rival;
pub mod server;
pub mod simulate;
pub mod speed;
pub mod stats;
pub mod tune;

use std::time::SystemTime;

/// Follows a run: draws progress, keeps partial results.
pub trait Observer {
    /// `rounds` rounds will be taken, besides those announced before.
    fn planned(&mut self, rounds: u64);
    /// A scenario begins.
    fn began(&mut self, scenario: &str);
    /// One round of the current scenario was taken, which does not count if there is an
    /// `objection`.
    fn round_taken(&mut self, objection: Option<&str>);
    /// A scenario ended; `results` holds everything so far.
    fn ended(&mut self, results: &widelane_results::Results);
}

/// The time now, RFC 3339 in UTC, to the second.
pub fn now_rfc3339() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}
