//! Families of rule sets, with the prefix-length and port distributions of the kind they imitate.

use std::collections::HashSet;

use super::{Prefix, TupleRule, TupleSet, Version, acl1};
use crate::random::Random;

/// A kind of rule set.
///
/// The first three follow what Taylor and Turner published about the filter sets behind ClassBench
/// (2007): how specific addresses are, how they nest, and which kinds of port ranges meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Access control lists: both addresses specific, source port free.
    Acl,
    /// Firewalls: one address or both free in most rules, many port ranges.
    Fw,
    /// IP chains: a mix of both.
    Ipc,
    /// Access control lists of few networks: hosts in a handful of /24, many rules for the same two
    /// hosts, told apart by destination port and protocol. More rules have more networks.
    Clustered,
    /// The structure of the sets that ClassBench draws from its seed acl1: more rules name more
    /// hosts and ranges of the same few networks.
    Acl1,
    /// Addresses of /24 to /32 anywhere, ports exact or a range.
    Random,
    /// One address of /32 counts, all other fields are free.
    OneField,
    /// IPv6 addresses of /48 to /128 anywhere, ports exact or a range.
    RandomV6,
}

impl Family {
    /// All families.
    pub const ALL: [Family; 8] = [
        Family::Acl,
        Family::Fw,
        Family::Ipc,
        Family::Clustered,
        Family::Acl1,
        Family::Random,
        Family::OneField,
        Family::RandomV6,
    ];

    /// The family's name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Family::Acl => "acl",
            Family::Fw => "fw",
            Family::Ipc => "ipc",
            Family::Clustered => "clustered",
            Family::Acl1 => "acl1",
            Family::Random => "random",
            Family::OneField => "one-field",
            Family::RandomV6 => "random-v6",
        }
    }

    /// Whose addresses the family names.
    pub const fn version(self) -> Version {
        match self {
            Family::RandomV6 => Version::V6,
            _ => Version::V4,
        }
    }
}

/// A set of `count` different rules; equal arguments give equal sets.
pub fn generate(family: Family, count: usize, seed: u64) -> TupleSet {
    let mut random = Random::new(seed);
    let shape = Shape::of(family, random.next_u64());
    let mut seen = HashSet::with_capacity(count);
    let mut rules = Vec::with_capacity(count);
    while rules.len() < count {
        let rule = match family {
            Family::OneField => one_field(rules.len()),
            Family::Random | Family::RandomV6 => anywhere(family.version(), &mut random),
            Family::Acl | Family::Fw | Family::Ipc => shape.rule(&mut random),
            Family::Clustered => clustered(count, shape.salt, &mut random),
            Family::Acl1 => acl1::rule(shape.salt, &mut random),
        };
        if seen.insert(rule.clone()) {
            rules.push(rule);
        }
    }
    // Specific rules stand before the general ones that they are exceptions to, as administrators
    // write them; a little disorder leaves some that overlap the other way.
    if !matches!(family, Family::Random | Family::OneField | Family::RandomV6) {
        rules.sort_by_cached_key(|rule| {
            let length = rule.source.length + rule.destination.length;
            std::cmp::Reverse(length as usize + random.below(12))
        });
    }
    TupleSet { version: family.version(), rules }
}

/// What of a hundred: weights of the choices that make a rule of a family.
struct Shape {
    /// Weights of (source length, destination length), each drawn from its list.
    sources: &'static [(u32, u32)],
    destinations: &'static [(u32, u32)],
    source_ports: [u32; 5],
    destination_ports: [u32; 5],
    /// Weights of TCP, UDP, ICMP and any.
    protocols: [u32; 4],
    salt: u64,
}

/// The classes of port ranges, in the order of the weights.
#[derive(Clone, Copy)]
enum Ports {
    Any,
    High,
    Low,
    Range,
    Exact,
}

