//! `widelane power map`: per class and per kernel, what it costs the clock, and the verdict.

use std::process::ExitCode;

use anyhow::bail;
use serde::Serialize;
use widelane_meter::experiment::map::{self, Plan};
use widelane_meter::source::{self, Answer};
use widelane_meter::stimulus::Subject;
use widelane_meter::trace::Recording;
use widelane_meter::verdict::map::{Advice, Finding, Map, Verdict, judge};
use widelane_results::{Results, Row, Status};
use widelane_tables::{Block, Kind, Table, Tone};

use super::{Common, Part, clock_rows, limits, measured_on, mhz};
use crate::keep::{answer, row as result};

/// Maps what every instruction class and every kernel costs the clock
///
/// Each subject runs in random order between two looks at the clock of scalar code: on one core,
/// then on all that this process may use. Takes less than a minute by default.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Subjects: all, or names from the first column, separated by commas
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "all",
        conflicts_with = "replay"
    )]
    only: Vec<String>,
    /// Rounds; each visits every subject once [default: 24, or as many as begin in 45 s]
    #[arg(long, value_parser = clap::value_parser!(u32).range(6..=1000), conflicts_with = "replay")]
    rounds: Option<u32>,
    /// Leaves out the part that loads all cores at once
    #[arg(long, conflicts_with = "replay")]
    one_core: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (usual, subjects) = (Plan::full(), subjects(&args.only)?);
    let (rounds, seconds) = limits(args.rounds, (usual.rounds, usual.seconds));
    let plan = Plan { subjects, rounds, seconds, on_all_cores: !args.one_core, ..usual };
    let recorded = args.common.recording("map", |machine, watcher| {
        let sources = source::ask_all(machine);
        let mut recording = map::run(&plan, machine, watcher)?;
        recording.facts.extend(sources.iter().filter_map(fact));
        Ok(recording)
    })?;
    let recording = &recorded.recording;
    let map = judge(recording)?;
    let sources = sources(recording);
    let model = recording.fact("model").unwrap_or("unknown").to_owned();
    let cpus = recording.fact("cpus").and_then(|cpus| cpus.parse().ok());
    let mut blocks = blocks(&map, &model, cpus.unwrap_or(1), &sources);
    blocks.extend(measured_on(recording).map(Block::Text));
    let (tone, cpu) = (lead(&map).0, recording.number("cpu").map(|cpu| cpu as usize));
    let written = args.common.keep(recorded, |results| fill(results, &map));
    let answer = Told { model: &model, cpu, sources: &sources, map: &map };
    args.common.answer(tone, &answer, vec![Part::Blocks(blocks)], written)
}

/// What `--json` prints.
#[derive(Serialize)]
struct Told<'a> {
    model: &'a str,
    /// The CPU that was measured alone.
    cpu: Option<usize>,
    sources: &'a [Answer],
    #[serde(flatten)]
    map: &'a Map,
}

/// What the names of facts about sources begin with.
const SOURCE: &str = "source:";

/// A source's answer as a fact of the recording.
fn fact(answer: &Answer) -> Option<(String, String)> {
    Some((format!("{SOURCE}{}", answer.source), serde_json::to_string(answer).ok()?))
}

/// The sources that a recording tells of.
fn sources(recording: &Recording) -> Vec<Answer> {
    let facts = recording.facts.iter().filter(|(name, _)| name.starts_with(SOURCE));
    facts.filter_map(|(_, answer)| serde_json::from_str(answer).ok()).collect()
}

/// The subjects named; the control is always among them.
fn subjects(names: &[String]) -> anyhow::Result<Vec<Subject>> {
    if names.iter().any(|name| name == "all") {
        return Ok(Plan::full().subjects);
    }
    let mut subjects = vec![Subject::Scalar];
    for name in names {
        match Subject::named(name) {
            Some(subject) if !subjects.contains(&subject) => subjects.push(subject),
            Some(_) => {}
            None => {
                let known: Vec<String> =
                    Plan::full().subjects.iter().map(Subject::to_string).collect();
                bail!("there is no subject {name:?}; the subjects are {}", known.join(", "));
            }
        }
    }
    Ok(subjects)
}

fn blocks(map: &Map, model: &str, cpus: usize, sources: &[Answer]) -> Vec<Block> {
    let (tone, lead) = lead(map);
    let heading = |title: String| Block::Heading(title);
    let mut blocks = vec![Block::Lead(tone, lead)];
    for cores in [1, cpus] {
        let table = findings(map, cores);
        if table.rows.is_empty() || (cores == 1 && blocks.len() > 1) {
            continue;
        }
        let title = if cores == 1 { "One core".to_owned() } else { format!("All {cores} CPUs") };
        blocks.extend([heading(title), Block::Table(table)]);
    }
    let mut facts = vec![("CPU", model.to_owned())];
    for (name, clock) in [("Scalar clock", map.ambient_mhz), ("On all CPUs", map.ambient_all_mhz)] {
        facts.extend(clock.map(|clock| (name, range(clock))));
    }
    if let Some(ratio) = map.self_check {
        facts.push(("Self-check", self_check(ratio)));
    }
    if let Some(density) = map.density_threshold {
        let text = format!("{density:.2} heavy 512-bit multiplications per cycle");
        facts.push(("Threshold", text));
    }
    blocks.extend([heading("Clock".to_owned()), Block::Table(Table::of_facts(facts))]);
    if !sources.is_empty() {
        let mut table =
            Table::new(&[("Source", Kind::Words), ("MHz", Kind::Number), ("Reads", Kind::Words)]);
        table.rows.extend(sources.iter().map(|answer| {
            let reads = answer.reason.clone().unwrap_or_else(|| answer.reads.clone());
            vec![answer.source.clone(), mhz(answer.mhz), reads]
        }));
        blocks.extend([heading("Sources".to_owned()), Block::Table(table)]);
    }
    blocks
}

