//! Rule sets as the text of ClassBench and of DPDK's examples.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::{Flow, Prefix, TupleRule, TupleSet, Version};

/// The set as a ClassBench filter file; IPv4 only.
pub fn classbench(set: &TupleSet) -> String {
    assert_eq!(set.version, Version::V4, "ClassBench has IPv4 rules only");
    let mut text = String::new();
    for rule in &set.rules {
        let fields = fields(rule, set.version).join("\t");
        let (value, mask) = rule.flags;
        line(&mut text, format_args!("@{fields}\t0x{value:04x}/0x{mask:04x}\t"));
    }
    text
}

/// The set as a rule file of DPDK's `l3fwd-acl`: every rule routes, to its index modulo 16.
pub fn dpdk(set: &TupleSet) -> String {
    let mut text = String::new();
    for (index, rule) in set.rules.iter().enumerate() {
        let fields = fields(rule, set.version).join(" ");
        line(&mut text, format_args!("R{fields} {}", index % 16));
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

/// What both have of a rule.
fn fields(rule: &TupleRule, version: Version) -> [String; 5] {
    let ports = |(first, last): (u16, u16)| format!("{first} : {last}");
    let (value, mask) = rule.protocol.map_or((0, 0), |protocol| (protocol, 0xff));
    [
        prefix(rule.source, version),
        prefix(rule.destination, version),
        ports(rule.source_ports),
        ports(rule.destination_ports),
        format!("0x{value:02x}/0x{mask:02X}"),
    ]
}

fn prefix(prefix: Prefix, version: Version) -> String {
    match version {
        Version::V4 => format!("{}/{}", Ipv4Addr::from(prefix.address as u32), prefix.length),
        Version::V6 => format!("{}/{}", Ipv6Addr::from(prefix.address), prefix.length),
    }
}
