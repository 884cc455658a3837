//! `widelane acl classify`: looks up the flows of a trace.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use widelane_classify::rule::Layout;
use widelane_classify::{Classifier, Flow};

use super::build::limits;
use super::input::{self, Format};
use crate::{measure, output};

/// Looks up the flows of a trace, and prints one line of results for each
#[derive(clap::Args)]
pub struct Args {
    /// Rule file, or a table that `widelane acl build` wrote
    rules: PathBuf,
    /// How the rule file is written
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    format: Format,
    /// Flows: source, destination, ports and protocol on each line, as ClassBench writes them
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// Prints how often each result came out instead
    #[arg(long)]
    counts: bool,
    /// The largest table allowed, MiB
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    memory_max: usize,
}

/// Flows that are looked up at a time.
const BURST: usize = 256;

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let table = input::table(&args.rules, args.format, &limits(args.memory_max))?;
    let is_v6 = *table.layout() == Layout::ipv6();
    if !is_v6 && *table.layout() != Layout::ipv4() {
        bail!("{} does not look at the fields that a trace has", args.rules.display());
    }
    let flows = input::trace(&args.trace)?;
    if let Some(index) = flows.iter().position(|flow| flow.is_v6() != is_v6) {
        let version = |is_v6: bool| if is_v6 { "IPv6" } else { "IPv4" };
        let (rules, flow) = (version(is_v6), version(!is_v6));
        bail!("{}: flow {} is {flow}, the rules are {rules}", args.trace.display(), index + 1);
    }
    let classifier = Classifier::choose(table, &measure::policy()?.policy);
    let categories = classifier.table().categories();
    let mut counts = BTreeMap::<Vec<u32>, usize>::new();
    let mut text = String::new();
    for flows in flows.chunks(BURST) {
        let packets: Vec<&[u8]> = flows.iter().map(Flow::packet).collect();
        let mut results = vec![0; packets.len() * categories];
        classifier.classify(&packets, &mut results)?;
        for results in results.chunks(categories) {
            match args.counts {
                true => *counts.entry(results.to_vec()).or_default() += 1,
                false => line(&mut text, results),
            }
        }
    }
    for (results, count) in counts {
        write!(text, "{count}\t")?;
        line(&mut text, &results);
    }
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn line(text: &mut String, results: &[u32]) {
    let words: Vec<String> = results.iter().map(u32::to_string).collect();
    text.push_str(&words.join("\t"));
    text.push('\n');
}
