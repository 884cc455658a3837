//! Stock servers with everything that is installed with Widelane.

mod caches;
mod certificates;
mod counters;
mod dashboard;
mod downloads;
mod fuzzed;
mod memory;
mod soak;
mod stress;
#[path = "../support/mod.rs"]
mod support;
