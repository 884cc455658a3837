//! `widelane power model`: what widths would cost on a CPU that is not at hand.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use serde::Serialize;
use widelane_meter::model::{
    Apart, Choice, Cpu, LEVELS, ModelError, Prediction, Table, Workload, predict, predict_apart,
};
use widelane_tables::{Block, Kind, Table as Grid, Tone};

use super::{Part, cannot, mhz, print};

/// Predicts clock, residency and throughput of each width on a CPU that is not at hand
///
/// From published turbo limits and transition times; what was not published is said.
/// docs/measure/meter.md tells how far the model agrees with published measurements. Limits and
/// workloads of your own have the form of cpus.toml and handshakes.toml, in
/// /usr/share/doc/widelane-bench/examples/ where a package put them, or in crates/meter/data/ of
/// the source.
#[derive(clap::Args)]
pub struct Args {
    /// The CPU; without it, the CPUs known are listed
    #[arg(long, value_name = "NAME")]
    cpu: Option<String>,
    /// Turbo limits of your own, in the form of cpus.toml
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
    /// The clock of scalar code with these cores active, where no limit is published or this
    /// machine does not reach it
    #[arg(long, value_name = "MHZ", value_parser = clock_mhz)]
    ambient_mhz: Option<f64>,
    /// The workload, in the form of handshakes.toml; handshakes by default
    #[arg(long, value_name = "FILE")]
    workload: Option<PathBuf>,
    /// Cores that work; overrides the workload
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    cores: Option<u32>,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// A choice with what is predicted of it, or why nothing is.
#[derive(Serialize)]
struct Line {
    cpu: String,
    cores: u32,
    choice: Choice,
    prediction: Option<Prediction>,
    /// The same with one of the cores set aside for the kernel.
    apart: Option<Apart>,
    reason: Option<String>,
}

/// The clock of a core, in MHz.
fn clock_mhz(text: &str) -> Result<f64, String> {
    let mhz = text.parse().ok().filter(|mhz| (100.0..=10_000.0).contains(mhz));
    mhz.ok_or_else(|| format!("{text:?} is not a clock of 100 to 10000 MHz"))
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let table = match &args.table {
        Some(path) => {
            Table::parse(&fs::read_to_string(path).with_context(|| cannot("read", path))?)?
        }
        None => Table::shipped()?,
    };
    let Some(cpu) = &args.cpu else {
        return print(args.json, &table.cpus, vec![Part::Blocks(known(&table))]);
    };
    let mut workload = match &args.workload {
        Some(path) => {
            Workload::parse(&fs::read_to_string(path).with_context(|| cannot("read", path))?)?
        }
        None => Workload::handshakes()?,
    };
    workload.cores = args.cores.unwrap_or(workload.cores);
    let lines = workload
        .choices
        .iter()
        .map(|choice| line(&table, cpu, &workload, choice, args.ambient_mhz))
        .collect::<Result<Vec<_>, _>>()?;
    let blocks = blocks(cpu, workload.cores, &lines);
    print(args.json, &lines, vec![Part::Blocks(blocks)])
}

/// A limit that was never published leaves a line without a prediction; anything else is an error.
fn line(
    table: &Table,
    cpu: &str,
    workload: &Workload,
    choice: &Choice,
    ambient_mhz: Option<f64>,
) -> Result<Line, ModelError> {
    let (choice, cores) = (choice.clone(), workload.cores);
    let cpu_name = || cpu.to_owned();
    match table.core(cpu, cores, choice.level()?, ambient_mhz) {
        Ok(core) => {
            let prediction = Some(predict(workload, &choice, &core)?);
            let apart = predict_apart(workload, &choice, &core)?;
            Ok(Line { cpu: cpu_name(), cores, choice, prediction, apart, reason: None })
        }
        Err(error @ (ModelError::NoLimit { .. } | ModelError::NoTransitions { .. })) => {
            let reason = Some(error.to_string());
            Ok(Line { cpu: cpu_name(), cores, choice, prediction: None, apart: None, reason })
        }
        Err(error) => Err(error),
    }
}

fn known(table: &Table) -> Vec<Block> {
    let mut grid = Grid::new(&[
        ("CPU", Kind::Words),
        ("Generation", Kind::Words),
        ("Cores", Kind::Number),
        ("Limits published", Kind::Words),
    ]);
    grid.rows.extend(table.cpus.iter().map(|cpu| {
        let limits: Vec<String> = (0..LEVELS).filter_map(|level| limits(cpu, level)).collect();
        let limits = if limits.is_empty() { "none found".to_owned() } else { limits.join("; ") };
        vec![cpu.name.clone(), cpu.generation.clone(), cpu.cores.to_string(), limits]
    }));
    let lead = "Choose one with --cpu; give limits that are missing with --table or --ambient-mhz.";
    vec![Block::Lead(Tone::Same, lead.to_owned()), Block::Table(grid)]
}

/// What is published of a level: from few cores to all.
fn limits(cpu: &Cpu, level: usize) -> Option<String> {
    let mut mhz: Vec<f64> =
        cpu.limits.iter().filter(|limit| limit.licence == level).map(|limit| limit.mhz).collect();
    mhz.sort_by(|left, right| right.total_cmp(left));
    let (most, least) = (mhz.first()?, mhz.last()?);
    Some(match most == least {
        true => format!("level {level}: {most:.0} MHz"),
        false => format!("level {level}: {most:.0} to {least:.0} MHz"),
    })
}

fn blocks(cpu: &str, cores: u32, lines: &[Line]) -> Vec<Block> {
    let predictions = lines.iter().filter_map(|line| line.prediction.as_ref());
    let best = predictions.max_by(|a, b| a.requests_per_second.total_cmp(&b.requests_per_second));
    let mut reasons: Vec<&str> = lines.iter().filter_map(|line| line.reason.as_deref()).collect();
    reasons.dedup();
    let lead = match best {
        Some(best) if reasons.is_empty() => {
            format!("{cpu}, {cores} cores: {} serves most requests.", best.choice)
        }
        Some(_) => format!("{cpu}, {cores} cores: not everything can be predicted."),
        None => format!("{cpu}: nothing can be predicted."),
    };
    let mut grid = Grid::new(&[
        ("Choice", Kind::Words),
        ("Class", Kind::Words),
        ("MHz", Kind::Number),
        ("At least", Kind::Number),
        ("Level 0", Kind::Number),
        ("1", Kind::Number),
        ("2", Kind::Number),
        ("Changing", Kind::Number),
        ("Requests/s", Kind::Figure),
    ]);
    grid.rows.extend(lines.iter().map(|line| {
        let share = |share: f64| format!("{:.1} %", 100.0 * share);
        let figures = line.prediction.as_ref().map(|found| {
            let [level0, level1, level2] = found.residency.map(share);
            [
                format!("{:.0}", found.clock_mhz),
                mhz(found.clock_mhz_min),
                level0,
                level1,
                level2,
                share(found.changing),
                format!("{:.0}", found.requests_per_second),
            ]
        });
        let mut row = vec![line.choice.name.clone(), line.choice.class.clone()];
        row.extend(figures.unwrap_or_default());
        row
    }));
    let mut blocks =
        vec![Block::Lead(Tone::Same, lead), Block::Table(grid.without_empty_columns())];
    blocks.extend(lines.iter().filter_map(|line| {
        let Apart { requests_per_second, lane_share, .. } = line.apart.as_ref()?;
        let (name, load) = (&line.choice.name, 100.0 * lane_share);
        let text = format!(
            "{name} with a lane core: {requests_per_second:.0} requests/s, its load {load:.0} %."
        );
        Some(Block::Text(text))
    }));
    blocks.extend(reasons.into_iter().map(|reason| Block::Text(format!("Missing: {reason}."))));
    blocks
}
