//! The fuzz targets without a fuzzer: their corpus, and random bytes.

use widelane_testkit::fuzz::{corpus, replay};
use widelane_testkit::random::Random;

use crate::support::fuzzed::{rule_files, rules_and_packets};

#[test]
fn rules_and_packets_of_any_bytes() {
    let mut random = Random::new(31);
    corpus("rules_and_packets").iter().for_each(|bytes| rules_and_packets(bytes));
    for _ in 0..60 {
        let mut bytes = vec![0; random.below(800)];
        random.fill(&mut bytes);
        rules_and_packets(&bytes);
    }
}

#[test]
fn rule_files_of_any_bytes() {
    replay("rule_files", 32, 2000, rule_files);
}
