//! Rules and flows as text: the subset of DPDK's rule files that the rival is given.

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr};

/// A rule over five fields.
pub struct Rule {
    /// Source prefix.
    pub source: (IpAddr, u8),
    /// Destination prefix.
    pub destination: (IpAddr, u8),
    /// First and last source port.
    pub source_ports: (u16, u16),
    /// First and last destination port.
    pub destination_ports: (u16, u16),
    /// Protocol and its mask.
    pub protocol: (u8, u8),
}

/// The five fields of a packet.
pub struct Flow {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Protocol number.
    pub protocol: u8,
}

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Reads `@` and `R` lines; the port of a route is not needed.
pub fn rules(text: &str) -> Outcome<Vec<Rule>> {
    lines(text)
        .map(|line| rule(line).map_err(|error| format!("{line:?}: {error}").into()))
        .collect()
}

/// Reads flows: addresses, ports and protocol, IPv4 addresses as one decimal number.
pub fn flows(text: &str) -> Outcome<Vec<Flow>> {
    lines(text)
        .map(|line| flow(line).map_err(|error| format!("{line:?}: {error}").into()))
        .collect()
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
}

fn rule(line: &str) -> Outcome<Rule> {
    let words = line.get(1..).ok_or("too short")?;
    let mut words = words.split_whitespace().filter(|word| *word != ":");
    let mut next = || words.next().ok_or("a field is missing");
    let (source, destination) = (prefix(next()?)?, prefix(next()?)?);
    let source_ports = (next()?.parse()?, next()?.parse()?);
    let destination_ports = (next()?.parse()?, next()?.parse()?);
    let (value, mask) = next()?.split_once('/').ok_or("a protocol is VALUE/MASK")?;
    let protocol = (byte(value)?, byte(mask)?);
    Ok(Rule { source, destination, source_ports, destination_ports, protocol })
}

fn prefix(word: &str) -> Outcome<(IpAddr, u8)> {
    let (address, length) = word.split_once('/').ok_or("a prefix is ADDRESS/LENGTH")?;
    Ok((address.parse()?, length.parse()?))
}

fn byte(word: &str) -> Outcome<u8> {
    Ok(u8::from_str_radix(word.trim_start_matches("0x"), 16)?)
}

fn flow(line: &str) -> Outcome<Flow> {
    let mut words = line.split_whitespace();
    let mut next = || words.next().ok_or("a field is missing");
    Ok(Flow {
        source: address(next()?)?,
        destination: address(next()?)?,
        source_port: next()?.parse()?,
        destination_port: next()?.parse()?,
        protocol: next()?.parse()?,
    })
}

fn address(word: &str) -> Outcome<IpAddr> {
    Ok(match word.parse::<u32>() {
        Ok(number) => IpAddr::V4(Ipv4Addr::from(number)),
        Err(_) => word.parse()?,
    })
}
