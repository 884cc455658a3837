//! What the fuzz targets of `fuzz/` do with any bytes; `tests/all/fuzzed.rs` does it without one.

use std::cmp::Reverse;
use std::sync::{Arc, LazyLock};

use widelane_classify::live::{Live, RuleId, WORK_MAX};
use widelane_classify::rule::{Field, Format, Layout, Match, Rule, RuleSet, classbench};
use widelane_classify::{Classifier, Limits, Table};
use widelane_cpu::{Policy, Room};
use widelane_testkit::fuzz::Decisions;
use widelane_testkit::rooms::{for_each_room_of, only};

use super::{compare_in, oracle};

/// Decisions about rules.
struct Source<'a>(Decisions<'a>);

impl Source<'_> {
    /// A value of a field: often one that other rules have too, or one beside it.
    fn value(&mut self, bytes: usize) -> u128 {
        let all = u128::MAX >> (128 - 8 * bytes);
        let base = match self.0.byte() {
            few @ 0..128 => u128::from(few % 8),
            high @ 128..192 => u128::from(high % 8) << (8 * bytes - 3),
            _ => (0..bytes).fold(0, |value, _| value << 8 | u128::from(self.0.byte())),
        };
        base.wrapping_add(u128::from(self.0.byte() % 3)).wrapping_sub(1) & all
    }

    fn of(&mut self, bytes: usize) -> Match {
        match self.0.below(5) {
            0 => Match::ANY,
            1 => Match::exact(self.value(bytes), bytes),
            2 => Match::prefix(self.value(bytes), self.0.below(8 * bytes + 1) as u32, bytes),
            3 => Match::Mask { value: self.value(bytes), mask: self.value(bytes) },
            _ => {
                let (one, other) = (self.value(bytes), self.value(bytes));
                Match::range(one.min(other), one.max(other))
            }
        }
    }

    fn rule(&mut self, layout: &Layout) -> Rule {
        Rule {
            matches: layout.fields().iter().map(|field| self.of(field.bytes)).collect(),
            priority: self.0.below(4) as i32,
            categories: 1 + self.0.byte() as u16 % 15,
            result: self.0.byte().into(),
            line: 0,
        }
    }

    fn layout(&mut self) -> Layout {
        let field = |name: &str, offset, bytes| Field { name: name.to_owned(), offset, bytes };
        let fields = match self.0.byte() % 6 {
            0 => vec![field("a", 0, 1)],
            1 => vec![field("a", 3, 1), field("b", 0, 2)],
            2 => vec![field("a", 30, 4), field("b", 0, 1), field("c", 28, 4)],
            3 => vec![field("a", 0, 8), field("b", 4, 2)],
            4 => return Layout::ipv6(),
            _ => return Layout::ipv4(),
        };
        Layout::new(fields).expect("fields that fit")
    }
}

/// The rooms of this machine, with policies that leave open no other. They are told once.
static HERE: LazyLock<Vec<(Room, Policy)>> = LazyLock::new(|| {
    let visited = for_each_room_of(Classifier::ROOMS, |_, _| ());
    visited.into_iter().map(|room| (room, only(room))).collect()
});

/// Looks packets up in every room, and compares all results with a search of one rule after
/// another.
fn compare_everywhere(table: Table, set: &RuleSet, packets: &[Vec<u8>]) {
    let table = Arc::new(table);
    let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
    let wanted = oracle(set, &packets);
    for (room, policy) in HERE.iter() {
        compare_in(*room, policy, &table, &packets, &wanted);
    }
}

/// Reads rules, packets and changes from bytes, and compares all that look packets up with a search
/// of one rule after another.
///
/// # Panics
///
/// If a result is wrong.
pub fn rules_and_packets(bytes: &[u8]) {
    let mut source = Source(Decisions::new(bytes));
    let layout = source.layout();
    let mut set = RuleSet::new(layout.clone());
    (set.categories, set.default) = (1 + source.0.below(4), 999);
    set.rules = (0..source.0.below(64)).map(|_| source.rule(&layout)).collect();
    if bytes.first() == Some(&CROWD) {
        set.rules.extend(crowd());
    }
    let mut packets = vec![vec![0; layout.span()]; 1 + source.0.below(PACKETS_MAX)];
    for packet in &mut packets {
        for field in layout.fields() {
            let value = source.value(field.bytes).to_be_bytes();
            packet[field.offset..][..field.bytes].copy_from_slice(&value[16 - field.bytes..]);
        }
    }
    // Rules with many pieces are refused, in words.
    let Ok(table) = Table::build(&set, &LIMITS) else { return };
    compare_everywhere(table, &set, &packets);
    let Ok(live) = Live::new(&set, &LIMITS, &Policy::open()) else { return };
    changes(&mut source, &live, set, &packets);
}

