//! The oracle of the tests: a search of one rule after another, compared with every room.

#[allow(dead_code, reason = "each test file uses its part")]
pub mod fuzzed;

use std::sync::Arc;

use widelane_classify::rule::{Rule, RuleSet};
use widelane_classify::{Classifier, Limits, Table};
use widelane_cpu::{Policy, Room};
use widelane_testkit::rooms::for_each_room_of;

/// What a rule set says of packets, looking at one rule after another.
pub fn oracle(set: &RuleSet, packets: &[&[u8]]) -> Vec<u32> {
    let mut order: Vec<&Rule> = set.rules.iter().collect();
    order.sort_by_key(|rule| std::cmp::Reverse(rule.priority));
    let matches = |rule: &Rule, packet: &[u8]| {
        let mut pairs = rule.matches.iter().zip(set.layout.fields());
        pairs.all(|(of, field)| of.accepts(set.layout.value(field, packet)))
    };
    let results = |packet: &&[u8]| {
        let mut results = vec![None; set.categories];
        for rule in order.iter().filter(|rule| matches(rule, packet)) {
            for (category, result) in results.iter_mut().enumerate() {
                let is_first = result.is_none() && rule.categories >> category & 1 == 1;
                *result = if is_first { Some(rule.result) } else { *result };
            }
        }
        results.into_iter().map(|result| result.unwrap_or(set.default))
    };
    packets.iter().flat_map(results).collect()
}

/// Builds a table, and compares what it says in every room.
#[allow(dead_code, reason = "each test file uses its part")]
pub fn compare(set: &RuleSet, packets: &[Vec<u8>]) {
    compare_with(Table::build(set, &Limits::default()).unwrap(), set, packets);
}

/// Looks packets up in every room, and compares all results.
pub fn compare_with(table: Table, set: &RuleSet, packets: &[Vec<u8>]) {
    let table = Arc::new(table);
    let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
    let wanted = oracle(set, &packets);
    for_each_room_of(Classifier::ROOMS, |room, policy| {
        compare_in(room, policy, &table, &packets, &wanted)
    });
}

/// Looks packets up in one room, all at once and a few at a time, and compares all results.
pub fn compare_in(
    room: Room,
    policy: &Policy,
    table: &Arc<Table>,
    packets: &[&[u8]],
    wanted: &[u32],
) {
    let classifier = Classifier::choose(Arc::clone(table), policy);
    assert_eq!(classifier.room(), room);
    let mut results = vec![0; wanted.len()];
    classifier.classify(packets, &mut results).unwrap();
    assert_eq!(results, wanted, "{room}");
    let (some, mut left) = ([3, 1, 5, 2], results.as_mut_slice());
    let (mut packets, mut turn) = (packets, 0);
    while !packets.is_empty() {
        let (few, others) = packets.split_at(some[turn % some.len()].min(packets.len()));
        let (found, rest) = left.split_at_mut(few.len() * table.categories());
        classifier.classify(few, found).unwrap();
        (packets, left, turn) = (others, rest, turn + 1);
    }
    assert_eq!(results, wanted, "{room}, a few at a time");
}
