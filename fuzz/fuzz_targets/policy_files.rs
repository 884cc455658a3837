//! Policy files of any bytes.
#![no_main]

#[allow(dead_code, unused_imports, reason = "others use the rest")]
#[path = "../../integration/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| support::policy_files(bytes));
