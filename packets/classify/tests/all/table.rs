//! Tables as files, what is refused, and sets that are hard to divide.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use widelane_classify::rule::{Field, Layout, Match, Rule, RuleSet, dpdk};
use widelane_classify::{BuildError, Classifier, Flow, Limits, LookupError, Table, TableError};
use widelane_cpu::Policy;
use widelane_testkit::random::Random;
use widelane_testkit::rooms::for_each_room_of;
use widelane_testkit::rules::{self, Family};

use crate::support::compare;

fn sample() -> RuleSet {
    let set = rules::generate(Family::Ipc, 300, 5);
    dpdk::parse("generated", &rules::dpdk(&set)).unwrap()
}

fn written(table: &Table) -> Vec<u8> {
    let mut bytes = Vec::new();
    table.write(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_table_that_is_mapped_outlives_what_takes_its_place() {
    let table = |rules| {
        let text = rules::dpdk(&rules::generate(Family::Ipc, rules, 5));
        Table::build(&dpdk::parse("generated", &text).unwrap(), &Limits::default()).unwrap()
    };
    let (large, small) = (table(300), table(1));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("table");
    large.save(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let mapped = Table::open(&path).unwrap();
    small.save(&path).unwrap();
    assert_eq!(written(&mapped), written(&large));
    assert_eq!(fs::read(&path).unwrap(), written(&small));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    let link = directory.path().join("link");
    std::os::unix::fs::symlink("table", &link).unwrap();
    large.save(&link).unwrap();
    assert!(link.is_symlink());
    assert_eq!(fs::read(&path).unwrap(), written(&large));
    fs::remove_file(&link).unwrap();
    // What cannot be replaced leaves nothing behind.
    small.save(directory.path()).unwrap_err();
    small.save(&directory.path().join("no/table")).unwrap_err();
    small.save(&directory.path().join("..")).unwrap_err();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn a_table_comes_back_from_a_file() {
    let set = rules::generate(Family::Ipc, 300, 5);
    let table = Table::build(&sample(), &Limits::default()).unwrap();
    let bytes = written(&table);
    assert_eq!(bytes.len(), table.bytes());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("table");
    fs::write(&path, &bytes).unwrap();
    let tables = [table, Table::open(&path).unwrap(), Table::read(&mut &bytes[..]).unwrap()];
    let flows: Vec<Flow> = set
        .flows(2000, 6)
        .iter()
        .map(|flow| {
            let ports = [flow.source_port, flow.destination_port];
            Flow::v4(flow.source as u32, flow.destination as u32, ports, flow.protocol)
        })
        .collect();
    let packets: Vec<&[u8]> = flows.iter().map(Flow::packet).collect();
    let results = tables.map(|table| {
        assert_eq!((table.rules(), table.categories()), (300, 1));
        assert_eq!(*table.layout(), Layout::ipv4());
        let mut results = vec![0; packets.len()];
        let classifier = Classifier::choose(Arc::new(table), &Policy::open());
        classifier.classify(&packets, &mut results).unwrap();
        results
    });
    assert!(results[0] == results[1] && results[0] == results[2]);
}

#[test]
fn every_damaged_table_is_refused() {
    let bytes = written(&Table::build(&sample(), &Limits::default()).unwrap());
    let read = |bytes: &[u8]| Table::read(&mut &*bytes);
    for cut in [0, 7, 8, 16, 24, 159, 200, bytes.len() - 8, bytes.len() - 1] {
        read(&bytes[..cut]).unwrap_err();
    }
    assert!(matches!(read(b"something else"), Err(TableError::NotATable)));
    let mut other_version = bytes.clone();
    other_version[8] = 9;
    assert!(matches!(read(&other_version), Err(TableError::Version { found: 9 })));
    let longer = [bytes.as_slice(), &[0; 8]].concat();
    assert!(matches!(read(&longer), Err(TableError::Length { .. })));
    let mut random = Random::new(1);
    for _ in 0..300 {
        let mut damaged = bytes.clone();
        damaged[random.below(bytes.len())] ^= 1 << random.below(8);
        read(&damaged).unwrap_err();
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("table");
    assert!(matches!(Table::open(&path), Err(TableError::Read(_))));
    fs::write(&path, []).unwrap();
    assert!(matches!(Table::open(&path), Err(TableError::NotATable)));
    fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
    assert!(matches!(Table::open(&path), Err(TableError::Length { .. })));
}

/// A table of all that a table can have: several trees, nodes, long leaves, categories.
fn manifold() -> RuleSet {
    let layout = Layout::new(vec![field("a", 0, 4), field("b", 4, 4), field("c", 8, 2)]).unwrap();
    let mut set = any_rules(&layout, 60, 2, &mut Random::new(3));
    for rule in &mut set.rules[..30] {
        rule.matches[1] = Match::ANY;
    }
    set
}

#[test]
fn a_flip_of_any_byte_is_found() {
    let bytes = written(&Table::build(&manifold(), &Limits::default()).unwrap());
    let mut random = Random::new(2);
    for place in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 + random.below(255) as u8;
        Table::read(&mut &damaged[..]).unwrap_err();
    }
}

/// The checksum of a table's words behind the header's first four.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.as_chunks().0[4..].iter().fold(0xcbf2_9ce4_8422_2325, |sum, word| {
        let product = (sum ^ u64::from_le_bytes(*word)).wrapping_mul(0x0000_0100_0000_01b3);
        product ^ product >> 32
    })
}

#[test]
fn a_table_that_lies_is_refused_or_harmless() {
    let set = manifold();
    let bytes = written(&Table::build(&set, &Limits::default()).unwrap());
    assert_eq!(bytes[24..32], checksum(&bytes).to_le_bytes(), "the checksum is as written here");
    let mut random = Random::new(4);
    let packets = any_packets(&set, 40, &mut random);
    let (mut refused, mut looked_up) = (0, 0);
    let flips = (32..bytes.len()).map(|place| (place, [1u8 << random.below(8)].to_vec()));
    let words = (32..bytes.len()).step_by(8).flat_map(|place| {
        let all: [u8; 8] = bytes[place..place + 8].try_into().unwrap();
        // The lowest bit of each byte flipped, all bits flipped, and all cleared.
        [vec![1; 8], all.map(|byte| !byte).to_vec(), all.to_vec()].map(|change| (place, change))
    });
    for (place, change) in flips.chain(words).collect::<Vec<_>>() {
        let mut lying = bytes.clone();
        lying[place..].iter_mut().zip(change).for_each(|(byte, change)| *byte ^= change);
        let sum = checksum(&lying);
        lying[24..32].copy_from_slice(&sum.to_le_bytes());
        let Ok(table) = Table::read(&mut &lying[..]) else {
            refused += 1;
            continue;
        };
        looked_up += 1;
        let (table, long) = (Arc::new(table), vec![0; Layout::SPAN_MAX]);
        let mut packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
        if table.layout().span() > set.layout.span() {
            packets.fill(&long);
        }
        for_each_room_of(Classifier::ROOMS, |_, policy| {
            let mut results = vec![0; packets.len() * table.categories()];
            let classifier = Classifier::choose(table.clone(), policy);
            classifier.classify(&packets, &mut results).unwrap();
            classifier.classify(&packets[..1], &mut results[..table.categories()]).unwrap();
        });
    }
    assert!(refused > 100 && looked_up > 100, "{refused} refused, {looked_up} looked up");
}

#[test]
fn pieces_of_a_key_begin_at_whole_bytes() {
    let bytes = written(&Table::build(&manifold(), &Limits::default()).unwrap());
    // The first of the words behind the fixed header, and in it the shift.
    let shift = 20 * 8 + 4;
    for (change, is_refused) in [(0, false), (1, true), (2, true), (4, true)] {
        let mut lying = bytes.clone();
        lying[shift] ^= change;
        let sum = checksum(&lying);
        lying[24..32].copy_from_slice(&sum.to_le_bytes());
        let read = Table::read(&mut &lying[..]).map(drop);
        assert_eq!(matches!(read, Err(TableError::Unsound("its pieces"))), is_refused, "{read:?}");
    }
}

fn field(name: &str, offset: usize, bytes: usize) -> Field {
    Field { name: name.to_owned(), offset, bytes }
}

/// Rules over fields of all lengths, with masks, prefixes and ranges that meet often.
fn any_rules(layout: &Layout, count: usize, categories: usize, random: &mut Random) -> RuleSet {
    let rules = (0..count).map(|index| {
        let matches = layout.fields().iter().map(|field| {
            let bits = 8 * field.bytes as u32;
            let value = |random: &mut Random| {
                let any = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
                any >> (128 - bits) & if random.below(2) == 0 { 0x0303_0303 } else { u128::MAX }
            };
            match random.below(6) {
                0 | 1 => Match::ANY,
                2 => Match::exact(value(random), field.bytes),
                3 => Match::prefix(
                    value(random),
                    random.below(bits as usize + 1) as u32,
                    field.bytes,
                ),
                // Masks with holes where there are no ranges, whose pieces would be many.
                4 if field.bytes == 4 => Match::Mask { value: value(random), mask: value(random) },
                _ if field.bytes == 4 => Match::exact(value(random), field.bytes),
                _ => {
                    let (one, other) = (value(random), value(random));
                    Match::range(one.min(other), one.max(other))
                }
            }
        });
        Rule {
            matches: matches.collect(),
            priority: random.below(5) as i32 - 2,
            categories: 1 + random.below((1 << categories) - 1) as u16,
            result: index as u32,
            line: 0,
        }
    });
    let rules = rules.collect();
    RuleSet { categories, default: u32::MAX, rules, ..RuleSet::new(layout.clone()) }
}

fn any_packets(set: &RuleSet, count: usize, random: &mut Random) -> Vec<Vec<u8>> {
    let packet = |random: &mut Random| {
        let mut packet = vec![0; set.layout.span()];
        random.fill(&mut packet);
        let rule = &set.rules[random.below(set.rules.len())];
        for (of, field) in rule.matches.iter().zip(set.layout.fields()) {
            let value = match *of {
                _ if random.below(16) == 0 => continue,
                Match::Mask { value, mask } => {
                    value & mask | set.layout.value(field, &packet) & !mask
                }
                Match::Range { first, last } if random.below(2) == 0 => first.max(last - last % 3),
                Match::Range { first, .. } => first,
            };
            let bytes = value.to_be_bytes();
            packet[field.offset..][..field.bytes].copy_from_slice(&bytes[16 - field.bytes..]);
        }
        packet
    };
    (0..count).map(|_| packet(random)).collect()
}

#[test]
fn fields_of_every_length_and_kind() {
    let layouts = [
        vec![field("a", 3, 1), field("b", 0, 2), field("c", 8, 4)],
        vec![field("wide", 1, 8), field("narrow", 0, 1)],
        vec![field("widest", 4, 16), field("tag", 2, 2)],
        vec![field("late", 200, 4), field("early", 0, 4), field("a", 40, 2), field("b", 90, 1)],
        vec![field("only", 0, 1)],
    ];
    let mut random = Random::new(11);
    for fields in layouts {
        let layout = Layout::new(fields).unwrap();
        for categories in [1, 2, 16] {
            for count in [1, 9, 200] {
                let set = any_rules(&layout, count, categories, &mut random);
                compare(&set, &any_packets(&set, 1000, &mut random));
            }
        }
    }
}

#[test]
fn the_longest_key_may_have_ranges_in_all_fields() {
    let fields = (0..16).map(|index| field(&index.to_string(), 16 * index, 16));
    let layout = Layout::new(fields.collect()).unwrap();
    let rules = (0..16u32).map(|index| {
        let mut matches = [Match::ANY; 16];
        matches[index as usize] = Match::range(1 << 100 | 3, 1 << 100 | 9);
        Rule { matches: matches.into(), priority: 0, categories: 1, result: index, line: 0 }
    });
    let set = RuleSet { default: 77, rules: rules.collect(), ..RuleSet::new(layout) };
    compare(&set, &any_packets(&set, 500, &mut Random::new(12)));
}

#[test]
fn a_set_without_rules_gives_the_default() {
    let set = RuleSet { default: 7, ..RuleSet::new(Layout::ipv4()) };
    compare(&set, &[vec![1; 24], vec![2; 30]]);
}

#[test]
fn rules_that_nothing_tells_apart_are_searched_in_order() {
    // Ranges around one port: every packet near it meets hundreds of rules.
    let layout = Layout::new(vec![field("port", 0, 2)]).unwrap();
    let ranges = (0..700u16).map(|width| Rule {
        matches: [Match::range((32_768 - width).into(), (32_768 + width).into())].into(),
        priority: 0,
        categories: 1,
        result: width.into(),
        line: 0,
    });
    // The widest first hides all others; the narrowest first hides none.
    let narrowest_first = RuleSet { rules: ranges.collect(), ..RuleSet::new(layout) };
    let packets: Vec<Vec<u8>> =
        (32_000..33_600u16).map(|port| port.to_be_bytes().to_vec()).collect();
    compare(&narrowest_first, &packets);
    let bytes = Table::build(&narrowest_first, &Limits::default()).unwrap().bytes();
    let mut widest_first = narrowest_first;
    widest_first.rules.reverse();
    compare(&widest_first, &packets);
    let hidden = Table::build(&widest_first, &Limits::default()).unwrap().bytes();
    assert!(hidden < bytes / 2, "hidden rules are left out: {hidden} of {bytes} bytes");
}

#[test]
fn limits_and_odd_rules_are_refused_by_name() {
    let set = sample();
    let limits = Limits { table_bytes: 4096 };
    assert_eq!(Table::build(&set, &limits).unwrap_err(), BuildError::TooLarge { limit: 4096 });
    let mut odd = set.clone();
    odd.rules[3].matches = [Match::ANY].into();
    assert_eq!(
        Table::build(&odd, &Limits::default()).unwrap_err(),
        BuildError::Matches { line: 4, found: 1, expected: 5 }
    );
    let mut odd = set.clone();
    odd.rules[3].matches[2] = Match::range(9, 8);
    assert_eq!(
        Table::build(&odd, &Limits::default()).unwrap_err().to_string(),
        "the rule of line 4 has a range of source_port that ends before it begins"
    );
    for wide in [Match::exact(1 << 40, 8), Match::prefix(0, 1, 16), Match::range(7, 1 << 32)] {
        let mut odd = set.clone();
        odd.rules[3].matches[0] = wide;
        assert_eq!(
            Table::build(&odd, &Limits::default()).unwrap_err().to_string(),
            "the rule of line 4 looks at more than the 4 bytes of source"
        );
    }
    let odd = RuleSet { categories: 17, ..set };
    assert_eq!(Table::build(&odd, &Limits::default()).unwrap_err(), BuildError::Categories(17));
}

#[test]
fn short_packets_and_wrong_rooms_for_results_are_refused() {
    let table = Table::build(&sample(), &Limits::default()).unwrap();
    let classifier = Classifier::choose(Arc::new(table), &Policy::open());
    let (long, short) = ([0u8; 24], [0u8; 23]);
    assert_eq!(
        classifier.classify(&[&long, &short], &mut [0; 2]).unwrap_err(),
        LookupError::Short { index: 1, bytes: 23, span: 24 }
    );
    assert_eq!(
        classifier.classify(&[&long], &mut [0; 2]).unwrap_err(),
        LookupError::Results { packets: 1, categories: 1, results: 2 }
    );
}
