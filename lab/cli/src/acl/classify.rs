//! `widelane acl classify`: looks up the flows of a trace, or the packets of a capture.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use serde::Serialize;
use widelane_classify::Classifier;
use widelane_classify::headers::{self, Packet, Refusal};
use widelane_classify::rule::Layout;
use widelane_cli::{output, system};
use widelane_forward::capture::Capture;

use super::build::limits;
use super::input::{self, Format};

/// Looks up the flows of a trace or the packets of a capture, and prints one line of results for
/// each
///
/// Of a packet that cannot be looked up, the line says why: `not-ip`, `cut` before its ports,
/// `malformed`, or `other-version` of IP than the rules.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("source").required(true).args(["trace", "pcap"]))]
pub struct Args {
    /// Rule file, or a table that `widelane acl build` wrote
    rules: PathBuf,
    /// How the rule file is written
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    format: Format,
    /// Flows: source, destination, ports and protocol on each line, as ClassBench writes them
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Packets: a pcap or pcapng file of Ethernet frames or IP packets
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Prints how often each result came out instead
    #[arg(long)]
    counts: bool,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
    /// The largest table allowed, MiB
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    memory_max: usize,
}

/// Packets that are looked up at a time.
const BURST: usize = 256;
const OTHER_VERSION: &str = "other-version";

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let table = input::table(&args.rules, args.format, &limits(args.memory_max))?;
    let is_v6 = *table.layout() == Layout::ipv6();
    if !is_v6 && *table.layout() != Layout::ipv4() {
        bail!("{} does not look at the fields that packets have", args.rules.display());
    }
    let classifier = Classifier::choose(table, &system::policy()?.policy);
    let mut lines = Lines { classifier, outcomes: Vec::new() };
    match (&args.trace, &args.pcap) {
        (Some(path), _) => {
            let flows = input::trace(path, lines.classifier.table().layout())?;
            lines.take(flows.iter().map(|flow| Ok(flow.packet())).collect())?;
        }
        (None, Some(path)) => {
            let capture = Capture::open(path).with_context(|| path.display().to_string())?;
            let parsed: Vec<Result<Packet, Refusal>> =
                capture.frames().map(|(link, frame)| headers::parse(link, frame)).collect();
            let packets = parsed.iter().zip(capture.frames()).map(|(packet, (_, frame))| {
                let packet = packet.as_ref().map_err(Refusal::to_string)?;
                match packet.is_v6 == is_v6 {
                    true => Ok(packet.key(frame)),
                    false => Err(OTHER_VERSION.to_owned()),
                }
            });
            lines.take(packets.collect())?;
            if capture.is_cut {
                lines.print(args)?;
                bail!("{} ends in the middle of frame {}", path.display(), capture.len() + 1);
            }
        }
        (None, None) => bail!("expected --trace or --pcap"),
    }
    lines.print(args)?;
    Ok(ExitCode::SUCCESS)
}

/// The results, one for each packet.
struct Lines {
    classifier: Classifier,
    outcomes: Vec<Outcome>,
}

/// The results of one packet, or why there are none.
type Outcome = Result<Vec<u32>, String>;

/// What came out of packets, for programs.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Document<'a> {
    Packets(Vec<Line<'a>>),
    Counts(Vec<Line<'a>>),
}

#[derive(Serialize)]
struct Line<'a> {
    /// One for each category.
    #[serde(skip_serializing_if = "Option::is_none")]
    results: Option<&'a [u32]>,
    /// Why there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<&'a str>,
    /// How many packets came to this.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<usize>,
}

impl Lines {
    /// Looks up packets, of which some cannot be.
    fn take(&mut self, packets: Vec<Result<&[u8], String>>) -> anyhow::Result<()> {
        let categories = self.classifier.table().categories();
        for packets in packets.chunks(BURST) {
            let own: Vec<&[u8]> =
                packets.iter().filter_map(|packet| packet.as_ref().ok().copied()).collect();
            let mut results = vec![0; own.len() * categories];
            self.classifier.classify(&own, &mut results)?;
            let mut results = results.chunks(categories);
            for packet in packets {
                self.outcomes.push(match packet {
                    Ok(_) => Ok(results.next().unwrap_or_default().to_vec()),
                    Err(reason) => Err(reason.clone()),
                });
            }
        }
        Ok(())
    }

    fn print(&self, args: &Args) -> anyhow::Result<()> {
        let mut counts = BTreeMap::<&Outcome, usize>::new();
        let lines: Vec<Line> = match args.counts {
            true => {
                self.outcomes.iter().for_each(|of| *counts.entry(of).or_default() += 1);
                counts.into_iter().map(|(of, count)| Line::new(of, Some(count))).collect()
            }
            false => self.outcomes.iter().map(|of| Line::new(of, None)).collect(),
        };
        output::print(&match (args.json, args.counts) {
            (false, _) => lines.iter().map(Line::text).collect(),
            (true, true) => serde_json::to_string_pretty(&Document::Counts(lines))?,
            (true, false) => serde_json::to_string_pretty(&Document::Packets(lines))?,
        })
    }
}

impl<'a> Line<'a> {
    fn new(outcome: &'a Outcome, count: Option<usize>) -> Self {
        let refused = outcome.as_ref().err().map(String::as_str);
        Line { results: outcome.as_deref().ok(), refused, count }
    }

    fn text(&self) -> String {
        let results = self.results.unwrap_or_default().iter().map(u32::to_string);
        let refused = self.refused.map(str::to_owned);
        let count = self.count.map(|count| count.to_string());
        let words: Vec<String> = count.into_iter().chain(results).chain(refused).collect();
        words.join("\t") + "\n"
    }
}
