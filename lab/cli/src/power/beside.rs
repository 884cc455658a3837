//! `widelane power sibling` and `widelane power speculation`: one thing beside another.

use std::process::ExitCode;

use widelane_meter::experiment::{sibling, speculation};
use widelane_meter::place;
use widelane_meter::verdict::pairs::{self, Comparison};
use widelane_results::{Results, Status};
use widelane_tables::{Block, Kind, Table};

use super::{Common, Part, clock_rows, limits, measured_on, mhz, tone_of};
use crate::keep::{answer, row};

/// Compares heavy 256-bit code on one hyper-thread with light 512-bit code on its sibling
#[derive(clap::Args)]
pub struct SiblingArgs {
    #[command(flatten)]
    common: Common,
    /// Rounds; each has the two alone and together [default: 30, or as many as begin in 30 s]
    #[arg(long, value_parser = clap::value_parser!(u32).range(6..=1000), conflicts_with = "replay")]
    rounds: Option<u32>,
}

/// Compares dispatch by branch with dispatch by pointer: does the clock pay for a wide side that is
/// never taken?
#[derive(clap::Args)]
pub struct SpeculationArgs {
    #[command(flatten)]
    common: Common,
    /// Rounds; each has every kind of dispatch [default: 40, or as many as begin in 30 s]
    #[arg(long, value_parser = clap::value_parser!(u32).range(6..=1000), conflicts_with = "replay")]
    rounds: Option<u32>,
}

/// Runs `sibling`.
pub fn sibling(args: &SiblingArgs) -> anyhow::Result<ExitCode> {
    let (cpu, cpus) = (args.common.cpu, place::allowed());
    let (rounds, seconds) = limits(args.rounds, (30, 30.0));
    let plan = sibling::Plan { cpu, cpus, rounds, seconds };
    let recorded = args
        .common
        .recording("sibling", |machine, watcher| sibling::run(&plan, machine, watcher))?;
    let found = pairs::sibling(&recorded.recording)?;
    let mut blocks = blocks(&found, "Instructions/s");
    blocks.extend(measured_on(&recorded.recording).map(Block::Text));
    let written = args.common.keep(recorded, |results| fill(results, "power/sibling", &found));
    args.common.answer(tone_of(&found.verdict), &found, vec![Part::Blocks(blocks)], written)
}

/// Runs `speculation`.
pub fn speculation(args: &SpeculationArgs) -> anyhow::Result<ExitCode> {
    let (rounds, seconds) = limits(args.rounds, (40, 30.0));
    let plan = speculation::Plan { rounds, seconds };
    let recorded = args
        .common
        .recording("speculation", |machine, watcher| speculation::run(plan, machine, watcher))?;
    let found = pairs::speculation(&recorded.recording)?;
    let mut blocks = blocks(&found, "Sites/s");
    blocks.extend(measured_on(&recorded.recording).map(Block::Text));
    let written = args.common.keep(recorded, |results| fill(results, "power/speculation", &found));
    args.common.answer(tone_of(&found.verdict), &found, vec![Part::Blocks(blocks)], written)
}

fn blocks(found: &Comparison, pace: &str) -> Vec<Block> {
    let mut table = Table::new(&[
        ("Part", Kind::Words),
        ("MHz", Kind::Number),
        ("Of ambient", Kind::Number),
        (pace, Kind::Number),
        ("Rounds", Kind::Number),
    ]);
    table.rows.extend(found.parts.iter().map(|part| {
        let ratio = part.ratio.map_or(String::new(), |ratio| ratio.to_string());
        let pace = part.pace.map_or(String::new(), |pace| format!("{:.0} M", pace / 1e6));
        vec![part.subject.clone(), mhz(part.clock_mhz), ratio, pace, part.visits.to_string()]
    }));
    vec![Block::Lead(tone_of(&found.verdict), lead(found)), Block::Table(table)]
}

fn lead(found: &Comparison) -> String {
    format!("{}.", found.verdict)
}

/// Adds the parts to `results`.
fn fill(results: &mut Results, scenario: &str, found: &Comparison) {
    results.answer = answer(tone_of(&found.verdict), lead(found), String::new());
    for part in &found.parts {
        let why_not = (Status::Rejected, "too few quiet rounds".to_owned());
        results.rows.extend(clock_rows(
            scenario,
            &part.subject,
            (part.ratio, part.clock_mhz),
            why_not,
        ));
        let own = |metric, value| row(scenario, &part.subject, metric, value);
        results.rows.extend(part.pace.map(|pace| own(("pace", "1/s"), pace)));
        results.rows.push(own(("visits", "count"), part.visits as f64));
    }
}
