//! `widelane power duty`: what scalar code loses to heavy bursts beside it.

use std::process::ExitCode;

use anyhow::bail;
use widelane_meter::experiment::duty::{self, Plan};
use widelane_meter::stimulus::Subject;
use widelane_meter::verdict::pairs::{self, Duty};
use widelane_report::{Block, Kind, Table, Tone};

use super::{Common, Part};

/// Maps what scalar code keeps of its speed beside bursts of every length and period
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// What the bursts are made of, a subject of `power map`
    #[arg(long, value_name = "NAME", default_value = "vfmadd213pd-512")]
    subject: String,
    /// Rounds; each visits every cell once
    #[arg(long, value_parser = clap::value_parser!(u32).range(6..=1000), default_value_t = 12)]
    rounds: u32,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(subject) = Subject::named(&args.subject) else {
        bail!("there is no subject {:?}; `widelane power map` lists them", args.subject);
    };
    let plan = Plan { subject, rounds: args.rounds, seconds: 40.0 };
    let recording =
        args.common.recording("duty", |machine, watcher| duty::run(&plan, machine, watcher))?;
    let found = pairs::duty(&recording)?;
    let tone = if found.verdict.starts_with("free") { Tone::Better } else { Tone::Same };
    let blocks = vec![
        Block::Lead(tone, format!("{}: {}.", found.subject, found.verdict)),
        Block::Heading("Share of its speed that scalar code keeps, %".to_owned()),
        Block::Table(table(&found)),
    ];
    args.common.answer(&found, vec![Part::Blocks(blocks)])
}

fn table(duty: &Duty) -> Table {
    let periods: Vec<String> =
        duty.periods_us.iter().map(|period| format!("every {period} µs")).collect();
    let mut columns = vec![("Burst", Kind::Words)];
    columns.extend(periods.iter().map(|period| (period.as_str(), Kind::Number)));
    let mut table = Table::new(&columns);
    for (burst, row) in duty.bursts_us.iter().zip(&duty.kept) {
        let mut cells = vec![format!("{burst} µs")];
        cells.extend(row.iter().map(|kept| kept.map_or(String::new(), shade)));
        table.rows.push(cells);
    }
    table
}

/// A share as a number, with a block that is the fuller the less is lost.
fn shade(kept: f64) -> String {
    let block = match kept {
        kept if kept >= 0.985 => '█',
        kept if kept >= 0.95 => '▓',
        kept if kept >= 0.9 => '▒',
        _ => '░',
    };
    format!("{:.1} {block}", 100.0 * kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_lighter() {
        assert_eq!([1.0, 0.96, 0.92, 0.8].map(shade).concat(), "100.0 █96.0 ▓92.0 ▒80.0 ░");
    }
}
