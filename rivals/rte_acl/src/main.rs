//! DPDK's `rte_acl` under command: builds a rule file, then times lookups and shows results.
//!
//! `widelane-rival-rte-acl RULES FLOWS CPU` answers one line of JSON when the table is built, and
//! one for every line on standard input:
//!
//! - `time ALGORITHM BURST PASSES`: nanoseconds per lookup in the fastest of the passes over all
//!   flows
//! - `results ALGORITHM`: for every flow, the line of its rule counted from 1, or 0
//!
//! With `WIDELANE_RTE_ACL_PAGES=large`, tables lie in pages of 2 MiB, of which the machine must
//! have set some aside (`sysctl vm.nr_hugepages=512`); they are not counted in what a build takes.

mod dpdk;
mod input;

use std::env;
use std::error::Error;
use std::fs;
use std::io::{self, BufRead, Write};
use std::net::IpAddr;
use std::time::Instant;

use crate::dpdk::{ALGORITHMS, Acl, Algorithm, Field, FieldDefinition, Kind};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Which pages tables lie in: `ordinary`, as without it, or `large`.
const PAGES: &str = "WIDELANE_RTE_ACL_PAGES";

fn main() -> Outcome<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [rules, flows, cpu] = arguments.as_slice() else {
        return Err("usage: widelane-rival-rte-acl RULES FLOWS CPU".into());
    };
    let rules = input::rules(&fs::read_to_string(rules)?)?;
    let flows = input::flows(&fs::read_to_string(flows)?)?;
    dpdk::start(cpu.parse()?, large_pages()?)?;
    let resident_before = resident_peak_kib()?;
    let began = Instant::now();
    let acl = match rules.first().map(|rule| rule.source.0) {
        Some(IpAddr::V6(_)) => build_v6(&rules)?,
        _ => build_v4(&rules)?,
    };
    let build_s = began.elapsed().as_secs_f64();
    let build_bytes = (resident_peak_kib()? - resident_before) * 1024;
    let keys: Vec<[u8; 64]> = flows.iter().map(key).collect();
    let keys: Vec<*const u8> = keys.iter().map(|key| key.as_ptr()).collect();
    let mut out = io::stdout().lock();
    let table_bytes = acl.table_bytes;
    let (rules, flows) = (rules.len(), flows.len());
    write!(out, r#"{{"rules":{rules},"flows":{flows},"build_s":{build_s},"#)?;
    writeln!(out, r#""build_bytes":{build_bytes},"table_bytes":{table_bytes}}}"#)?;
    out.flush()?;
    let mut results = vec![0; keys.len()];
    for line in io::stdin().lock().lines() {
        let line = line?;
        match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["time", algorithm, burst, passes] => {
                let (burst, passes) = (burst.parse()?, passes.parse()?);
                let ns = time(&acl, &keys, &mut results, named(algorithm)?, burst, passes)?;
                writeln!(out, r#"{{"ns":{ns}}}"#)?;
            }
            ["results", algorithm] => {
                // SAFETY: every key is 64 bytes long, and no field lies behind byte 38.
                unsafe { acl.classify(&keys, &mut results, named(algorithm)?) }?;
                writeln!(out, r#"{{"results":{results:?}}}"#)?;
            }
            _ => return Err(format!("unknown command {line:?}").into()),
        }
        out.flush()?;
    }
    Ok(())
}

fn large_pages() -> Outcome<bool> {
    match env::var(PAGES).as_deref() {
        Err(_) | Ok("ordinary") => Ok(false),
        Ok("large") => Ok(true),
        Ok(other) => Err(format!("{PAGES} is `{other}`; it can be `ordinary` or `large`").into()),
    }
}

fn named(name: &str) -> Outcome<Algorithm> {
    let known = ALGORITHMS.into_iter().find(|algorithm| algorithm.name == name);
    known.ok_or_else(|| format!("there is no algorithm {name}").into())
}

fn time(
    acl: &Acl,
    keys: &[*const u8],
    results: &mut [u32],
    algorithm: Algorithm,
    burst: usize,
    passes: usize,
) -> Outcome<f64> {
    let mut fastest = f64::MAX;
    for _ in 0..passes {
        let began = Instant::now();
        for (keys, results) in keys.chunks(burst).zip(results.chunks_mut(burst)) {
            // SAFETY: every key is 64 bytes long, and no field lies behind byte 38.
            unsafe { acl.classify(keys, results, algorithm) }?;
        }
        fastest = fastest.min(began.elapsed().as_secs_f64());
    }
    Ok(fastest * 1e9 / keys.len() as f64)
}

/// The layout of DPDK's `l3fwd-acl`: the header from the protocol on.
fn key(flow: &input::Flow) -> [u8; 64] {
    let mut key = [0; 64];
    key[0] = flow.protocol;
    let ports = match (flow.source, flow.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            key[3..7].copy_from_slice(&source.octets());
            key[7..11].copy_from_slice(&destination.octets());
            11
        }
        (source, destination) => {
            key[2..18].copy_from_slice(&v6(source));
            key[18..34].copy_from_slice(&v6(destination));
            34
        }
    };
    key[ports..ports + 2].copy_from_slice(&flow.source_port.to_be_bytes());
    key[ports + 2..ports + 4].copy_from_slice(&flow.destination_port.to_be_bytes());
    key
}

fn v6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

fn build_v4(rules: &[input::Rule]) -> Outcome<Acl> {
    let definitions = [
        FieldDefinition::new(Kind::Mask, 1, 0, 0, 0),
        FieldDefinition::new(Kind::Prefix, 4, 1, 1, 3),
        FieldDefinition::new(Kind::Prefix, 4, 2, 2, 7),
        FieldDefinition::new(Kind::Range, 2, 3, 3, 11),
        FieldDefinition::new(Kind::Range, 2, 4, 3, 13),
    ];
    let prefix = |(address, length): (IpAddr, u8)| match address {
        IpAddr::V4(v4) => Ok(Field { value: u32::from(v4).into(), other: length.into() }),
        IpAddr::V6(v6) => Err(format!("{v6} among IPv4 rules")),
    };
    let rules = rules.iter().enumerate().map(|(index, rule)| {
        let [protocol, source_ports, destination_ports] = common(rule);
        let (source, destination) = (prefix(rule.source)?, prefix(rule.destination)?);
        let fields = [protocol, source, destination, source_ports, destination_ports];
        Ok(ranked(index, rules.len(), fields))
    });
    let rules = rules.collect::<Result<Vec<_>, String>>()?;
    Ok(Acl::build(&definitions, &rules)?)
}

fn build_v6(rules: &[input::Rule]) -> Outcome<Acl> {
    let word = |index, offset| FieldDefinition::new(Kind::Prefix, 4, index, index, offset);
    let definitions = [
        FieldDefinition::new(Kind::Mask, 1, 0, 0, 0),
        word(1, 2),
        word(2, 6),
        word(3, 10),
        word(4, 14),
        word(5, 18),
        word(6, 22),
        word(7, 26),
        word(8, 30),
        FieldDefinition::new(Kind::Range, 2, 9, 9, 34),
        FieldDefinition::new(Kind::Range, 2, 10, 9, 36),
    ];
    let rules: Vec<_> = rules
        .iter()
        .enumerate()
        .map(|(index, rule)| {
            let [protocol, source_ports, destination_ports] = common(rule);
            let mut fields = [Field::default(); 11];
            fields[0] = protocol;
            fields[9] = source_ports;
            fields[10] = destination_ports;
            for (at, (address, length)) in [(1, rule.source), (5, rule.destination)] {
                for (word, field) in v6(address).chunks(4).zip(0..) {
                    let value = word.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
                    let other = u64::from(length).saturating_sub(32 * field).min(32);
                    fields[at + field as usize] = Field { value, other };
                }
            }
            ranked(index, rules.len(), fields)
        })
        .collect();
    Ok(Acl::build(&definitions, &rules)?)
}

fn common(rule: &input::Rule) -> [Field; 3] {
    let ports = |(first, last): (u16, u16)| Field { value: first.into(), other: last.into() };
    let (value, mask) = rule.protocol;
    let protocol = Field { value: value.into(), other: mask.into() };
    [protocol, ports(rule.source_ports), ports(rule.destination_ports)]
}

fn ranked<const FIELDS: usize>(
    index: usize,
    count: usize,
    fields: [Field; FIELDS],
) -> dpdk::Rule<FIELDS> {
    dpdk::Rule { categories: 1, priority: (count - index) as i32, result: index as u32 + 1, fields }
}

/// The largest resident size of this process so far, KiB.
fn resident_peak_kib() -> Outcome<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    Ok(line.and_then(|line| line.split_whitespace().next()).ok_or("no VmHWM")?.parse()?)
}
