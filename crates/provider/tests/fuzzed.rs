//! The fuzz targets of parameters without a fuzzer: their corpus, and what is made of it by chance.

mod support;

use widelane_testkit::fuzz::replay;

#[test]
fn keys_of_any_parameters() {
    if answers_are_those_of_3_0() {
        replay("key_parameters", 61, 1_000, support::key_parameters);
    }
}

#[test]
fn operations_of_any_parameters() {
    if answers_are_those_of_3_0() {
        replay("operation_parameters", 62, 5_000, support::operation_parameters);
    }
}

/// Later releases answer differently to what is wrong or unusual; we answer as 3.0 does.
fn answers_are_those_of_3_0() -> bool {
    let is_3_0 = openssl::version::number() < 0x3010_0000;
    if !is_3_0 {
        eprintln!("{} is not OpenSSL 3.0: nothing was tested", openssl::version::version());
    }
    is_3_0
}
