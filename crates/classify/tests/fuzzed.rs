//! The fuzz targets without a fuzzer: their corpus, and random bytes.

mod support;

use std::fs;
use std::path::Path;

use widelane_testkit::random::Random;

use self::support::fuzzed::{rule_files, rules_and_packets};

/// What the corpus of a target holds.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files = fs::read_dir(&folder).unwrap().map(|file| fs::read(file.unwrap().path()).unwrap());
    let files: Vec<Vec<u8>> = files.collect();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files
}

/// Some bytes changed, cut out or doubled.
fn mutated(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut mutated = bytes.to_vec();
    for _ in 0..1 + random.below(4) {
        let at = random.below(mutated.len().max(1));
        match random.below(3) {
            0 if at < mutated.len() => mutated[at] = random.next_u64() as u8,
            1 => drop(mutated.drain(at..(at + 3).min(mutated.len()))),
            _ => mutated.extend_from_within(at.min(mutated.len())..),
        }
    }
    mutated.truncate(4096);
    mutated
}

#[test]
fn rules_and_packets_of_any_bytes() {
    let mut random = Random::new(31);
    corpus("rules_and_packets").iter().for_each(|bytes| rules_and_packets(bytes));
    for _ in 0..150 {
        let mut bytes = vec![0; random.below(800)];
        random.fill(&mut bytes);
        rules_and_packets(&bytes);
    }
}

#[test]
fn rule_files_of_any_bytes() {
    let mut random = Random::new(32);
    let corpus = corpus("rule_files");
    corpus.iter().for_each(|bytes| rule_files(bytes));
    for _ in 0..2000 {
        rule_files(&mutated(&corpus[random.below(corpus.len())], &mut random));
    }
}