impl Shape {
    fn of(family: Family, salt: u64) -> Self {
        match family {
            Family::Fw => Shape {
                sources: &[(0, 48), (8, 2), (16, 6), (22, 4), (24, 16), (28, 6), (32, 18)],
                destinations: &[(0, 34), (8, 1), (16, 5), (23, 4), (24, 14), (27, 8), (32, 34)],
                source_ports: [72, 14, 1, 3, 10],
                destination_ports: [22, 8, 3, 17, 50],
                protocols: [58, 28, 6, 8],
                salt,
            },
            Family::Ipc => Shape {
                sources: &[(0, 18), (13, 2), (16, 8), (20, 4), (24, 20), (28, 10), (32, 38)],
                destinations: &[(0, 12), (14, 3), (16, 8), (21, 4), (24, 20), (27, 8), (32, 45)],
                source_ports: [66, 4, 1, 5, 24],
                destination_ports: [40, 3, 2, 11, 44],
                protocols: [50, 26, 10, 14],
                salt,
            },
            _ => Shape {
                sources: &[(0, 3), (16, 6), (21, 5), (23, 6), (24, 26), (28, 14), (32, 40)],
                destinations: &[(0, 1), (16, 3), (22, 4), (24, 17), (27, 10), (30, 5), (32, 60)],
                source_ports: [98, 1, 0, 0, 1],
                destination_ports: [28, 2, 1, 12, 57],
                protocols: [74, 18, 5, 3],
                salt,
            },
        }
    }

    fn rule(&self, random: &mut Random) -> TupleRule {
        let source = self.sources[weighted(self.sources.iter().map(|of| of.1), random)].0;
        let index = weighted(self.destinations.iter().map(|of| of.1), random);
        let destination = self.destinations[index].0;
        let protocol = [Some(6), Some(17), Some(1), None][weighted(self.protocols, random)];
        let with_ports = matches!(protocol, Some(6 | 17));
        let mut ports = |weights: [u32; 5]| match with_ports {
            true => ports(weights, random),
            false => (0, u16::MAX),
        };
        let source_ports = ports(self.source_ports);
        let destination_ports = ports(self.destination_ports);
        TupleRule {
            source: nested(self.salt, jitter(source, random), random),
            destination: nested(!self.salt, jitter(destination, random), random),
            source_ports,
            destination_ports,
            protocol,
            ..TupleRule::any()
        }
    }
}

/// One length in eight is a neighbour of the popular one.
fn jitter(length: u32, random: &mut Random) -> u32 {
    match random.below(16) {
        0 if length > 1 && length < 32 => length - 1,
        1 if length > 1 && length < 32 => length + 1,
        _ => length,
    }
}

pub(super) fn weighted(
    weights: impl IntoIterator<Item = u32, IntoIter: Clone>,
    random: &mut Random,
) -> usize {
    let weights = weights.into_iter();
    let mut left = random.below(weights.clone().sum::<u32>() as usize) as u32;
    for (index, weight) in weights.enumerate() {
        if left < weight {
            return index;
        }
        left -= weight;
    }
    unreachable!("`left` is below the sum of the weights")
}

/// An address prefix from a tree whose branches are skewed: networks cluster as real ones do, and
/// prefixes nest.
fn nested(salt: u64, length: u32, random: &mut Random) -> Prefix {
    let mut address = 0u32;
    for depth in 0..length {
        // The node decides how it branches, so that all rules of a set share one tree.
        let node = Random::new(salt ^ (u64::from(address) << 8) ^ u64::from(depth)).next_u64();
        let single = match depth {
            0..8 => 55,
            8..16 => 45,
            16..24 => 35,
            _ => 20,
        };
        let bit = match node % 100 < single {
            true => node >> 32 & 1,
            // The heavier branch takes five to nine of ten.
            false => {
                let heavy = random.below(100) < 50 + (node >> 40) as usize % 40;
                u64::from(heavy) ^ (node >> 32 & 1)
            }
        };
        address |= (bit as u32) << (31 - depth);
    }
    Prefix { address: u128::from(address), length }
}

