//! What it takes to build large tables: the only test of its process, which it measures.

use std::fs;

use widelane_classify::rule::{classbench, dpdk};
use widelane_classify::{Limits, Table};
use widelane_testkit::rules::{self, Family, Version};

/// The largest resident size of this process so far.
fn resident_peak() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kib: usize = line.trim().trim_end_matches(" kB").parse().unwrap();
    kib << 10
}

#[test]
fn sets_of_65536_rules_are_built_in_256_megabytes() {
    // Those whose tables are the largest.
    for family in [Family::Fw, Family::RandomV6] {
        let set = rules::generate(family, 65_536, 1);
        let parsed = match set.version {
            Version::V4 => classbench::parse("generated", &rules::classbench(&set)).unwrap(),
            Version::V6 => dpdk::parse("generated", &rules::dpdk(&set)).unwrap(),
        };
        drop(set);
        let table = Table::build(&parsed, &Limits::default()).unwrap();
        let (table, peak) = (table.bytes(), resident_peak());
        eprintln!("{}: table of {table} bytes, {peak} bytes resident at most", family.name());
        // The rules, their text and the table are in it too.
        assert!(peak <= 256_000_000, "{family:?}: {peak}");
    }
}
