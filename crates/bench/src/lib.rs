//! The stopwatch: compare and speed; pairing, gating, statistics.
pub mod accounting;
pub mod pairs;
pub mod programs;
pub mod server;
pub mod stats;
