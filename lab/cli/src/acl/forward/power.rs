//! The core clock beside the packets, with registers of 256 and of 512 bits.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use widelane_cli::{output, system};
use widelane_cpu::{Machine, Width};
use widelane_forward::{Engine, Replay, Routes};
use widelane_meter::gauge::Gauge;
use widelane_meter::place;
use widelane_meter::source::LicenceCounters;

use super::replay::rate;
use super::rules::{self, Rules};
use super::{Args, Signals};
use crate::measure;

/// How long each width runs.
const RUN: Duration = Duration::from_secs(16);
/// From one look at the clock to the next.
const LOOK: Duration = Duration::from_millis(250);
/// Windows of a look, and how long each is in microseconds: less than a tenth of a millisecond, so
/// that the clock is still that of the packets.
const WINDOWS: (usize, f64) = (32, 2.0);

/// Replays with both widths, and writes what was seen.
pub fn run(args: &Args, replay: &mut Replay, csv: &Path) -> anyhow::Result<ExitCode> {
    let machine = Machine::detect();
    place::stay_on(place::here())?;
    let mut gauge = Gauge::new(&machine);
    // Looks are to be short. Where it is refused now, they try again.
    let _ = gauge.meter();
    let mut counters = LicenceCounters::open(&machine.signature);
    let mut text =
        String::from("width_bits,room,seconds,packets_per_cpu_second,mhz,level0,level1,level2\n");
    let sources = rules::read(args)?;
    let signals = Signals::watch(None)?;
    let mut last = None;
    // Half a minute of figures is kept even where nobody reads what is shown.
    let mut shown = Vec::new();
    for width in [Width::W256, Width::W512] {
        if signals.is_over() {
            break;
        }
        let mut policy = system::policy()?.policy;
        policy.width_max = policy.width_max.min(width);
        let bits = policy.width_max.bits();
        let rules = Rules::new(&sources, Routes::PORTS_MAX, args.memory_max, &policy)?;
        let Some(room) = rules.routes().next().map(|routes| routes.live().room()) else { break };
        if last.replace(room) == Some(room) {
            shown.push(output::print(&format!("{} bits: not open here", width.bits())));
            break;
        }
        let mut engine = Engine::new(rules.routes());
        let (began, mut clocks, mut rates) = (Instant::now(), Vec::new(), Vec::new());
        while began.elapsed() < RUN && !signals.is_over() {
            let packets = rate(replay, &mut engine, LOOK);
            let clock = gauge.meter().ok().and_then(|meter| meter.read(WINDOWS.0, WINDOWS.1).ok());
            let levels = counters.as_mut().ok().and_then(|counters| counters.residency().ok());
            let levels = levels.map_or(",,".to_owned(), |shares| {
                format!("{:.3},{:.3},{:.3}", shares.level0, shares.level1, shares.level2)
            });
            let mhz = clock.map_or(String::new(), |clock| format!("{:.0}", clock.hz / 1e6));
            let seconds = began.elapsed().as_secs_f64();
            writeln!(text, "{bits},{room},{seconds:.3},{packets:.0},{mhz},{levels}")?;
            clocks.extend(clock.map(|clock| clock.hz / 1e6));
            rates.push(packets / 1e6);
        }
        if rates.is_empty() {
            break;
        }
        let range = |of: &[f64]| {
            let low = of.iter().copied().fold(f64::MAX, f64::min);
            let high = of.iter().copied().fold(0.0, f64::max);
            let middle = widelane_bench::stats::median(of).unwrap_or_default();
            (middle, low.min(high), high)
        };
        let ((mhz, low, high), (mpps, ..)) = (range(&clocks), range(&rates));
        let clock = match clocks.is_empty() {
            true => "; the clock could not be metered".to_owned(),
            false => format!(" at {mhz:.0} MHz ({low:.0} to {high:.0})"),
        };
        shown.push(output::print(&format!(
            "{bits} bits, room {room}: {mpps:.2} Mpps per CPU-second{clock}"
        )));
    }
    if let Err(reason) = &counters {
        shown.push(output::print(&format!("licence levels: {reason}")));
    }
    let written = system::write(csv, &text);
    let confirmed = gauge.confirm().map_err(Into::into);
    let ended = if signals.is_over() { Err(anyhow!("interrupted")) } else { Ok(()) };
    measure::all(shown.into_iter().chain([written, confirmed, ended]))?;
    Ok(ExitCode::SUCCESS)
}
