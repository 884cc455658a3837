//! Rule files of all formats, traces, and tables.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::ValueEnum;
use widelane_classify::rule::{self, Layout, RuleSet, classbench};
use widelane_classify::{Flow, Limits, Table};

/// How a rule file is written.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// By its name or its first line
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

/// Reads a rule file.
pub fn rules(path: &Path, format: Format) -> anyhow::Result<RuleSet> {
    let text = text(path)?;
    let name = path.display().to_string();
    if rule::is_blank(&text) {
        bail!("{name} holds no rules: it is empty, or has comments only");
    }
    let format = match format {
        Format::Auto if path.extension().is_some_and(|of| of == "csv") => rule::Format::Csv,
        Format::Auto => rule::Format::recognise(&text).with_context(|| {
            format!("{name} has no format that is recognised; --format names it")
        })?,
        Format::Classbench => rule::Format::Classbench,
        Format::Csv => rule::Format::Csv,
        Format::Dpdk => rule::Format::Dpdk,
        Format::Iptables => rule::Format::Iptables,
        Format::Nftables => rule::Format::Nftables,
    };
    Ok(format.parse(&name, &text)?)
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

/// Reads a trace of flows of the version of IP that the rules of a layout are for.
pub fn trace(path: &Path, layout: &Layout) -> anyhow::Result<Vec<Flow>> {
    let name = path.display().to_string();
    let flows = classbench::parse_trace(&name, &text(path)?)?;
    let is_v6 = *layout == Layout::ipv6();
    if let Some(index) = flows.iter().position(|flow| flow.is_v6() != is_v6) {
        let version = |is_v6: bool| if is_v6 { "IPv6" } else { "IPv4" };
        let (rules, flow) = (version(is_v6), version(!is_v6));
        bail!("{name}: flow {} is {flow}, the rules are {rules}", index + 1);
    }
    Ok(flows)
}

fn text(path: &Path) -> anyhow::Result<String> {
    let cannot_read = || format!("cannot read {}", path.display());
    let bytes = fs::read(path).with_context(cannot_read)?;
    if Table::is_table(&bytes) {
        bail!("{} is a table that was built of rules; give the rules", path.display());
    }
    String::from_utf8(bytes).with_context(cannot_read)
}
