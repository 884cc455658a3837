//! Rule sets for packet classification: generated families, flows that hit them, a linear oracle.

mod acl1;
mod families;
mod text;

pub use families::{Family, generate};
pub use text::{classbench, dpdk, trace};

use crate::random::Random;

/// The version of the Internet Protocol whose addresses a rule names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// 32-bit addresses.
    V4,
    /// 128-bit addresses.
    V6,
}

impl Version {
    /// The length of an address.
    pub const fn bits(self) -> u32 {
        match self {
            Version::V4 => 32,
            Version::V6 => 128,
        }
    }
}

/// An address prefix; the address stands in the low bits, and what the mask leaves out is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// The address.
    pub address: u128,
    /// How many leading bits count.
    pub length: u32,
}

/// One rule over five fields. Earlier rules win.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TupleRule {
    /// Source address.
    pub source: Prefix,
    /// Destination address.
    pub destination: Prefix,
    /// First and last source port.
    pub source_ports: (u16, u16),
    /// First and last destination port.
    pub destination_ports: (u16, u16),
    /// The protocol; any if there is none.
    pub protocol: Option<u8>,
    /// Value and mask of the TCP flags that a ClassBench file names, which nobody compares.
    pub flags: (u16, u16),
}

/// The five fields of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Source address.
    pub source: u128,
    /// Destination address.
    pub destination: u128,
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Protocol number.
    pub protocol: u8,
}

/// Rules of one family and version.
#[derive(Clone, Debug)]
pub struct TupleSet {
    /// Whose addresses the rules name.
    pub version: Version,
    /// The rules, the strongest first.
    pub rules: Vec<TupleRule>,
}

impl Prefix {
    fn mask(self, version: Version) -> u128 {
        let bits = version.bits();
        let all = u128::MAX >> (128 - bits);
        all & !all.checked_shr(self.length).unwrap_or(0)
    }

    fn contains(self, version: Version, address: u128) -> bool {
        address & self.mask(version) == self.address
    }

    fn random_within(self, version: Version, random: &mut Random) -> u128 {
        let all = u128::MAX >> (128 - version.bits());
        let any = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
        self.address | (any & all & !self.mask(version))
    }
}

impl TupleSet {
    /// Whether `rule` matches `flow`.
    pub fn matches(&self, rule: &TupleRule, flow: &Flow) -> bool {
        rule.source.contains(self.version, flow.source)
            && rule.destination.contains(self.version, flow.destination)
            && within(rule.source_ports, flow.source_port)
            && within(rule.destination_ports, flow.destination_port)
            && rule.protocol.is_none_or(|protocol| protocol == flow.protocol)
    }

    /// The oracle: the index of the first rule that matches, found by looking at one after another.
    pub fn first_match(&self, flow: &Flow) -> Option<usize> {
        self.rules.iter().position(|rule| self.matches(rule, flow))
    }

    /// Flows of which nine in ten lie within some rule, at its edges or anywhere inside, and the
    /// others anywhere.
    pub fn flows(&self, count: usize, seed: u64) -> Vec<Flow> {
        let mut random = Random::new(seed);
        (0..count).map(|_| self.flow(&mut random)).collect()
    }

    fn flow(&self, random: &mut Random) -> Flow {
        let anything = TupleRule::any();
        let rule = match random.below(10) {
            0 => &anything,
            _ if self.rules.is_empty() => &anything,
            _ => &self.rules[random.below(self.rules.len())],
        };
        Flow {
            source: rule.source.random_within(self.version, random),
            destination: rule.destination.random_within(self.version, random),
            source_port: port_within(rule.source_ports, random),
            destination_port: port_within(rule.destination_ports, random),
            protocol: rule.protocol.unwrap_or_else(|| [6, 17, 1, 47][random.below(4)]),
        }
    }
}

impl TupleRule {
    /// The rule that matches everything.
    pub const fn any() -> Self {
        let anywhere = Prefix { address: 0, length: 0 };
        TupleRule {
            source: anywhere,
            destination: anywhere,
            source_ports: (0, u16::MAX),
            destination_ports: (0, u16::MAX),
            protocol: None,
            flags: (0, 0),
        }
    }
}

fn within((first, last): (u16, u16), port: u16) -> bool {
    (first..=last).contains(&port)
}

fn port_within((first, last): (u16, u16), random: &mut Random) -> u16 {
    match random.below(8) {
        0 => first,
        1 => last,
        _ => first + random.below(usize::from(last - first) + 1) as u16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_two_matching_rules_wins() {
        let narrow = TupleRule { destination_ports: (80, 80), ..TupleRule::any() };
        let set = TupleSet { version: Version::V4, rules: vec![narrow, TupleRule::any()] };
        let flow = |destination_port| Flow {
            source: 1,
            destination: 2,
            source_port: 3,
            destination_port,
            protocol: 6,
        };
        assert_eq!(set.first_match(&flow(80)), Some(0));
        assert_eq!(set.first_match(&flow(81)), Some(1));
    }

    #[test]
    fn most_flows_hit_a_rule_and_some_do_not() {
        for family in Family::ALL {
            let set = generate(family, 200, 1);
            assert_eq!(set.rules.len(), 200, "{family:?}");
            let flows = set.flows(500, 2);
            let hits = flows.iter().filter(|flow| set.first_match(flow).is_some()).count();
            assert!(hits >= 400, "{family:?}: {hits} of {}", flows.len());
        }
    }

    #[test]
    fn a_prefix_keeps_its_bits() {
        let prefix = Prefix { address: 0x0a00_0000, length: 8 };
        let mut random = Random::new(3);
        for _ in 0..100 {
            let address = prefix.random_within(Version::V4, &mut random);
            assert_eq!(address >> 24, 10);
            assert!(prefix.contains(Version::V4, address));
        }
        assert!(!prefix.contains(Version::V4, 0x0b00_0000));
        let host = Prefix { address: 7, length: 128 };
        assert_eq!(host.random_within(Version::V6, &mut random), 7);
    }
}
