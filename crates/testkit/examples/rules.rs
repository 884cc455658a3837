//! Writes a generated rule set and flows for it: `rules FAMILY COUNT SEED FLOWS DIRECTORY`.
//!
//! `FAMILY-COUNT.rules` is a rule file of DPDK, and `FAMILY-COUNT.filters` one of ClassBench where
//! the addresses are IPv4; `FAMILY-COUNT.trace` holds one flow per line.

use std::env;
use std::error::Error;
use std::fs;
use std::net::Ipv6Addr;
use std::path::Path;

use widelane_testkit::rules::{self, Family, Version};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [family, count, seed, flows, directory] = arguments.as_slice() else {
        return Err("usage: rules FAMILY COUNT SEED FLOWS DIRECTORY".into());
    };
    let Some(family) = Family::ALL.into_iter().find(|known| known.name() == family) else {
        let names: Vec<_> = Family::ALL.iter().map(|known| known.name()).collect();
        return Err(format!("there is no family {family}; there are {}", names.join(", ")).into());
    };
    let set = rules::generate(family, count.parse()?, seed.parse()?);
    let flows = set.flows(flows.parse()?, seed.parse::<u64>()? + 1);
    let base = Path::new(directory).join(format!("{}-{count}", family.name()));
    fs::write(base.with_extension("rules"), rules::dpdk(&set))?;
    if set.version == Version::V4 {
        fs::write(base.with_extension("filters"), rules::classbench(&set))?;
        fs::write(base.with_extension("trace"), rules::trace(&flows))?;
    } else {
        let line = |flow: &rules::Flow| {
            let (source, destination) =
                (Ipv6Addr::from(flow.source), Ipv6Addr::from(flow.destination));
            let ports = format!("{}\t{}", flow.source_port, flow.destination_port);
            format!("{source}\t{destination}\t{ports}\t{}\n", flow.protocol)
        };
        fs::write(base.with_extension("trace"), flows.iter().map(line).collect::<String>())?;
    }
    Ok(())
}
