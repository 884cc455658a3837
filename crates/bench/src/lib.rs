//! The stopwatch: compare and speed; pairing, gating, statistics.
//!
//! [`compare`] starts real servers, native and accelerated side by side, and drives both in interleaved
//! rounds; [`speed`] times the algorithms alone against OpenSSL's. Both fill a
//! [`widelane_results::Results`] and print nothing.
//!
//! **Invariant**: a figure without its rival from the same run is not a result.

pub mod accounting;
pub mod compare;
pub mod embedded;
pub mod machine;
pub mod pairs;
pub mod programs;
pub mod server;
pub mod stats;
