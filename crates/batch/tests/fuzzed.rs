//! The fuzz target without a fuzzer: its corpus, and what is made of it by chance.

#![cfg(not(loom))]

mod support;

use widelane_testkit::fuzz::replay;

#[test]
fn schedules_of_any_bytes() {
    replay("batch_schedules", 41, 20_000, support::batch_schedules);
}
