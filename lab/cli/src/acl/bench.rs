//! `widelane acl bench`: lookups in every room, beside DPDK's `rte_acl` in the same run.

mod built;
mod updates;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, bail};
use widelane_bench::cycles::Clock;
use widelane_bench::pairs::{self, with_ratio};
use widelane_bench::{machine, stats};
use widelane_classify::rule::RuleSet;
use widelane_classify::{Classifier, Flow, Table};
use widelane_cli::{output, system};
use widelane_cpu::rooms::{self, RoomStatus};
use widelane_cpu::{Policy, Room};
use widelane_meter::place;
use widelane_results::{Results, Row, Status};
use widelane_tables::{Block, Kind, Table as Sheet};

use self::built::Built;
use super::build::limits;
use super::input::{self, Format};
use super::rival::{self, Rival};
use crate::measure;
use crate::targets::WrittenFile;

/// Measures lookups in every room, and beside DPDK's rte_acl where its rival program is installed
///
/// All take turns on one CPU, on the same flows; every result is compared with the rival's.
#[derive(clap::Args)]
pub struct Args {
    /// Rule files
    #[arg(required = true)]
    rules: Vec<PathBuf>,
    /// How they are written
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    format: Format,
    /// Flows to look up; without it, flows are drawn from the rules
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// How many flows are drawn
    #[arg(long, value_name = "COUNT", default_value_t = 4096,
          value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    flows: u32,
    /// Packets per call
    #[arg(long, value_delimiter = ',', default_value = "32",
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    burst: Vec<u32>,
    /// Rounds; each times every room and the rival once
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000), default_value_t = 21)]
    rounds: u32,
    /// The rival program, if it is neither beside this one nor in the PATH
    #[arg(long, value_name = "PROGRAM")]
    rival: Option<PathBuf>,
    /// Measures without a rival
    #[arg(long, conflicts_with = "rival")]
    alone: bool,
    /// Measures lookups while PER_SECOND rules change each second, instead
    #[arg(long, value_name = "PER_SECOND", conflicts_with_all = ["rival", "alone"],
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    updates: Option<u32>,
    /// The CPU to measure on; the last one allowed by default
    #[arg(long)]
    cpu: Option<usize>,
    /// The largest table allowed, MiB
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    memory_max: usize,
    /// Writes the results as JSON (docs/formats/results.md)
    #[arg(long, visible_alias = "results", value_name = "FILE")]
    json: Option<WrittenFile>,
}

/// Lookups of one measurement.
const LOOKUPS: usize = 100_000;
const RIVAL: &str = "rte_acl";

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    check_names(&args.rules)?;
    let sets =
        args.rules.iter().map(|path| Set::read(path, args)).collect::<Result<Vec<_>, _>>()?;
    let stop = system::stop_on_signals()?;
    if let Some(rate) = args.updates {
        return updates::run(args, &sets, rate, &stop);
    }
    let resolved = system::policy()?;
    let mut results = measure::blank(machine::describe(&measure::programs()?, &resolved));
    let program = if args.alone { None } else { rival::find(args.rival.as_deref()) };
    let cpu = cpu(args.cpu, &place::allowed())?;
    place::stay_on(cpu)?;
    let began = Instant::now();
    let mut blocks = Vec::new();
    let outcome = sets.iter().try_for_each(|set| {
        let mut bench = Bench::new(set, args, &resolved.policy)?;
        if let Some(program) = &program {
            bench.meet(program, cpu)?;
        }
        let measured = bench.measure(args, &stop, &mut results);
        blocks.extend(bench.blocks(&results));
        // What cannot be written now is written at the end, where an error ends the command.
        drop(args.keep(&results));
        measured
    });
    if program.is_none() && !args.alone {
        let note = "Without a rival: build it with `cargo install --path rivals/rte_acl` (needs \
                    Debian's libdpdk-dev), or name it with --rival.";
        blocks.push(Block::Text(note.to_owned()));
        results.note(note.to_owned());
    }
    args.finish(results, began, blocks, outcome)
}

