//! The fuzz targets of parameters without a fuzzer: their corpus, and what is made of it by chance.

mod support;

use widelane_testkit::fuzz::replay;

#[test]
fn keys_of_any_parameters() {
    replay("key_parameters", 61, 1_000, support::key_parameters);
}

#[test]
fn kems_of_any_parameters_and_inputs() {
    replay("kem_parameters", 63, 2_000, support::kem_parameters);
}

#[test]
fn operations_of_any_parameters() {
    replay("operation_parameters", 62, 5_000, support::operation_parameters);
}
