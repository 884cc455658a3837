//! Schedules of the queues of `batch`, against a plain queue.
#![no_main]

#[allow(dead_code, unused_imports, reason = "others use the rest")]
#[path = "../../crates/batch/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| support::batch_schedules(bytes));
