//! Rule files, traces and tables of any bytes.
#![no_main]

#[path = "../../packets/classify/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| support::fuzzed::rule_files(bytes));
