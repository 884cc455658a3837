//! Rules, packets and changes of rules, against a search of one rule after another.
#![no_main]

#[path = "../../packets/classify/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| support::fuzzed::rules_and_packets(bytes));
