//! Flows: the five fields of a packet, laid out as its headers are.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::rule::{Layout, Match, RuleSet};

/// Source, destination, ports and protocol, as the first bytes of a packet that has them.
///
/// [`packet`](Self::packet) can be looked up with the layouts
/// [`ipv4`](crate::rule::Layout::ipv4) and [`ipv6`](crate::rule::Layout::ipv6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(align(64))]
pub struct Flow {
    bytes: [u8; 44],
    is_v6: bool,
}

const V4_BYTES: usize = 24;

impl Flow {
    /// A flow over IPv4; `ports` are source and destination.
    pub fn v4(source: u32, destination: u32, ports: [u16; 2], protocol: u8) -> Self {
        let mut bytes = [0; 44];
        bytes[0] = 0x45;
        bytes[9] = protocol;
        bytes[12..16].copy_from_slice(&source.to_be_bytes());
        bytes[16..20].copy_from_slice(&destination.to_be_bytes());
        bytes[20..22].copy_from_slice(&ports[0].to_be_bytes());
        bytes[22..24].copy_from_slice(&ports[1].to_be_bytes());
        Flow { bytes, is_v6: false }
    }

    /// A flow over IPv6; `ports` are source and destination.
    pub fn v6(source: u128, destination: u128, ports: [u16; 2], protocol: u8) -> Self {
        let mut bytes = [0; 44];
        bytes[0] = 0x60;
        bytes[6] = protocol;
        bytes[8..24].copy_from_slice(&source.to_be_bytes());
        bytes[24..40].copy_from_slice(&destination.to_be_bytes());
        bytes[40..42].copy_from_slice(&ports[0].to_be_bytes());
        bytes[42..44].copy_from_slice(&ports[1].to_be_bytes());
        Flow { bytes, is_v6: true }
    }

    /// Flows for a set of five-field rules, for measurements without a trace: nine in ten lie
    /// within some rule, the others anywhere. Equal seeds give equal flows.
    ///
    /// Returns nothing if the layout is another than [`Layout::ipv4`] or [`Layout::ipv6`].
    pub fn drawn(set: &RuleSet, count: usize, seed: u64) -> Option<Vec<Flow>> {
        let is_v6 = set.layout == Layout::ipv6();
        if !is_v6 && set.layout != Layout::ipv4() {
            return None;
        }
        let mut numbers = Numbers(seed);
        let flow = |_| {
            let rule = match numbers.below(10) {
                0 => None,
                _ if set.rules.is_empty() => None,
                _ => Some(&set.rules[numbers.below(set.rules.len())]),
            };
            let mut field = |field: usize| {
                let of = rule.map_or(Match::ANY, |rule| rule.matches[field]);
                numbers.within(&of, set.layout.fields()[field].bytes)
            };
            let (source, destination) = (field(0), field(1));
            let ports = [field(2) as u16, field(3) as u16];
            let protocol = match rule.is_some_and(|rule| !rule.matches[4].is_any(1)) {
                true => field(4) as u8,
                false => [TCP, UDP][numbers.below(2)],
            };
            match is_v6 {
                true => Flow::v6(source, destination, ports, protocol),
                false => Flow::v4(source as u32, destination as u32, ports, protocol),
            }
        };
        Some((0..count).map(flow).collect())
    }

    /// Whether the addresses are IPv6.
    pub const fn is_v6(&self) -> bool {
        self.is_v6
    }

    /// The packet's first bytes, as far as the five fields reach.
    pub fn packet(&self) -> &[u8] {
        if self.is_v6 { &self.bytes } else { &self.bytes[..V4_BYTES] }
    }
}

const TCP: u8 = 6;
const UDP: u8 = 17;

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// A value that `of` accepts.
    fn within(&mut self, of: &Match, bytes: usize) -> u128 {
        let any = u128::from(self.next()) << 64 | u128::from(self.next());
        let any = any >> (128 - 8 * bytes);
        match *of {
            Match::Mask { value, mask } => value & mask | any & !mask,
            Match::Range { first, last } => match (last - first).checked_add(1) {
                Some(count) => first + any % count,
                None => any,
            },
        }
    }
}

impl fmt::Display for Flow {
    /// A line of a trace.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = &self.bytes;
        let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        if self.is_v6 {
            let address = |at: usize| {
                let octets = bytes[at..].first_chunk::<16>().copied().unwrap_or_default();
                Ipv6Addr::from(octets)
            };
            let (source, destination, protocol) = (address(8), address(24), bytes[6]);
            write!(formatter, "{source}\t{destination}\t{}\t{}\t{protocol}", port(40), port(42))
        } else {
            let address =
                |at: usize| Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]);
            let (source, destination, protocol) = (address(12), address(16), bytes[9]);
            write!(formatter, "{source}\t{destination}\t{}\t{}\t{protocol}", port(20), port(22))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::classbench::parse_trace;

    #[test]
    fn a_flow_reads_back_from_its_line() {
        let flows = [
            Flow::v4(0x0a01_0203, 0xc0a8_0001, [1, 65_535], 6),
            Flow::v6(0x2001_0db8 << 96 | 1, 2, [40_000, 53], 17),
        ];
        for flow in flows {
            assert_eq!(parse_trace("t", &flow.to_string()).unwrap(), [flow]);
        }
    }
}