/// With this byte before all others, there are rules for thousands of single values, so that some
/// of the others stand in many cells.
const CROWD: u8 = 253;

/// They are of the second layout.
fn crowd() -> impl Iterator<Item = Rule> {
    (0..3000).map(|value| Rule {
        matches: [Match::ANY, Match::exact(value, 2)].into(),
        priority: 1,
        categories: 15,
        result: 1000 + value as u32,
        line: 0,
    })
}

/// Packets and changes of one input: many small inputs find more than few large ones.
const PACKETS_MAX: usize = 12;
const CHANGES_MAX: usize = 40;
/// How often the trees are rebuilt: nothing else takes as long.
const SETTLED_MAX: usize = 2;

fn changes(source: &mut Source<'_>, live: &Live, mut set: RuleSet, packets: &[Vec<u8>]) {
    let lent: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
    let mut ids: Vec<RuleId> = (0..set.rules.len() as u64).map(RuleId).collect();
    let mut reader = live.reader();
    let mut results = vec![0; packets.len() * set.categories];
    let mut settled = 0;
    for _ in 0..CHANGES_MAX {
        if source.0.is_empty() {
            break;
        }
        let at = source.0.below(ids.len().max(1));
        let rule = source.rule(&set.layout);
        match source.0.below(4) {
            0 if !ids.is_empty() && live.remove(ids[at]).is_ok() => {
                ids.remove(at);
                set.rules.remove(at);
            }
            1 if !ids.is_empty() => {
                if live.change(ids[at], rule.clone()).is_ok() {
                    set.rules[at] = rule;
                }
            }
            2 if settled < SETTLED_MAX => {
                live.settle();
                settled += 1;
            }
            _ => {
                if let Ok(id) = live.insert(rule.clone()) {
                    ids.push(id);
                    set.rules.push(rule);
                }
            }
        }
        reader.classify(&lent, &mut results).expect("packets of the right length");
        assert_eq!(results, oracle(&set, &lent));
    }
    assert!(live.heaviest_change() <= WORK_MAX, "{} cells and rules", live.heaviest_change());
}

/// Reads bytes as files of every kind. What is refused is refused in words; what is not is used.
///
/// # Panics
///
/// If a file makes one of the readers fail in another way, or its rules give a wrong result.
pub fn rule_files(bytes: &[u8]) {
    if let Ok(table) = Table::read(&mut &*bytes) {
        let packet = vec![0; table.layout().span()];
        let mut results = vec![0; table.categories()];
        let classifier = widelane_classify::Classifier::choose(table.into(), &Policy::open());
        classifier.classify(&[&packet], &mut results).expect("a packet of the right length");
    }
    let text = String::from_utf8_lossy(bytes);
    for format in Format::ALL {
        match format.parse("fuzzed", &text) {
            Ok(set) => use_rules(&set),
            Err(error) => assert!(error.to_string().starts_with("fuzzed"), "{error}"),
        }
    }
    if let Err(error) = classbench::parse_trace("fuzzed", &text) {
        assert!(error.to_string().starts_with("fuzzed"), "{error}");
    }
}

fn use_rules(set: &RuleSet) {
    let mut order: Vec<&Rule> = set.rules.iter().collect();
    order.sort_by_key(|rule| Reverse(rule.priority));
    let Ok(table) = Table::build(set, &LIMITS) else { return };
    // At the corners of the strongest rules.
    let corner = |rule: &&Rule| {
        let mut packet = vec![0; set.layout.span()];
        for (of, field) in rule.matches.iter().zip(set.layout.fields()) {
            let value = match *of {
                Match::Mask { value, mask } => value & mask,
                Match::Range { first, .. } => first,
            };
            let value = value.to_be_bytes();
            packet[field.offset..][..field.bytes].copy_from_slice(&value[16 - field.bytes..]);
        }
        packet
    };
    let packets: Vec<Vec<u8>> = order.iter().take(16).map(corner).collect();
    compare_everywhere(table, set, &packets);
}

/// No set of a few rules needs more.
const LIMITS: Limits = Limits { table_bytes: 16 << 20 };
