//! `widelane speed`: the algorithms alone, room by room, beside OpenSSL's own.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::ValueEnum;
use widelane_bench::machine;
use widelane_bench::speed::{self, Plan};
use widelane_cpu::Room;
use widelane_crypto::rsa::KeySize;

use crate::{measure, output};

/// Times the algorithms alone, room by room, beside OpenSSL's own
#[derive(clap::Args)]
pub struct Args {
    /// Algorithms; all by default
    #[arg(value_enum, value_name = "ALGORITHM")]
    algorithms: Vec<Algorithm>,
    /// Rooms: all, or names separated by commas
    #[arg(long, value_delimiter = ',', default_value = "all")]
    room: Vec<String>,
    /// Whom to compare with
    #[arg(long, value_enum, default_value_t = Rival::Openssl)]
    against: Rival,
    /// Rounds; each times every room and the rival once
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000), default_value_t = 10)]
    pairs: u32,
    /// CPU time of one measurement, seconds
    #[arg(long, value_parser = crate::compare::seconds, default_value = "0.3")]
    seconds: Duration,
    /// Writes the results as JSON (docs/results.md)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Algorithm {
    /// RSA-2048 private-key operation, result checked
    Rsa2048,
    /// RSA-3072 private-key operation, result checked
    Rsa3072,
    /// RSA-4096 private-key operation, result checked
    Rsa4096,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Rival {
    /// Nobody
    None,
    /// The OpenSSL of this system
    Openssl,
}

impl Algorithm {
    fn size(self) -> KeySize {
        match self {
            Algorithm::Rsa2048 => KeySize::Rsa2048,
            Algorithm::Rsa3072 => KeySize::Rsa3072,
            Algorithm::Rsa4096 => KeySize::Rsa4096,
        }
    }
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let programs = measure::programs()?;
    let resolved = measure::policy()?;
    let plan = Plan {
        sizes: sizes(&args.algorithms),
        rooms: rooms(&args.room)?,
        against_openssl: args.against == Rival::Openssl,
        rounds: args.pairs,
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

fn sizes(algorithms: &[Algorithm]) -> Vec<KeySize> {
    if algorithms.is_empty() {
        return KeySize::ALL.to_vec();
    }
    let mut sizes = Vec::new();
    for algorithm in algorithms {
        if !sizes.contains(&algorithm.size()) {
            sizes.push(algorithm.size());
        }
    }
    sizes
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
