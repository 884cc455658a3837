//! `widelane speed`: the algorithms alone, room by room, beside OpenSSL's own.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::ValueEnum;
use widelane_bench::machine;
use widelane_bench::pairs::Rounds;
use widelane_bench::speed::{self, Event, Plan, UnknownAlgorithm};
use widelane_cpu::Room;

use crate::{measure, output};

/// Times the algorithms alone, room by room, beside OpenSSL's own
#[derive(clap::Args)]
pub struct Args {
    /// What to time, all by default: rsa2048, rsa3072, rsa4096, x25519, ed25519, ecdsa-p256,
    /// ecdsa-p384, ecdh-p256, ecdh-p384; one operation of them (x25519/derive), or what several
    /// begin with (ecdsa)
    #[arg(value_name = "ALGORITHM", value_parser = selection)]
    algorithms: Vec<Selection>,
    /// Rooms: all, or names separated by commas
    #[arg(long, value_delimiter = ',', default_value = "all")]
    room: Vec<String>,
    /// Whom to compare with
    #[arg(long, value_enum, default_value_t = Rival::Openssl)]
    against: Rival,
    /// Rounds, each of which times every room and the rival once; up to half as many more follow
    /// where an interval is still wide
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000), default_value_t = 20)]
    pairs: u32,
    /// CPU time of one measurement, seconds
    #[arg(long, value_parser = crate::compare::seconds, default_value = "0.06")]
    seconds: Duration,
    /// Writes the results as JSON (docs/results.md)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What one argument stands for.
#[derive(Clone)]
struct Selection(Vec<&'static Event>);

fn selection(name: &str) -> Result<Selection, UnknownAlgorithm> {
    speed::select(name).map(Selection)
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Rival {
    /// Nobody
    None,
    /// The OpenSSL of this system
    Openssl,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let programs = measure::programs()?;
    let resolved = measure::policy()?;
    let plan = Plan {
        events: events(args.algorithms),
        rooms: rooms(&args.room)?,
        against_openssl: args.against == Rival::Openssl,
        rounds: Rounds { least: args.pairs, most: args.pairs + args.pairs / 2 },
        window: args.seconds,
    };
    let mut results = measure::blank(machine::describe(&programs, &resolved));
    let stop = measure::stop_on_signals()?;
    let mut progress = measure::Progress::new(args.json.as_deref());
    let outcome = speed::run(&plan, &resolved.policy, &mut results, &stop, &mut progress);
    progress.finish()?;
    if let Some(path) = &args.json {
        measure::write_results(path, &results)?;
    }
    output::print(&widelane_report::terminal(&results, &output::style()))?;
    outcome?;
    Ok(ExitCode::SUCCESS)
}

/// What was selected, each once, in the order of the list.
fn events(selections: Vec<Selection>) -> Vec<&'static Event> {
    let selected: Vec<String> =
        selections.iter().flat_map(|Selection(events)| events).map(|event| event.path()).collect();
    let is_wanted = |event: &&Event| selected.is_empty() || selected.contains(&event.path());
    speed::EVENTS.iter().filter(is_wanted).collect()
}

fn rooms(names: &[String]) -> anyhow::Result<Vec<Room>> {
    if names.iter().any(|name| name == "all") {
        return Ok(Room::ALL.to_vec());
    }
    let mut rooms = Vec::new();
    for name in names {
        match Room::ALL.into_iter().find(|room| room.name() == name) {
            Some(room) => rooms.push(room),
            None => {
                let known: Vec<&str> = Room::ALL.into_iter().map(Room::name).collect();
                bail!("there is no room {name:?}; the rooms are {}, or all", known.join(", "));
            }
        }
    }
    Ok(rooms)
}
