//! Rules with the structure of those that ClassBench draws from its seed acl1, at any size.
//!
//! The shares below were counted in one set of 3,625 rules from the original generator: eight
//! networks hold nearly all sources, each of them has most of its rules for one cluster of
//! destinations, and a few hosts of every network are named far more often than the others. More
//! rules name more hosts and ranges of the same networks, not more networks.

use super::families::weighted;
use super::{Prefix, TupleRule, Version};
use crate::random::Random;

/// Lengths of source prefixes and of destination prefixes, with their shares.
const SOURCES: &[(u32, u32)] =
    &[(32, 527), (31, 242), (30, 63), (29, 11), (25, 7), (24, 50), (23, 67), (22, 21), (7, 12)];
const DESTINATIONS: &[(u32, u32)] = &[
    (32, 492),
    (31, 207),
    (30, 40),
    (28, 20),
    (25, 15),
    (24, 23),
    (23, 46),
    (22, 74),
    (21, 23),
    (16, 27),
    (5, 33),
];
/// How ranges of addresses are divided: of 256, those whose addresses lie all in one half, and the
/// least share, of a hundred, that the heavier half of the others has.
#[derive(Clone, Copy)]
struct Branches {
    single: u64,
    heavy_min: usize,
}

const SOURCE_BRANCHES: Branches = Branches { single: 154, heavy_min: 70 };
const DESTINATION_BRANCHES: Branches = Branches { single: 205, heavy_min: 80 };
const OTHER_BRANCHES: Branches = Branches { single: 248, heavy_min: 80 };
const SOURCE_NETWORKS: usize = 8;
const DESTINATION_NETWORKS: usize = 10;
/// Destination networks that lie apart from the ten have few rules each.
const OTHER_NETWORKS: usize = 110;
/// Destination ports and ranges of them that are named.
const SERVICES: usize = 107;

/// A rule of the set that `salt` stands for.
pub(super) fn rule(salt: u64, random: &mut Random) -> TupleRule {
    let network = random.below(SOURCE_NETWORKS) as u64;
    let source = within(salt ^ network, 23, SOURCES, SOURCE_BRANCHES, random);
    let (destination, branches) = match random.below(100) {
        // What a network has most of its rules for.
        0..70 => (Random::new(salt ^ 0x100 ^ network).next_u64() % 5, DESTINATION_BRANCHES),
        70..82 => (random.below(DESTINATION_NETWORKS) as u64, DESTINATION_BRANCHES),
        _ => {
            let other = (0..3).map(|_| random.below(OTHER_NETWORKS)).min().unwrap_or(0);
            ((DESTINATION_NETWORKS + other) as u64, OTHER_BRANCHES)
        }
    };
    let destination = within(!salt ^ destination, 21, DESTINATIONS, branches, random);
    // Ports are named beside narrow destinations.
    let names_port = match destination.length {
        28.. => random.below(100) < 84,
        20..25 => random.below(100) < 60,
        _ => false,
    };
    let (protocol, destination_ports) = match names_port {
        true => (Some([6, 17][weighted([98, 2], random)]), service(salt, random)),
        false => ([Some(6), None, Some(1)][weighted([61, 29, 10], random)], (0, u16::MAX)),
    };
    let flags = match protocol {
        Some(6) => [(0, 0), (0x1000, 0x1000), (0, 0x0200)][weighted([80, 10, 10], random)],
        _ => (0, 0),
    };
    TupleRule { source, destination, destination_ports, protocol, flags, ..TupleRule::any() }
}

/// A prefix in the network of `salt`, whose own prefix is of `network_bits`.
fn within(
    salt: u64,
    network_bits: u32,
    lengths: &[(u32, u32)],
    branches: Branches,
    random: &mut Random,
) -> Prefix {
    let length = lengths[weighted(lengths.iter().map(|of| of.1), random)].0;
    let network = Random::new(salt).next_u64();
    let mut address = (network >> 32) as u32 & !(u32::MAX >> network_bits);
    for depth in network_bits..length {
        // Each half of a range has its share of the hosts, the same for all rules of a set.
        let node = Random::new(network ^ u64::from(address) << 8 ^ u64::from(depth)).next_u64();
        let heavy = branches.heavy_min + (node >> 40) as usize % (101 - branches.heavy_min);
        let is_single = node >> 8 & 0xff < branches.single;
        let bit = u64::from(is_single || random.below(100) < heavy) ^ (node & 1);
        address |= (bit as u32) << (31 - depth);
    }
    let range = Prefix { address: 0, length };
    Prefix { address: u128::from(address) & range.mask(Version::V4), length }
}

/// Destination ports: some are named far more often than others, and many lie next to each other.
fn service(salt: u64, random: &mut Random) -> (u16, u16) {
    // The product of two draws is small in most cases.
    let index = random.below(SERVICES) * random.below(SERVICES) / SERVICES;
    let cluster = Random::new(salt ^ 0x200 ^ (index % 24) as u64).next_u64();
    let first = 1 + (cluster % 6000) as u16 + (index / 24) as u16;
    match index % 8 {
        7 => (first, first + 49),
        _ => (first, first),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::{Family, generate};

    #[test]
    fn more_rules_name_more_hosts_of_the_same_networks() {
        let mut hosts_before = 0;
        for count in [1000, 4096, 16_384] {
            let rules = generate(Family::Acl1, count, 3).rules;
            assert_eq!(rules, generate(Family::Acl1, count, 3).rules);
            assert!(rules.iter().all(|rule| rule.source_ports == (0, u16::MAX)));
            let narrow: Vec<_> = rules.iter().filter(|rule| rule.source.length >= 31).collect();
            assert!(narrow.len() * 10 > count * 7, "{} of {count}", narrow.len());
            let networks: HashSet<_> = narrow.iter().map(|rule| rule.source.address >> 9).collect();
            assert_eq!(networks.len(), super::SOURCE_NETWORKS);
            let ports: HashSet<_> = rules.iter().map(|rule| rule.destination_ports).collect();
            assert!(ports.len() <= super::SERVICES + 1 && ports.len() > 80, "{}", ports.len());
            let hosts: HashSet<_> = rules.iter().map(|rule| rule.source).collect();
            assert!(hosts.len() > hosts_before && hosts.len() < 500, "{}", hosts.len());
            hosts_before = hosts.len();
        }
    }
}
