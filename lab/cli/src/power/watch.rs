//! `widelane power watch`: the clock of a CPU or of a process, live.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use widelane_cli::live::cpu_of;
use widelane_cli::{output, system};
use widelane_cpu::Machine;
use widelane_meter::estimate::median;
use widelane_meter::meter::{Meter, Reading};
use widelane_meter::place;
use widelane_meter::source::LicenceCounters;
use widelane_results::{Results, Tone};

use super::cannot;
use crate::keep::{Keep, answer, trace};
use crate::targets;

/// Shows the clock of a CPU, or of the CPUs that a process runs on, twice a second
///
/// One look takes less than a millisecond of the CPU's time.
#[derive(clap::Args)]
pub struct Args {
    /// CPU to watch; the one this runs on by default
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
    /// Process to watch: its CPU, wherever it goes
    #[arg(long, value_name = "PID", conflicts_with = "cpu")]
    pid: Option<u32>,
    /// Ends after SECONDS; by default on Ctrl-C
    #[arg(long, value_parser = widelane_cli::units::seconds, value_name = "SECONDS")]
    seconds: Option<Duration>,
    /// Writes every look as a line
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    #[command(flatten)]
    keep: Keep,
}

/// From one look to the next.
const EVERY: Duration = Duration::from_millis(500);

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    targets::check([args.csv.as_deref(), args.keep.target()])?;
    let stop = system::stop_on_signals()?;
    let machine = Machine::detect();
    let mut csv = args.csv.as_deref().map(Table::create).transpose()?;
    if let Some(cpu) = args.cpu {
        place::stay_on(cpu)?;
    }
    let mut counters = LicenceCounters::open(&machine.signature);
    let licences = counters.as_ref().err().map(ToString::to_string);
    output::print(&format!(
        "licence residency: {}",
        licences.unwrap_or_else(|| "counted on this thread".to_owned()),
    ))?;
    let began = Instant::now();
    let mut meter = Meter::new(&machine)?;
    let mut clocks: BTreeMap<usize, Vec<[f64; 2]>> = BTreeMap::new();
    while !stop.load(Ordering::Relaxed)
        && args.seconds.is_none_or(|seconds| began.elapsed() < seconds)
    {
        if let Some(pid) = args.pid {
            let cpu = cpu_of(pid)?;
            if cpu != place::here() {
                place::stay_on(cpu)?;
                meter = Meter::new(&machine)?;
            }
        }
        // If it went off line, the kernel has moved us, and the error says what is left.
        if let Some(cpu) = args.cpu.filter(|cpu| *cpu != place::here()) {
            place::stay_on(cpu)?;
        }
        let cpu = place::here();
        let reading = meter.read(200, 2.0);
        let seconds = began.elapsed().as_secs_f64();
        let residency = counters.as_mut().ok().and_then(|counters| counters.residency().ok());
        let residency = residency.map_or(String::new(), |shares| {
            format!(
                "  L0 {:.0} %  L1 {:.0} %  L2 {:.0} %",
                100.0 * shares.level0,
                100.0 * shares.level1,
                100.0 * shares.level2,
            )
        });
        output::print(&format!("{seconds:7.1} s  CPU {cpu}  {}{residency}", words(&reading)))?;
        if let Ok(estimate) = &reading.estimate {
            clocks.entry(cpu).or_default().push([seconds, estimate.hz / 1e6]);
        }
        if let Some(csv) = &mut csv {
            csv.add(seconds, cpu, &reading)?;
        }
        thread::sleep(EVERY);
    }
    args.keep.here(|results| fill(results, &clocks, began.elapsed()))?;
    Ok(ExitCode::SUCCESS)
}

/// Adds what was seen of each CPU to `results`.
fn fill(results: &mut Results, clocks: &BTreeMap<usize, Vec<[f64; 2]>>, took: Duration) {
    let mut all: Vec<f64> = clocks.values().flatten().map(|[_, mhz]| *mhz).collect();
    all.sort_by(f64::total_cmp);
    let (tone, sentence) = match (all.first(), median(&all), all.last()) {
        (Some(least), Some(median), Some(most)) => (
            Tone::Same,
            format!("The clock was {median:.0} MHz in the median, {least:.0} to {most:.0}."),
        ),
        _ => (Tone::Unknown, "The clock could not be read.".to_owned()),
    };
    results.duration_s = took.as_secs_f64();
    results.answer = answer(tone, sentence, format!("{} looks.", all.len()));
    results.traces.extend(clocks.iter().map(|(cpu, points)| {
        let (clock, time) = (("clock", "MHz"), ("time", "s"));
        trace("power/watch", &format!("CPU {cpu}"), clock, time, points.clone())
    }));
}

/// A look in words: the clock, or why there is none, and what disturbed it.
fn words(reading: &Reading) -> String {
    let clock = match &reading.estimate {
        Ok(estimate) => format!(
            "{:.0} MHz ± {:.0}  (grid {:.1} GHz)  {} of {} windows",
            estimate.hz / 1e6,
            (estimate.high_hz - estimate.low_hz) / 2e6,
            (estimate.hz / 1e8).round() / 10.0,
            estimate.accepted,
            estimate.accepted + estimate.rejected,
        ),
        Err(refusal) => format!("no clock: {refusal}"),
    };
    let interference = &reading.interference;
    let mut disturbances = String::new();
    for (count, what) in [
        (interference.preemptions, "preemptions"),
        (interference.waited_ns.map(|ns| ns / 1000), "µs waited"),
        (interference.stolen_ms, "ms stolen"),
    ] {
        if let Some(count) = count.filter(|count| *count > 0) {
            disturbances.push_str(&format!("  {count} {what}"));
        }
    }
    clock + &disturbances
}

/// Looks as CSV.
struct Table {
    file: File,
    path: PathBuf,
}

impl Table {
    fn create(path: &std::path::Path) -> anyhow::Result<Self> {
        let file = File::create(path).with_context(|| cannot("write", path))?;
        let mut table = Table { file, path: path.to_owned() };
        table.line("seconds,cpu,mhz,low_mhz,high_mhz,accepted,rejected,gaps,reason")?;
        Ok(table)
    }

    fn add(&mut self, seconds: f64, cpu: usize, reading: &Reading) -> anyhow::Result<()> {
        let rest = match &reading.estimate {
            Ok(found) => format!(
                "{:.1},{:.1},{:.1},{},{},{},",
                found.hz / 1e6,
                found.low_hz / 1e6,
                found.high_hz / 1e6,
                found.accepted,
                found.rejected,
                found.gaps,
            ),
            Err(refusal) => format!(",,,,,,\"{refusal}\""),
        };
        self.line(&format!("{seconds:.3},{cpu},{rest}"))
    }

    fn line(&mut self, line: &str) -> anyhow::Result<()> {
        writeln!(self.file, "{line}").with_context(|| cannot("write", &self.path))
    }
}