/// A clock, and the range of nine in ten visits.
fn range([median, low, high]: [f64; 3]) -> String {
    format!("{median:.0} MHz ({low:.0} to {high:.0})")
}

fn self_check(ratio: f64) -> String {
    let words = if (widelane_meter::meter::SelfCheck { ratio }).core_is_shared() {
        "another thread shares the core, seen or not"
    } else {
        "the core is ours alone"
    };
    format!("multiplication/addition {ratio:.2} of 3.00: {words}")
}

fn lead(map: &Map) -> (Tone, String) {
    let (tone, mut lead) = advice(&map.advice);
    if let Some(reason) = &map.not_on_all {
        lead += &format!(" This is of one core; on all at once nothing was measured: {reason}.");
    }
    (tone, lead)
}

fn advice(advice: &Advice) -> (Tone, String) {
    match advice {
        Advice::NothingToDo => {
            (Tone::Better, "Width costs this machine nothing: nothing to do.".to_owned())
        }
        Advice::Choose { costly } => {
            (Tone::Worse, format!("These cost the clock here: {}.", costly.join(", ")))
        }
        Advice::CannotTell { told: 0, silent: 0 } => (
            Tone::Unknown,
            "Nothing but scalar code was measured: this says nothing about width.".to_owned(),
        ),
        Advice::CannotTell { told: 0, .. } => {
            (Tone::Unknown, "Nothing could be told; the table says why.".to_owned())
        }
        Advice::CannotTell { told, silent } => (
            Tone::Unknown,
            format!(
                "Nothing was found that costs the clock, but {silent} of {} subjects could not be \
                 told; try again when the machine is quieter.",
                told + silent
            ),
        ),
    }
}

/// Adds the map to `results`.
fn fill(results: &mut Results, map: &Map) {
    let (tone, sentence) = lead(map);
    let mut detail = match (map.ambient_mhz, map.ambient_all_mhz) {
        (Some(one), Some(all)) => {
            format!("Scalar code runs at {} on one core, and at {} on all.", range(one), range(all))
        }
        (Some(one), None) => format!("Scalar code runs at {}.", range(one)),
        (None, _) => "Nothing was recorded of scalar code.".to_owned(),
    };
    if let Some(density) = map.density_threshold {
        detail.push_str(&format!(
            " The clock falls from {density:.2} heavy 512-bit multiplications per cycle on."
        ));
    }
    results.answer = answer(tone, sentence, detail);
    results.rows.extend(map.findings.iter().flat_map(rows));
}

/// A finding as rows.
fn rows(finding: &Finding) -> Vec<Row> {
    let Finding { subject, ratio, clock_mhz, verdict, .. } = finding;
    let scenario = format!("power/map/{}-cpus", finding.cores);
    let why_not = match verdict {
        Verdict::NotApplicable { reason } => {
            let reason = reason.strip_prefix("not applicable: ").unwrap_or(reason);
            (Status::NotApplicable, reason.to_owned())
        }
        Verdict::CannotTell { reason } => (Status::Rejected, reason.clone()),
        told => (Status::Rejected, told.to_string()),
    };
    let mut rows = clock_rows(&scenario, subject, (*ratio, *clock_mhz), why_not);
    rows[0].verdict = Some(verdict.to_string());
    for (metric, value) in
        [("single_use", finding.single_us), ("halt", finding.halt_us), ("hold", finding.hold_us)]
    {
        rows.extend(value.map(|value| result(&scenario, subject, (metric, "us"), value)));
    }
    rows
}

fn findings(map: &Map, cores: usize) -> Table {
    let mut table = Table::new(&[
        ("Subject", Kind::Words),
        ("MHz", Kind::Number),
        ("Of ambient", Kind::Number),
        ("One use, µs", Kind::Number),
        ("Halt, µs", Kind::Number),
        ("Hold, µs", Kind::Number),
        ("Verdict", Kind::Words),
    ]);
    let of_these = map.findings.iter().filter(|finding| finding.cores == cores);
    table.rows.extend(of_these.map(row));
    table.without_empty_columns()
}

fn row(finding: &Finding) -> Vec<String> {
    let number = |value: Option<f64>, digits: usize| {
        value.map_or(String::new(), |value| format!("{value:.digits$}"))
    };
    let ratio = finding.ratio.map_or(String::new(), |ratio| {
        let reach = (ratio.high - ratio.value).max(ratio.value - ratio.low);
        format!("{:.3} ± {reach:.3}", ratio.value)
    });
    vec![
        finding.subject.clone(),
        mhz(finding.clock_mhz),
        ratio,
        number(finding.single_us, 1),
        number(finding.halt_us, 1),
        number(finding.hold_us, 0),
        finding.verdict.to_string(),
    ]
}
