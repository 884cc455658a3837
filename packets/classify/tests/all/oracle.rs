//! Every room against the linear oracle, on generated sets of every family.

use std::sync::Arc;

use widelane_classify::rule::{classbench, dpdk};
use widelane_classify::{Classifier, Flow, Limits, Table};
use widelane_cpu::Policy;
use widelane_testkit::rooms::for_each_room_of;
use widelane_testkit::rules::{self, Family, TupleSet, Version};

fn packet(set: &TupleSet, flow: &rules::Flow) -> Flow {
    let ports = [flow.source_port, flow.destination_port];
    match set.version {
        Version::V4 => Flow::v4(flow.source as u32, flow.destination as u32, ports, flow.protocol),
        Version::V6 => Flow::v6(flow.source, flow.destination, ports, flow.protocol),
    }
}

/// The result that the rule at an index has in DPDK's text of a set.
fn routed(index: Option<usize>) -> u32 {
    index.map_or(dpdk::NO_ROUTE, |index| index as u32 % 16)
}

fn check(family: Family, rule_counts: &[usize], seeds: std::ops::Range<u64>, flows: usize) {
    for seed in seeds {
        let set = rules::generate(family, rule_counts[seed as usize % rule_counts.len()], seed);
        // ClassBench's results are the indices, which say exactly which rule won.
        let (parsed, expected): (_, fn(Option<usize>) -> u32) = match set.version {
            Version::V4 => (classbench::parse("generated", &rules::classbench(&set)), |index| {
                index.map_or(classbench::NO_FILTER, |index| index as u32)
            }),
            Version::V6 => (dpdk::parse("generated", &rules::dpdk(&set)), routed),
        };
        let table = Arc::new(Table::build(&parsed.unwrap(), &Limits::default()).unwrap());
        let flows = set.flows(flows, !seed);
        let wanted: Vec<u32> = flows.iter().map(|flow| expected(set.first_match(flow))).collect();
        let flows: Vec<Flow> = flows.iter().map(|flow| packet(&set, flow)).collect();
        let packets: Vec<&[u8]> = flows.iter().map(Flow::packet).collect();
        for_each_room_of(Classifier::ROOMS, |room, policy| {
            let classifier = Classifier::choose(table.clone(), policy);
            assert_eq!(classifier.room(), room);
            let mut results = vec![0; packets.len()];
            classifier.classify(&packets, &mut results).unwrap();
            for (place, (found, wanted)) in results.iter().zip(&wanted).enumerate() {
                assert_eq!(found, wanted, "{family:?} {seed} {room}: {}", flows[place]);
            }
        });
    }
}

const SIZES: [usize; 4] = [1, 60, 500, 1500];

#[test]
fn access_control_lists() {
    check(Family::Acl, &SIZES, 0..20, 30_000);
}

#[test]
fn firewalls() {
    check(Family::Fw, &SIZES, 20..40, 30_000);
}

#[test]
fn ip_chains() {
    check(Family::Ipc, &SIZES, 40..60, 30_000);
}

#[test]
fn clustered_addresses() {
    check(Family::Clustered, &SIZES, 120..140, 30_000);
}

#[test]
fn few_networks_with_ever_more_hosts() {
    check(Family::Acl1, &SIZES, 140..160, 30_000);
    // So many that one tree is tried beside those of the groups, and that it is far.
    check(Family::Acl1, &[9000], 160..161, 4000);
}

#[test]
fn random_addresses() {
    check(Family::Random, &SIZES, 60..80, 30_000);
}

#[test]
fn one_address() {
    check(Family::OneField, &SIZES, 80..100, 30_000);
}

#[test]
fn random_addresses_of_version_6() {
    check(Family::RandomV6, &SIZES, 100..120, 30_000);
}

#[test]
fn bursts_of_every_length() {
    let set = rules::generate(Family::Acl, 800, 7);
    let parsed = dpdk::parse("generated", &rules::dpdk(&set)).unwrap();
    let table = Arc::new(Table::build(&parsed, &Limits::default()).unwrap());
    let flows: Vec<Flow> = set.flows(200, 8).iter().map(|flow| packet(&set, flow)).collect();
    let packets: Vec<&[u8]> = flows.iter().map(Flow::packet).collect();
    let mut all = vec![0; packets.len()];
    Classifier::choose(table.clone(), &Policy::open()).classify(&packets, &mut all).unwrap();
    for_each_room_of(Classifier::ROOMS, |_, policy| {
        let classifier = Classifier::choose(table.clone(), policy);
        for length in 0..=packets.len() {
            let mut results = vec![0; length];
            classifier.classify(&packets[..length], &mut results).unwrap();
            assert_eq!(results, all[..length]);
        }
    });
}
