//! Parameters of operations with keys, ciphers and key derivations, of our provider and of the default one.
#![no_main]

#[path = "../../crates/provider/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| support::operation_parameters(bytes));
