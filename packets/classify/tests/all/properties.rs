//! Rules and packets that nobody would think of: dense overlaps, nested ranges and prefixes, equal
//! priorities, and packets at the edges of them all.

use proptest::collection::vec;
use proptest::prelude::*;
use widelane_classify::rule::{Field, Layout, Match, Rule, RuleSet};

use crate::support::compare;

/// Layouts of all kinds of words, with fields that lie apart and overlap.
fn layouts() -> Vec<Layout> {
    let layout = |fields: &[(usize, usize)]| {
        let field = |(index, &(offset, bytes)): (usize, &(usize, usize))| Field {
            name: format!("field{index}"),
            offset,
            bytes,
        };
        Layout::new(fields.iter().enumerate().map(field).collect()).unwrap()
    };
    vec![
        layout(&[(0, 1)]),
        layout(&[(0, 2), (2, 2)]),
        layout(&[(0, 4), (4, 4), (8, 2), (10, 2), (12, 1)]),
        layout(&[(30, 4), (0, 1), (28, 4)]),
        layout(&[(0, 16), (16, 16), (32, 2)]),
        layout(&[(3, 8), (0, 2)]),
    ]
}

/// Values that are near each other and near the ends: rules over them meet often.
fn value() -> impl Strategy<Value = u128> {
    prop_oneof![
        4 => 0u128..6,
        2 => (0u32..128).prop_map(|bit| 1 << bit),
        2 => (0u32..128, 1u128..4).prop_map(|(bit, less)| (1u128 << bit).saturating_sub(less)),
        1 => (0u128..4).prop_map(|less| u128::MAX - less),
        1 => any::<u128>(),
    ]
}

#[derive(Clone, Debug)]
enum Kind {
    Any,
    Exact,
    Prefix(u32),
    Mask(u128),
    Range(u128),
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        3 => Just(Kind::Any),
        2 => Just(Kind::Exact),
        3 => (0u32..=128).prop_map(Kind::Prefix),
        1 => value().prop_map(Kind::Mask),
        3 => value().prop_map(Kind::Range),
    ]
}

/// The match of a kind on a field of some bytes.
fn of_kind(kind: &Kind, value: u128, bytes: usize) -> Match {
    let all = u128::MAX >> (128 - 8 * bytes);
    let value = value & all;
    match *kind {
        Kind::Any => Match::ANY,
        Kind::Exact => Match::exact(value, bytes),
        Kind::Prefix(length) => Match::prefix(value, length % (8 * bytes as u32 + 1), bytes),
        // Beside ranges, masks with holes multiply a rule; that has limits of its own.
        Kind::Mask(mask) if bytes == 4 => Match::Mask { value, mask: mask & all },
        Kind::Range(other) if bytes != 4 => {
            Match::range(value.min(other & all), value.max(other & all))
        }
        Kind::Mask(_) | Kind::Range(_) => Match::exact(value, bytes),
    }
}

type Recipe = (Vec<(Kind, u128)>, i32, u16);

fn set(layout: Layout, categories: usize, recipes: &[Recipe]) -> RuleSet {
    let rules = recipes.iter().zip(0..).map(|((matches, priority, of), result)| {
        let pairs = matches.iter().zip(layout.fields());
        Rule {
            matches: pairs
                .map(|((kind, value), field)| of_kind(kind, *value, field.bytes))
                .collect(),
            priority: *priority,
            categories: 1 + of % ((1 << categories) - 1) as u16,
            result,
            line: 0,
        }
    });
    let rules = rules.collect();
    RuleSet { categories, default: u32::MAX, rules, ..RuleSet::new(layout) }
}

/// Packets at an edge of a rule in every field, or one beside it.
fn packets(set: &RuleSet, choices: &[(usize, u64)]) -> Vec<Vec<u8>> {
    let packet = |&(rule, mut edges): &(usize, u64)| {
        let mut packet = vec![0; set.layout.span()];
        let rule = &set.rules[rule % set.rules.len()];
        for (of, field) in rule.matches.iter().zip(set.layout.fields()) {
            let (first, last) = match *of {
                Match::Range { first, last } => (first, last),
                Match::Mask { value, mask } => (value & mask, value | !mask),
            };
            let edge = [first, last, first.wrapping_sub(1), last.wrapping_add(1)];
            // Inside three times of four.
            let value = edge[[0, 1, 0, 1, 0, 1, 2, 3][edges as usize % 8]];
            edges >>= 3;
            packet[field.offset..][..field.bytes]
                .copy_from_slice(&value.to_be_bytes()[16 - field.bytes..]);
        }
        packet
    };
    choices.iter().map(packet).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_room_finds_what_a_search_of_all_rules_finds(
        layout in prop::sample::select(layouts()),
        categories in prop::sample::select(vec![1usize, 1, 3, 16]),
        recipes in vec((vec((kind(), value()), 5), -1i32..2, any::<u16>()), 1..90),
        choices in vec((any::<usize>(), any::<u64>()), 1..90),
    ) {
        let set = set(layout, categories, &recipes);
        compare(&set, &packets(&set, &choices));
    }
}
