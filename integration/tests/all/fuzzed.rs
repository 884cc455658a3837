//! The fuzz targets of what comes from outside, without a fuzzer: their corpus, and what is made of
//! it by chance.

use widelane_testkit::fuzz::replay;

use crate::support;

#[test]
fn policy_files_of_any_bytes() {
    replay("policy_files", 51, 20_000, support::policy_files);
}

#[test]
fn counters_files_of_any_bytes() {
    replay("counters_files", 52, 20_000, support::counters_files);
}

#[test]
fn results_files_of_any_bytes() {
    replay("results_files", 53, 2_000, support::results_files);
}

#[test]
fn messages_on_the_bus_of_any_bytes() {
    replay("fleet_messages", 54, 4_000, support::fleet_messages);
}
