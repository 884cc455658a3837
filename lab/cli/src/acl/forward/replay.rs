//! In-memory replay of a capture: what each room can do.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use widelane_bench::accounting::thread_cpu;
use widelane_bench::stats;
use widelane_cli::{output, system};
use widelane_cpu::Room;
use widelane_forward::capture::Capture;
use widelane_forward::{Counts, Engine, Replay, Routes};
use widelane_meter::place;

use super::rules::{self, Rules};
use super::summary::{self, Rate};
use super::{Args, Signals, power};
use crate::acl::bench::{only, rooms_of_lookups};

/// How long rooms take turns if nobody says.
const DURATION: Duration = Duration::from_secs(5);
/// How long one of them runs in a turn.
const SLICE: Duration = Duration::from_millis(100);

/// One room with its rules and counters.
struct Contender {
    room: Room,
    rules: Rules,
    engine: Engine,
    /// Packets per second of CPU time, in every turn.
    rates: Vec<f64>,
}

/// Replays a capture.
pub fn run(args: &Args, path: &Path) -> anyhow::Result<ExitCode> {
    let mut replay = Replay::new(capture(path)?);
    if let Some(csv) = &args.watch_power {
        return power::run(args, &mut replay, csv);
    }
    let policy = system::policy()?.policy;
    let sources = rules::read(args)?;
    let mut contenders = Vec::new();
    for status in rooms_of_lookups(&policy) {
        if status.reason.is_some() {
            continue;
        }
        let policy = only(status.room, &policy);
        let rules = Rules::new(&sources, Routes::PORTS_MAX, args.memory_max, &policy)?;
        let engine = Engine::new(rules.routes());
        contenders.push(Contender { room: status.room, rules, engine, rates: Vec::new() });
    }
    let signals = Signals::watch(Some(args.duration.unwrap_or(DURATION)))?;
    place::stay_on(place::here())?;
    let began = Instant::now();
    let mut turn = 0;
    while !signals.is_over() || turn == 0 {
        for contender in &mut contenders {
            contender.rates.push(rate(&mut replay, &mut contender.engine, SLICE));
        }
        turn += 1;
    }
    let Some(first) = contenders.first() else { bail!("no room is open") };
    // All rooms decide alike: the counters of one pass are those of any.
    let mut one = |contender: &Contender| {
        let mut engine = Engine::new(contender.rules.routes());
        replay.pass(&mut engine);
        engine.counts
    };
    let wanted = one(first);
    for other in &contenders[1..] {
        if one(other) != wanted {
            bail!("rooms {} and {} disagree: report this, please", first.room, other.room);
        }
    }
    let mut total = Counts::default();
    contenders.iter().for_each(|contender| total.add(&contender.engine.counts));
    let rates = rates(&contenders);
    let text = summary::of(rates, &total, &first.rules, began.elapsed(), args.json)?;
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a whole capture.
fn capture(path: &Path) -> anyhow::Result<Capture> {
    let capture = Capture::open(path).with_context(|| format!("{}", path.display()))?;
    if capture.is_cut {
        bail!("{} ends in the middle of frame {}", path.display(), capture.len() + 1);
    }
    if capture.is_empty() {
        bail!("{} has no frames", path.display());
    }
    Ok(capture)
}

/// Packets per second of CPU time, over about as long as `slice`.
pub fn rate(replay: &mut Replay, engine: &mut Engine, slice: Duration) -> f64 {
    let (began, start) = (Instant::now(), thread_cpu());
    let mut packets = 0;
    while began.elapsed() < slice {
        packets += replay.pass(engine);
    }
    packets as f64 / (thread_cpu() - start).as_secs_f64()
}

fn rates(contenders: &[Contender]) -> Vec<Rate> {
    let portable = contenders.iter().find(|contender| contender.room == Room::Portable);
    let rate = |contender: &Contender| {
        let pairs = portable.filter(|portable| portable.room != contender.room).map(|portable| {
            contender.rates.iter().copied().zip(portable.rates.iter().copied()).collect()
        });
        let ratio = pairs.and_then(|pairs: Vec<(f64, f64)>| stats::ratio(&pairs));
        Rate {
            room: contender.room.to_string(),
            mpps_per_cpu_second: stats::median(&contender.rates).map(|rate| rate / 1e6),
            of_portable: ratio.map(|ratio| [Some(ratio.value), ratio.low(), ratio.high()]),
        }
    };
    contenders.iter().map(rate).collect()
}