impl Args {
    /// Writes what there is, if that is wanted.
    fn keep(&self, results: &Results) -> anyhow::Result<()> {
        self.json.as_ref().map_or(Ok(()), |path| measure::write_results(path, results))
    }

    /// Shows and keeps what was measured, to the end or not.
    fn finish(
        &self,
        mut results: Results,
        began: Instant,
        blocks: Vec<Block>,
        outcome: anyhow::Result<()>,
    ) -> anyhow::Result<ExitCode> {
        results.duration_s = began.elapsed().as_secs_f64();
        results.complete = outcome.is_ok();
        let shown = output::print(&widelane_tables::show(blocks, &output::style()));
        measure::all([outcome, shown, self.keep(&results)])?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Makes an error of it that a signal has come.
fn go_on(stop: &AtomicBool) -> anyhow::Result<()> {
    if stop.load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    Ok(())
}

/// The CPU to measure on: the one wanted, or the last one allowed.
fn cpu(wanted: Option<usize>, allowed: &[usize]) -> anyhow::Result<usize> {
    wanted
        .or(allowed.last().copied())
        .context("cannot read which CPUs this process may use; name one")
}

/// Rules, and the flows that are looked up in them.
struct Set<'a> {
    path: &'a Path,
    rules: RuleSet,
    flows: Vec<Flow>,
}

impl<'a> Set<'a> {
    fn read(path: &'a Path, args: &Args) -> anyhow::Result<Self> {
        let rules = input::rules(path, args.format)?;
        let flows = match &args.trace {
            Some(trace) => input::trace(trace, &rules.layout)?,
            None => Flow::drawn(&rules, args.flows as usize, 1).with_context(|| {
                format!("{} needs --trace: it has other fields", path.display())
            })?,
        };
        match &args.trace {
            Some(trace) if flows.is_empty() => bail!("{} has no flows", trace.display()),
            _ => Ok(Set { path, rules, flows }),
        }
    }
}

/// Refuses two rule files that results could not tell apart.
fn check_names(paths: &[PathBuf]) -> anyhow::Result<()> {
    for (index, path) in paths.iter().enumerate() {
        if let Some(other) = paths[..index].iter().find(|other| name(other) == name(path)) {
            bail!(
                "{} and {} would both be called {} in the results; rename one of them",
                other.display(),
                path.display(),
                name(path)
            );
        }
    }
    Ok(())
}

/// What a rule file is called in results.
fn name(path: &Path) -> String {
    path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// One rule set with all that are measured on it.
struct Bench<'a> {
    name: String,
    set: RuleSet,
    flows: &'a [Flow],
    contenders: Vec<Classifier>,
    closed: Vec<(Room, String)>,
    built: Built,
    rival: Option<(Rival, &'static str)>,
    clock: Clock,
}

/// What one contender took in a round: nanoseconds, and core cycles where there is a clock, for
/// each lookup.
type Round = (f64, Option<f64>);

impl<'a> Bench<'a> {
    fn new(set: &'a Set<'_>, args: &Args, policy: &Policy) -> anyhow::Result<Self> {
        let Set { path, rules, flows } = set;
        let set = rules.numbered();
        let build = || Table::build(&set, &limits(args.memory_max));
        let (table, built) = built::watch(build, Table::bytes)
            .with_context(|| format!("cannot build a table of {}", path.display()))?;
        let table = Arc::new(table);
        let (mut contenders, mut closed) = (Vec::new(), Vec::new());
        for status in rooms_of_lookups(policy) {
            match status.reason {
                None => {
                    contenders.push(Classifier::choose(table.clone(), &only(status.room, policy)))
                }
                Some(reason) => closed.push((status.room, reason)),
            }
        }
        Ok(Bench {
            name: name(path),
            set,
            flows,
            contenders,
            closed,
            built,
            rival: None,
            clock: Clock::here(),
        })
    }

    /// Starts the rival, and compares all results with its own.
    fn meet(&mut self, program: &Path, cpu: usize) -> anyhow::Result<()> {
        let algorithm = if Room::Avx512.is_supported() { "avx512x32" } else { "avx2" };
        let mut rival = Rival::start(program, &self.set, self.flows, cpu)?;
        let wanted = rival.results(algorithm)?;
        let packets: Vec<&[u8]> = self.flows.iter().map(Flow::packet).collect();
        for contender in &self.contenders {
            let mut results = vec![0; packets.len()];
            contender.classify(&packets, &mut results)?;
            if wanted.len() != results.len() {
                bail!("{RIVAL} has {} results for {} flows", wanted.len(), results.len());
            }
            if let Some(place) = (0..results.len()).find(|&place| results[place] != wanted[place]) {
                bail!(
                    "{}: room {} finds rule {} where {RIVAL} finds {} for {}",
                    self.name,
                    contender.room(),
                    results[place],
                    wanted[place],
                    self.flows[place]
                );
            }
        }
        self.rival = Some((rival, algorithm));
        Ok(())
    }

    fn measure(
        &mut self,
        args: &Args,
        stop: &AtomicBool,
        results: &mut Results,
    ) -> anyhow::Result<()> {
        let packets: Vec<&[u8]> = self.flows.iter().map(Flow::packet).collect();
        let passes = LOOKUPS.div_ceil(packets.len());
        for &burst in &args.burst {
            let burst = burst as usize;
            let mut rounds: Vec<Vec<Round>> = vec![Vec::new(); self.contenders.len() + 1];
            for round in 0..args.rounds {
                go_on(stop)?;
                for subject in pairs::order(rounds.len(), round) {
                    let ns = match (self.contenders.get(subject), &mut self.rival) {
                        (Some(contender), _) => time(contender, &packets, burst, passes)?,
                        (None, Some((rival, algorithm))) => rival.time(algorithm, burst, passes)?,
                        (None, None) => continue,
                    };
                    let cycles = self.clock.look().map(|(hz, _)| ns * hz / 1e9);
                    rounds[subject].push((ns, cycles));
                }
            }
            let changed = self.clock.reset();
            if changed.is_some() {
                rounds.iter_mut().flatten().for_each(|round| round.1 = None);
            }
            self.record(burst, &rounds, changed, results);
        }
        let rival = self.rival.as_ref().map(|(rival, _)| Built::from(&rival.ready));
        results.rows.extend(self.built.rows(&self.name, rival.as_ref().map(|of| (RIVAL, of))));
        Ok(())
    }

    /// Adds the rows of one length of bursts; `changed` says why the clock told nothing amid them.
    fn record(
        &self,
        burst: usize,
        rounds: &[Vec<Round>],
        changed: Option<&str>,
        results: &mut Results,
    ) {
        let scenario = format!("acl/{}/burst{burst}", self.name);
        let rival = rounds.last().filter(|rounds| !rounds.is_empty());
        let named = |room: Option<Room>| Row {
            scenario: scenario.clone(),
            subject: if room.is_some() { "widelane" } else { RIVAL }.to_owned(),
            room: room.map(|room| room.to_string()),
            ..Row::default()
        };
        let rooms = self.contenders.iter().map(|contender| Some(contender.room())).chain([None]);
        for (room, own) in rooms.zip(rounds).filter(|(_, rounds)| !rounds.is_empty()) {
            for (metric, unit, of) in [
                ("cycles_per_lookup", "cycles", (|round| round.1) as fn(&Round) -> Option<f64>),
                ("ns_per_lookup", "ns", |round| Some(round.0)),
            ] {
                let pairs = rival.filter(|_| room.is_some()).map(|rival| {
                    let both = own.iter().zip(rival);
                    both.filter_map(|(own, rival)| Some((of(own)?, of(rival)?))).collect()
                });
                let ratio = pairs.and_then(|pairs: Vec<(f64, f64)>| stats::ratio(&pairs));
                let value = stats::median(&own.iter().filter_map(of).collect::<Vec<_>>());
                let obstacle = changed.or(self.clock.obstacle()).filter(|_| value.is_none());
                let row = Row {
                    metric: metric.to_owned(),
                    unit: unit.to_owned(),
                    value,
                    status: if obstacle.is_some() { Status::Rejected } else { Status::Ok },
                    reason: obstacle.map(str::to_owned),
                    ..named(room)
                };
                results.rows.push(match ratio {
                    Some(_) => with_ratio(row, RIVAL, ratio),
                    None => row,
                });
            }
        }
        for (room, reason) in &self.closed {
            results.rows.push(Row {
                metric: "cycles_per_lookup".to_owned(),
                unit: "cycles".to_owned(),
                status: Status::NotApplicable,
                reason: Some(reason.clone()),
                ..named(Some(*room))
            });
        }
    }

    /// What the screen shows of this set.
    fn blocks(&self, results: &Results) -> Vec<Block> {
        let (rules, flows) = (self.set.rules.len(), self.flows.len());
        let mut facts = format!("{rules} rules, {flows} flows; built {}", self.built);
        if let Some((rival, algorithm)) = &self.rival {
            facts.push_str(&format!("; {RIVAL} ({algorithm}) {}", Built::from(&rival.ready)));
        }
        let mut table = Sheet::new(&[
            ("Who", Kind::Words),
            ("Burst", Kind::Number),
            ("Cycles", Kind::Number),
            ("ns", Kind::Number),
            ("Of rte_acl's", Kind::Words),
        ]);
        let prefix = format!("acl/{}/burst", self.name);
        let own =
            |row: &&Row| row.scenario.starts_with(&prefix) && row.metric == "cycles_per_lookup";
        for row in results.rows.iter().filter(own) {
            let ns = results.rows.iter().find(|other| {
                other.metric == "ns_per_lookup"
                    && (&other.scenario, &other.subject, &other.room)
                        == (&row.scenario, &row.subject, &row.room)
            });
            let number =
                |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.1}"));
            let ends = row.ratio_low.zip(row.ratio_high).map(|(low, high)| [low, high]);
            let ratio = match (row.ratio, &row.reason) {
                (Some(value), _) => stats::Ratio { value, ends }.to_string(),
                (None, Some(reason)) => reason.clone(),
                (None, None) => String::new(),
            };
            table.rows.push(vec![
                row.room.clone().unwrap_or_else(|| row.subject.clone()),
                row.scenario[prefix.len()..].to_owned(),
                number(row.value),
                number(ns.and_then(|row| row.value)),
                ratio,
            ]);
        }
        vec![
            Block::Heading(self.name.clone()),
            Block::Text(facts),
            Block::Table(table.without_empty_columns()),
        ]
    }
}

/// The rooms that lookups have, and why those are closed that are.
pub fn rooms_of_lookups(policy: &Policy) -> impl Iterator<Item = RoomStatus> + use<> {
    rooms::status(policy).into_iter().filter(|of| Classifier::ROOMS.contains(&of.room))
}

/// The policy that leaves open `room` of what another leaves open, and no other of our rooms.
pub fn only(room: Room, policy: &Policy) -> Policy {
    let mut only = policy.clone();
    only.rooms_closed.extend(Classifier::ROOMS.iter().filter(|other| **other != room));
    only
}

/// Nanoseconds per lookup in the fastest of some passes over all packets.
fn time(
    classifier: &Classifier,
    packets: &[&[u8]],
    burst: usize,
    passes: usize,
) -> anyhow::Result<f64> {
    let mut results = vec![0; packets.len()];
    let mut fastest = f64::MAX;
    for _ in 0..passes {
        let began = Instant::now();
        for (packets, results) in packets.chunks(burst).zip(results.chunks_mut(burst)) {
            classifier.classify(packets, results)?;
        }
        fastest = fastest.min(began.elapsed().as_secs_f64());
    }
    Ok(fastest * 1e9 / packets.len() as f64)
}
