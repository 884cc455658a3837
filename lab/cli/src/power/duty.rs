//! `widelane power duty`: what scalar code loses to heavy bursts beside it.

use std::process::ExitCode;

use widelane_meter::experiment::duty::{self, Plan};
use widelane_meter::verdict::pairs::{self, Duty};
use widelane_report::grid_table;
use widelane_results::{Axis, Grid};
use widelane_tables::Block;

use super::{Common, Part, limits, measured_on, subject, tone_of};
use crate::keep::answer;

/// Maps what scalar code keeps of its speed beside bursts of every length and period
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// What the bursts are made of, a subject of `power map` [default: vfmadd213pd-512, or -256
    /// where the CPU has no more]
    #[arg(long, value_name = "NAME", conflicts_with = "replay")]
    subject: Option<String>,
    /// Rounds; each visits every cell once [default: 12, or as many as begin in 40 s]
    #[arg(long, value_parser = clap::value_parser!(u32).range(6..=1000), conflicts_with = "replay")]
    rounds: Option<u32>,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let subject = subject(args.subject.as_deref())?;
    let (rounds, seconds) = limits(args.rounds, (12, 40.0));
    let plan = Plan { subject, rounds, seconds };
    let recorded =
        args.common.recording("duty", |machine, watcher| duty::run(&plan, machine, watcher))?;
    let found = pairs::duty(&recorded.recording)?;
    let (tone, grid) = (tone_of(&found.verdict), grid(&found));
    let lead = format!("{}: {}.", found.subject, found.verdict);
    let mut blocks = vec![
        Block::Lead(tone, lead.clone()),
        Block::Heading("Share of its speed that scalar code keeps, %".to_owned()),
        Block::Table(grid_table(&grid)),
    ];
    blocks.extend(measured_on(&recorded.recording).map(Block::Text));
    let written = args.common.keep(recorded, |results| {
        results.answer = answer(tone, lead, String::new());
        results.grids.push(grid);
    });
    args.common.answer(tone, &found, vec![Part::Blocks(blocks)], written)
}

/// The map as results have it.
fn grid(duty: &Duty) -> Grid {
    let axis = |name: &str, places: &[f64]| Axis {
        name: name.to_owned(),
        unit: "us".to_owned(),
        places: places.to_vec(),
    };
    Grid {
        scenario: "power/duty".to_owned(),
        subject: duty.subject.clone(),
        metric: "speed_kept".to_owned(),
        down: axis("burst", &duty.bursts_us),
        across: axis("period", &duty.periods_us),
        shares: duty.kept.clone(),
    }
}
