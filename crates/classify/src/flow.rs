//! Flows: the five fields of a packet, laid out as its headers are.

use std::net::{Ipv4Addr, Ipv6Addr};

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

    /// Whether the addresses are IPv6.
    pub const fn is_v6(&self) -> bool {
        self.is_v6
    }

    /// The packet's first bytes, as far as the five fields reach.
    pub fn packet(&self) -> &[u8] {
        if self.is_v6 { &self.bytes } else { &self.bytes[..V4_BYTES] }
    }
}

impl std::fmt::Display for Flow {
    /// A line of a trace.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let number = |at: usize| u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]]);
        let address = |at: usize| self.bytes[at..at + 16].try_into().map(|bytes: [u8; 16]| bytes);
        if self.is_v6 {
            let (source, destination) = (address(8), address(24));
            let text =
                |bytes: Result<[u8; 16], _>| bytes.map(Ipv6Addr::from).map_err(|_| std::fmt::Error);
            let (source, destination) = (text(source)?, text(destination)?);
            write!(
                formatter,
                "{source}\t{destination}\t{}\t{}\t{}",
                number(40),
                number(42),
                self.bytes[6]
            )
        } else {
            let text = |at: usize| {
                Ipv4Addr::new(
                    self.bytes[at],
                    self.bytes[at + 1],
                    self.bytes[at + 2],
                    self.bytes[at + 3],
                )
            };
            let (source, destination) = (text(12), text(16));
            write!(
                formatter,
                "{source}\t{destination}\t{}\t{}\t{}",
                number(20),
                number(22),
                self.bytes[9]
            )
        }
    }
}
