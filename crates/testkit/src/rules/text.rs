//! Rule sets as the text of ClassBench and of DPDK's examples.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::{Flow, Prefix, TupleRule, TupleSet, Version};

/// The set as a ClassBench filter file; IPv4 only.
pub fn classbench(set: &TupleSet) -> String {
    assert_eq!(set.version, Version::V4, "ClassBench has IPv4 rules only");
    let mut text = String::new();
    for rule in &set.rules {
        let (value, mask) = protocol(rule);
        line(
            &mut text,
            format_args!(
                "@{}\t{}\t{} : {}\t{} : {}\t0x{value:02x}/0x{mask:02X}\t\
                 0x{:04x}/0x{:04x}\t",
                prefix(rule.source, set.version),
                prefix(rule.destination, set.version),
                rule.source_ports.0,
                rule.source_ports.1,
                rule.destination_ports.0,
                rule.destination_ports.1,
                rule.flags.0,
                rule.flags.1,
            ),
        );
    }
    text
}

/// The set as a rule file of DPDK's `l3fwd-acl`: every rule routes, to its index modulo 16.
pub fn dpdk(set: &TupleSet) -> String {
    let mut text = String::new();
    for (index, rule) in set.rules.iter().enumerate() {
        let (value, mask) = protocol(rule);
        line(
            &mut text,
            format_args!(
                "R{} {} {} : {} {} : {} 0x{value:02x}/0x{mask:02x} {}",
                prefix(rule.source, set.version),
                prefix(rule.destination, set.version),
                rule.source_ports.0,
                rule.source_ports.1,
                rule.destination_ports.0,
                rule.destination_ports.1,
                index % 16,
            ),
        );
    }
    text
}

/// Flows as a ClassBench trace: numbers in decimal, separated by tabs; IPv4 only.
pub fn trace(flows: &[Flow]) -> String {
    let mut text = String::new();
    for flow in flows {
        line(
            &mut text,
            format_args!(
                "{}\t{}\t{}\t{}\t{}",
                flow.source,
                flow.destination,
                flow.source_port,
                flow.destination_port,
                flow.protocol,
            ),
        );
    }
    text
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("a String takes any text");
}

fn protocol(rule: &TupleRule) -> (u8, u8) {
    rule.protocol.map_or((0, 0), |protocol| (protocol, 0xff))
}

fn prefix(prefix: Prefix, version: Version) -> String {
    match version {
        Version::V4 => format!("{}/{}", Ipv4Addr::from(prefix.address as u32), prefix.length),
        Version::V6 => format!("{}/{}", Ipv6Addr::from(prefix.address), prefix.length),
    }
}
