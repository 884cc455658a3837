//! The oracle of the tests: a search of one rule after another, compared with every room.

#[allow(dead_code, reason = "each test file uses its part")]
pub mod fuzzed;

use std::sync::Arc;

use widelane_classify::rule::{Rule, RuleSet};
use widelane_classify::{Classifier, Limits, Table};
use widelane_cpu::Room;
use widelane_testkit::rooms::{for_each_room_of, supported_of};

/// The rooms that lookups have.
pub const ROOMS: [Room; 3] = [Room::Portable, Room::Avx2, Room::Avx512];

/// What a rule set says of a packet, looking at one rule after another.
pub fn oracle(set: &RuleSet, packet: &[u8]) -> Vec<u32> {
    let mut order: Vec<&Rule> = set.rules.iter().collect();
    order.sort_by_key(|rule| std::cmp::Reverse(rule.priority));
    let matches = |rule: &Rule| {
        let mut pairs = rule.matches.iter().zip(set.layout.fields());
        pairs.all(|(of, field)| of.accepts(set.layout.value(field, packet)))
    };
    let matching: Vec<&Rule> = order.into_iter().filter(|rule| matches(rule)).collect();
    let of = |category: usize| matching.iter().find(|rule| rule.categories >> category & 1 == 1);
    (0..set.categories)
        .map(|category| of(category).map_or(set.default, |rule| rule.result))
        .collect()
}

/// Builds a table, and compares what it says in every room.
#[allow(dead_code, reason = "each test file uses its part")]
pub fn compare(set: &RuleSet, packets: &[Vec<u8>]) {
    compare_with(Table::build(set, &Limits::default()).unwrap(), set, packets);
}

/// Looks packets up in every room, all at once and a few at a time, and compares all results.
pub fn compare_with(table: Table, set: &RuleSet, packets: &[Vec<u8>]) {
    let table = Arc::new(table);
    let wanted: Vec<u32> = packets.iter().flat_map(|packet| oracle(set, packet)).collect();
    let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
    let visited = for_each_room_of(&ROOMS, |room, policy| {
        let classifier = Classifier::choose(table.clone(), policy);
        assert_eq!(classifier.room(), room);
        let mut results = vec![0; wanted.len()];
        classifier.classify(&packets, &mut results).unwrap();
        assert_eq!(results, wanted, "{room}");
        let (some, mut left) = ([3, 1, 5, 2], results.as_mut_slice());
        let (mut packets, mut turn) = (packets.as_slice(), 0);
        while !packets.is_empty() {
            let (few, others) = packets.split_at(some[turn % some.len()].min(packets.len()));
            let (found, rest) = left.split_at_mut(few.len() * set.categories);
            classifier.classify(few, found).unwrap();
            (packets, left, turn) = (others, rest, turn + 1);
        }
        assert_eq!(results, wanted, "{room}, a few at a time");
    });
    assert_eq!(visited, supported_of(&ROOMS));
}
