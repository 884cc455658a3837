//! Rule files of all formats, traces, and tables.

use std::fs::File;
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
    parse(path, format, &text(path)?)
}

fn parse(path: &Path, format: Format, text: &str) -> anyhow::Result<RuleSet> {
    let name = path.display().to_string();
    if rule::is_blank(text) {
        bail!("{name} holds no rules: it is empty, or has comments only");
    }
    let format = match format {
        Format::Auto if path.extension().is_some_and(|of| of == "csv") => rule::Format::Csv,
        Format::Auto => rule::Format::recognise(text).with_context(|| {
            format!("{name} has no format that is recognised; --format names it")
        })?,
        Format::Classbench => rule::Format::Classbench,
        Format::Csv => rule::Format::Csv,
        Format::Dpdk => rule::Format::Dpdk,
        Format::Iptables => rule::Format::Iptables,
        Format::Nftables => rule::Format::Nftables,
    };
    Ok(format.parse(&name, text)?)
}

/// Reads a table, or builds one of a rule file.
pub fn table(path: &Path, format: Format, limits: &Limits) -> anyhow::Result<Arc<Table>> {
    let mut file = open(path)?;
    let mut start = Vec::new();
    file.by_ref().take(8).read_to_end(&mut start).with_context(|| cannot_read(path))?;
    if Table::is_table(&start) {
        // What comes through a pipe comes once.
        let table = match file.metadata().is_ok_and(|of| of.is_file()) {
            true => Table::open(path),
            false => Table::read(&mut start.chain(file)),
        };
        return Ok(Arc::new(table.with_context(|| format!("cannot use {}", path.display()))?));
    }
    let set = parse(path, format, &text_of(path, start.chain(file))?)?;
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

/// Reads the text of a file of rules or flows.
pub fn text(path: &Path) -> anyhow::Result<String> {
    text_of(path, open(path)?)
}

fn text_of(path: &Path, mut source: impl Read) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    source.read_to_end(&mut bytes).with_context(|| cannot_read(path))?;
    if Table::is_table(&bytes) {
        bail!("{} is a table that was built of rules; give the rules", path.display());
    }
    // Comments and names may be in any encoding: the parsers refuse what is not ASCII elsewhere.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn open(path: &Path) -> anyhow::Result<File> {
    File::open(path).with_context(|| cannot_read(path))
}

fn cannot_read(path: &Path) -> String {
    format!("cannot read {}", path.display())
}
