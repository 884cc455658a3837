//! Sets that are as hard as they can be: very many rules, and rules that all overlap.

use widelane_classify::rule::{Field, Layout, Match, Rule, RuleSet};
use widelane_classify::{BuildError, Limits, Table};
use widelane_testkit::random::Random;

use crate::support::compare_with;

fn rule(matches: impl Into<Box<[Match]>>, result: u32) -> Rule {
    Rule { matches: matches.into(), priority: 0, categories: 1, result, line: 0 }
}

/// A packet of IPv4 with these addresses and ports.
fn packet(addresses: [u32; 2], ports: [u16; 2]) -> Vec<u8> {
    let mut packet = vec![0; Layout::ipv4().span()];
    packet[9] = 6;
    packet[12..16].copy_from_slice(&addresses[0].to_be_bytes());
    packet[16..20].copy_from_slice(&addresses[1].to_be_bytes());
    packet[20..22].copy_from_slice(&ports[0].to_be_bytes());
    packet[22..24].copy_from_slice(&ports[1].to_be_bytes());
    packet
}

#[test]
fn a_million_rules_are_built_and_met() {
    let field = |name: &str, offset| Field { name: name.to_owned(), offset, bytes: 4 };
    let layout = Layout::new(vec![field("source", 0), field("destination", 4)]).unwrap();
    let mut random = Random::new(8);
    let address = |random: &mut Random| u128::from(random.next_u64() as u32);
    let rules = (0..1_000_000).map(|index| {
        let source = Match::exact(address(&mut random), 4);
        rule([source, Match::prefix(address(&mut random), 24, 4)], index)
    });
    let set = RuleSet { rules: rules.collect(), default: u32::MAX, ..RuleSet::new(layout) };
    let table = Table::build(&set, &Limits { table_bytes: 1 << 30 }).unwrap();
    assert!(table.bytes() < 256 << 20, "{} bytes", table.bytes());
    let met = |rule: &Rule| -> Vec<u8> {
        let values = rule.matches.iter().map(|of| of.as_mask(4).unwrap().0 as u32);
        values.flat_map(u32::to_be_bytes).collect()
    };
    let mut packets: Vec<Vec<u8>> = set.rules.iter().step_by(99_991).map(met).collect();
    packets.push(vec![0; 8]);
    compare_with(table, &set, &packets);
    let small = Limits { table_bytes: 16 << 20 };
    let refused = Table::build(&set, &small).unwrap_err();
    assert_eq!(refused, BuildError::TooLarge { limit: 16 << 20 });
}

#[test]
fn rules_that_all_overlap_are_bounded() {
    // Every rule holds the centre, and no rule covers another: what is narrower in one field is
    // wider in another.
    let (centre, port) = (0x0a80_8080u32, 0x8000u32);
    let rules = (0..65_536u32).map(|index| {
        let (fine, coarse) = (index % 256, index / 256);
        let matches = [
            Match::prefix(centre.into(), 8 + fine % 25, 4),
            Match::prefix(centre.into(), 32 - fine % 25, 4),
            Match::range((port - 64 * coarse).into(), (port + 255 - fine).into()),
            Match::range((port - 16_384 + 64 * coarse).into(), (port + fine).into()),
            Match::ANY,
        ];
        rule(matches, index)
    });
    let set = RuleSet { rules: rules.collect(), default: 9, ..RuleSet::new(Layout::ipv4()) };
    let limits = Limits { table_bytes: 64 << 20 };
    let table = Table::build(&set, &limits).unwrap();
    assert!(table.bytes() <= limits.table_bytes, "{} bytes", table.bytes());
    let mut random = Random::new(9);
    let near = |random: &mut Random| {
        let mut beside = |of: u32, bits: u32| of ^ (random.next_u64() as u32 >> (32 - bits));
        let addresses = [beside(centre, 9), beside(centre, 9)];
        packet(addresses, [beside(port, 9) as u16, beside(port, 9) as u16])
    };
    let mut packets: Vec<Vec<u8>> = (0..30).map(|_| near(&mut random)).collect();
    packets.push(packet([centre; 2], [port as u16; 2]));
    compare_with(table, &set, &packets);
}
