//! Handshakes in any order of events, under `widelane run`.
#![no_main]

#[allow(dead_code, unused_imports, reason = "others use the rest")]
#[path = "../../crates/runtime/tests/support/mod.rs"]
mod support;

use std::sync::atomic::{AtomicU8, Ordering};

use support::by_hand::accelerate_this_program;
use support::orders::{Event, STATES, handshake_orders};

libfuzzer_sys::fuzz_target!(init: accelerate_this_program(), |bytes: &[u8]| {
    let seen = handshake_orders(bytes);
    for (counter, count) in COUNTERS.iter().zip(seen.states.as_flattened()) {
        counter.store(*count, Ordering::Relaxed);
    }
});

/// Which events have met which states: what the fuzzer takes for coverage of the libraries, which
/// are loaded as they are shipped.
#[unsafe(link_section = "__libfuzzer_extra_counters")]
static COUNTERS: [AtomicU8; Event::ALL.len() * STATES] =
    [const { AtomicU8::new(0) }; Event::ALL.len() * STATES];