fn ports(weights: [u32; 5], random: &mut Random) -> (u16, u16) {
    const KINDS: [Ports; 5] = [Ports::Any, Ports::High, Ports::Low, Ports::Range, Ports::Exact];
    const SERVICES: [u16; 16] =
        [80, 443, 22, 25, 53, 21, 23, 110, 143, 161, 389, 445, 993, 1433, 3306, 8080];
    match KINDS[weighted(weights, random)] {
        Ports::Any => (0, u16::MAX),
        Ports::High => (1024, u16::MAX),
        Ports::Low => (0, 1023),
        Ports::Range => {
            let first = 1 + random.below(40_000) as u16;
            let span_max = 1 << (2 + random.below(12));
            (first, first + 1 + random.below(span_max) as u16)
        }
        Ports::Exact if random.below(3) == 0 => {
            let port = 1024 + random.below(3000) as u16;
            (port, port)
        }
        Ports::Exact => {
            let port = SERVICES[random.below(SERVICES.len())];
            (port, port)
        }
    }
}

/// A rule of [`Family::Clustered`]: the more rules, the more networks, and as many for each.
fn clustered(count: usize, salt: u64, random: &mut Random) -> TupleRule {
    const SOURCES: &[(u32, u32)] = &[(32, 53), (31, 24), (30, 7), (24, 7), (23, 7), (22, 2)];
    const DESTINATIONS: &[(u32, u32)] = &[
        (32, 49),
        (31, 21),
        (30, 5),
        (25, 2),
        (24, 3),
        (23, 5),
        (22, 8),
        (21, 3),
        (16, 3),
        (0, 1),
    ];
    let networks = (count / 512).max(8);
    let source = host(salt, networks, 28, SOURCES, random);
    // Few servers have most of the rules.
    let crowded = random.below(4) > 0;
    let (servers, hosts) = if crowded { (networks / 2, 1) } else { (24 * networks, 3) };
    let destination = host(!salt, servers, hosts, DESTINATIONS, random);
    let protocol = [Some(6), None, Some(1), Some(17)][weighted([89, 7, 3, 1], random)];
    let destination_ports = match protocol {
        Some(6 | 17) if random.below(5) > 0 => {
            let service = random.below(12).min(random.below(12)) * 9 + random.below(9);
            let near = Random::new(salt ^ (service as u64 / 9)).next_u64() as u16 / 2;
            let port = 1 + near + (service % 9) as u16;
            (port, port)
        }
        _ => (0, u16::MAX),
    };
    TupleRule { source, destination, destination_ports, protocol, ..TupleRule::any() }
}

/// A prefix around one of so many hosts in each of so many networks of /24.
fn host(
    salt: u64,
    networks: usize,
    hosts: usize,
    lengths: &[(u32, u32)],
    random: &mut Random,
) -> Prefix {
    // Some networks, and some hosts in each, have more rules than others.
    let mut drawn = |count: usize| random.below(count).min(random.below(count)) as u64;
    let network = Random::new(salt ^ drawn(networks)).next_u64();
    let own = Random::new(network ^ drawn(hosts)).next_u64() & 0xff;
    let length = lengths[weighted(lengths.iter().map(|of| of.1), random)].0;
    let address = u128::from(network as u32 & !0xff | own as u32);
    let within = Prefix { address: 0, length };
    Prefix { address: address & within.mask(Version::V4), length }
}

fn one_field(index: usize) -> TupleRule {
    let address = 0x0a00_0000 + index as u128;
    TupleRule { source: Prefix { address, length: 32 }, ..TupleRule::any() }
}

fn anywhere(version: Version, random: &mut Random) -> TupleRule {
    let mut prefix = || {
        let length = match version {
            Version::V4 => 24 + random.below(9) as u32,
            Version::V6 => 48 + random.below(81) as u32,
        };
        let any = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
        let within = Prefix { address: 0, length };
        Prefix { address: any & within.mask(version), length }
    };
    let (source, destination) = (prefix(), prefix());
    let mut ports = || {
        let first = random.below(65_536) as u16;
        match random.below(2) {
            0 => (first, first),
            _ => (first, first.saturating_add(random.below(4096) as u16)),
        }
    };
    let (source_ports, destination_ports) = (ports(), ports());
    let protocol = Some([6, 17][random.below(2)]);
    TupleRule { source, destination, source_ports, destination_ports, protocol, ..TupleRule::any() }
}
