//! Rule files of all formats, traces, and tables.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::ValueEnum;
use widelane_classify::rule::{RuleSet, classbench, csv, dpdk, iptables, nftables};
use widelane_classify::{Flow, Limits, Table};

/// How a rule file is written.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// By its name and its first lines
    Auto,
    /// ClassBench filters
    Classbench,
    /// Comma-separated values with a line of column names
    Csv,
    /// Rules of DPDK's l3fwd-acl
    Dpdk,
    /// What iptables-save and ip6tables-save write
    Iptables,
    /// What nft list ruleset writes
    Nftables,
}

/// What some editors write in front of a text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Reads a rule file.
pub fn rules(path: &Path, format: Format) -> anyhow::Result<RuleSet> {
    let text = text(path)?;
    let name = path.display().to_string();
    let says_something = |line: &str| !line.is_empty() && !line.starts_with('#');
    if !text.trim_start_matches(BYTE_ORDER_MARK).lines().map(str::trim).any(says_something) {
        bail!("{name} holds no rules: it is empty, or has comments only");
    }
    Ok(match format {
        Format::Auto => return rules_of_text(path, &name, &text),
        Format::Classbench => classbench::parse(&name, &text)?,
        Format::Csv => csv::parse(&name, &text)?,
        Format::Dpdk => dpdk::parse(&name, &text)?,
        Format::Iptables => iptables::parse(&name, &text)?,
        Format::Nftables => nftables::parse(&name, &text)?,
    })
}

fn rules_of_text(path: &Path, name: &str, text: &str) -> anyhow::Result<RuleSet> {
    let lines = text.trim_start_matches(BYTE_ORDER_MARK).lines();
    let mut lines = lines.map(str::trim_start).filter(|line| !line.starts_with('#'));
    if path.extension().is_some_and(|extension| extension == "csv") {
        Ok(csv::parse(name, text)?)
    } else if lines.clone().any(|line| line.starts_with('*')) {
        Ok(iptables::parse(name, text)?)
    } else if lines.clone().any(|line| line.starts_with("table ")) {
        Ok(nftables::parse(name, text)?)
    } else if lines.any(|line| line.starts_with('@') && line.matches('/').count() == 4) {
        // ClassBench alone has flags: two addresses, a protocol and them make four slashes.
        Ok(classbench::parse(name, text)?)
    } else {
        Ok(dpdk::parse(name, text)?)
    }
}

/// Reads a table, or builds one of a rule file.
pub fn table(path: &Path, format: Format, limits: &Limits) -> anyhow::Result<Arc<Table>> {
    let mut start = [0; 8];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
    if read.is_ok() && Table::is_table(&start) {
        let table = Table::open(path).with_context(|| format!("cannot use {}", path.display()))?;
        return Ok(Arc::new(table));
    }
    let set = rules(path, format)?;
    let table = Table::build(&set, limits);
    Ok(Arc::new(table.with_context(|| format!("cannot build a table of {}", path.display()))?))
}

/// Reads a trace.
pub fn trace(path: &Path) -> anyhow::Result<Vec<Flow>> {
    Ok(classbench::parse_trace(&path.display().to_string(), &text(path)?)?)
}

fn text(path: &Path) -> anyhow::Result<String> {
    let cannot_read = || format!("cannot read {}", path.display());
    let bytes = fs::read(path).with_context(cannot_read)?;
    if Table::is_table(&bytes) {
        bail!("{} is a table that was built of rules; give the rules", path.display());
    }
    String::from_utf8(bytes).with_context(cannot_read)
}
