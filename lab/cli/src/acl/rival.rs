//! The rival program: DPDK's `rte_acl`, timed by commands over a pipe.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use serde::Deserialize;
use widelane_bench::rival;
use widelane_classify::Flow;
use widelane_classify::rule::{Layout, RuleSet};

const NAME: &str = "widelane-rival-rte-acl";

/// A running rival that has built its table.
pub struct Rival {
    program: rival::Rival,
    /// What it said when it was ready.
    pub ready: Ready,
    _files: tempfile::TempDir,
}

/// How the rival built its table.
#[derive(Deserialize)]
pub struct Ready {
    /// Seconds.
    pub build_s: f64,
    /// Growth of the resident size.
    pub build_bytes: u64,
    /// The finished table.
    pub table_bytes: u64,
}

#[derive(Deserialize)]
struct Time {
    ns: f64,
}

#[derive(Deserialize)]
struct Results {
    results: Vec<u32>,
}

/// The program, if it is installed.
pub fn find(said: Option<&Path>) -> Option<PathBuf> {
    crate::rival::find(NAME, said)
}

impl Rival {
    /// Starts the rival on a CPU, and waits until it has built the rules.
    pub fn start(
        program: &Path,
        set: &RuleSet,
        flows: &[Flow],
        cpu: usize,
    ) -> anyhow::Result<Self> {
        let files = tempfile::tempdir().context("cannot make a directory for the rival")?;
        let (rules, trace) = (files.path().join("rules"), files.path().join("trace"));
        fs::write(&rules, rules_text(set)?)?;
        let lines: String = flows.iter().map(|flow| format!("{flow}\n")).collect();
        fs::write(&trace, lines)?;
        let mut command = Command::new(program);
        command.args([&rules, &trace]).arg(cpu.to_string());
        let mut program = rival::Rival::start(command)?;
        let ready = program.hear()?;
        Ok(Rival { program, ready, _files: files })
    }

    /// Nanoseconds per lookup in the fastest of some passes over all flows.
    pub fn time(&mut self, algorithm: &str, burst: usize, passes: usize) -> anyhow::Result<f64> {
        Ok(self.program.ask::<Time>(&format!("time {algorithm} {burst} {passes}"))?.ns)
    }

    /// For every flow, the position of its rule counted from 1, or 0.
    pub fn results(&mut self, algorithm: &str) -> anyhow::Result<Vec<u32>> {
        Ok(self.program.ask::<Results>(&format!("results {algorithm}"))?.results)
    }
}

/// The rules in DPDK's form, the strongest first.
fn rules_text(set: &RuleSet) -> anyhow::Result<String> {
    let is_v6 = set.layout == Layout::ipv6();
    let mut text = String::new();
    for rule in set.in_order() {
        let fields = set.layout.fields();
        let prefix = |index: usize| {
            let bytes = fields[index].bytes;
            let (value, mask) = rule.matches[index].as_mask(bytes)?;
            let length = mask.count_ones();
            // Only a prefix is a mask and a range at once.
            rule.matches[index].as_range(bytes)?;
            Some(match is_v6 {
                true => format!("{}/{length}", Ipv6Addr::from(value)),
                false => format!("{}/{length}", Ipv4Addr::from(value as u32)),
            })
        };
        let ports = |index: usize| rule.matches[index].as_range(2);
        let parts = (prefix(0), prefix(1), ports(2), ports(3), rule.matches[4].as_mask(1));
        let (Some(source), Some(destination), Some(from), Some(to), Some((value, mask))) = parts
        else {
            bail!(
                "the rule of line {} has no form in DPDK's rule files, which the rival reads; \
                 --alone measures without it",
                rule.line
            );
        };
        let ports = format!("{} : {} {} : {}", from.0, from.1, to.0, to.1);
        writeln!(text, "R{source} {destination} {ports} 0x{value:x}/0x{mask:x} 0")?;
    }
    Ok(text)
}
