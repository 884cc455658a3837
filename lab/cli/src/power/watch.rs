//! `widelane power watch`: the clock of a CPU or of a process, live.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use widelane_cli::live::cpu_of;
use widelane_cli::{output, system};
use widelane_cpu::Machine;
use widelane_meter::estimate::median;
use widelane_meter::gauge::Gauge;
use widelane_meter::meter::{MeterError, Reading};
use widelane_meter::place;
use widelane_meter::source::LicenceCounters;
use widelane_results::{Results, Tone};

use super::cannot;
use crate::keep::{Keep, answer, trace};
use crate::measure;
use crate::targets::WrittenFile;

/// Shows the clock of a CPU, or of the CPUs that a process runs on, twice a second
///
/// One look takes less than a millisecond of the CPU's time, on machines of many CPUs some more.
#[derive(clap::Args)]
pub struct Args {
    /// CPU to watch; the one this runs on by default
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
    /// Process to watch: its CPU, wherever it goes
    #[arg(long, value_name = "PID", conflicts_with = "cpu")]
    pid: Option<u32>,
    /// Ends after SECONDS, fractions allowed; by default on Ctrl-C
    #[arg(long, value_parser = widelane_cli::units::positive, value_name = "SECONDS")]
    seconds: Option<f64>,
    /// Writes every look as a line
    #[arg(long, value_name = "FILE")]
    csv: Option<WrittenFile>,
    #[command(flatten)]
    keep: Keep,
}

/// From one look to the next.
const EVERY: Duration = Duration::from_millis(500);

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let stop = system::stop_on_signals()?;
    let machine = Machine::detect();
    let csv = args.csv.as_deref().map(Table::create).transpose()?;
    let counters = LicenceCounters::open(&machine.signature);
    let licences = counters.as_ref().err().map(ToString::to_string);
    output::print(&format!(
        "licence residency: {}",
        licences.unwrap_or_else(|| "counted on this thread".to_owned()),
    ))?;
    let (began, clocks) = (Instant::now(), BTreeMap::new());
    let created = widelane_bench::now_rfc3339();
    let gauge = Gauge::new(&machine);
    let mut watch = Watch { args, gauge, counters: counters.ok(), csv, began, clocks };
    let outcome = watch.until(&stop);
    let complete = outcome.is_ok();
    let mut kept = Ok(());
    if complete || !watch.clocks.is_empty() {
        let fill = |results: &mut Results| fill(results, &watch.clocks, began.elapsed());
        kept = args.keep.here(&created, complete, fill);
    }
    measure::all([outcome, kept]).map(|()| ExitCode::SUCCESS)
}

/// A watch that goes on.
struct Watch<'a> {
    args: &'a Args,
    gauge: Gauge,
    counters: Option<LicenceCounters>,
    csv: Option<Table>,
    began: Instant,
    /// What was seen of each CPU: seconds and MHz.
    clocks: BTreeMap<usize, Vec<[f64; 2]>>,
}

impl Watch<'_> {
    /// Looks until it is told to `stop`, its time is over, or the process ends.
    fn until(&mut self, stop: &AtomicBool) -> anyhow::Result<()> {
        let is_over =
            |now: Duration| self.args.seconds.is_some_and(|seconds| now.as_secs_f64() >= seconds);
        let own = self.args.cpu.unwrap_or_else(place::here);
        let mut looks = 0;
        while !stop.load(Ordering::Relaxed) && !is_over(self.began.elapsed()) {
            let cpu = match self.args.pid.map(|pid| (pid, cpu_of(pid))) {
                None => own,
                Some((_, Ok(Some(cpu)))) => cpu,
                Some((pid, Ok(None))) if looks == 0 => bail!("there is no process {pid}"),
                Some((pid, Ok(None))) => return output::print(&format!("process {pid} has ended")),
                Some((_, Err(error))) => return Err(error),
            };
            // Each time: if it went off line, the kernel has moved us, and the error says what is
            // left.
            place::stay_on(cpu)?;
            self.look(cpu)?;
            looks += 1;
            thread::sleep(EVERY);
        }
        Ok(())
    }

    /// Takes one look at `cpu`, where this thread is, and tells of it.
    fn look(&mut self, cpu: usize) -> anyhow::Result<()> {
        let seen = self.gauge.meter().map(|meter| meter.observe(WINDOWS, WINDOW_US));
        let seconds = self.began.elapsed().as_secs_f64();
        let residency = self.counters.as_mut().and_then(|counters| counters.residency().ok());
        let residency = residency.map_or(String::new(), |shares| {
            format!(
                "  L0 {:.0} %  L1 {:.0} %  L2 {:.0} %",
                100.0 * shares.level0,
                100.0 * shares.level1,
                100.0 * shares.level2,
            )
        });
        output::print(&format!("{seconds:7.1} s  CPU {cpu}  {}{residency}", words(&seen)))?;
        if let Ok(Reading { estimate: Ok(estimate), .. }) = &seen {
            self.clocks.entry(cpu).or_default().push([seconds, estimate.hz / 1e6]);
        }
        self.csv.as_mut().map_or(Ok(()), |csv| csv.add(seconds, cpu, &seen))
    }
}

/// Windows of a look, and how long each of them is, in microseconds.
const WINDOWS: usize = 200;
const WINDOW_US: f64 = 2.0;

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
fn words(seen: &Result<Reading, MeterError>) -> String {
    let reading = match seen {
        Ok(reading) => reading,
        Err(error) => return format!("no clock: {error}"),
    };
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
    ] {
        if let Some(count) = count.filter(|count| *count > 0) {
            disturbances.push_str(&format!("  {count} {what}"));
        }
    }
    if interference.is_stolen_from == Some(true) {
        disturbances.push_str("  steal seen");
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

    fn add(
        &mut self,
        seconds: f64,
        cpu: usize,
        seen: &Result<Reading, MeterError>,
    ) -> anyhow::Result<()> {
        let rest = match seen.as_ref().map(|reading| &reading.estimate) {
            Ok(Ok(found)) => format!(
                "{:.1},{:.1},{:.1},{},{},{},",
                found.hz / 1e6,
                found.low_hz / 1e6,
                found.high_hz / 1e6,
                found.accepted,
                found.rejected,
                found.gaps,
            ),
            Ok(Err(refusal)) => format!(",,,,,,\"{refusal}\""),
            Err(error) => format!(",,,,,,\"{error}\""),
        };
        self.line(&format!("{seconds:.3},{cpu},{rest}"))
    }

    fn line(&mut self, line: &str) -> anyhow::Result<()> {
        writeln!(self.file, "{line}").with_context(|| cannot("write", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use widelane_meter::estimate::Refusal;
    use widelane_meter::interference::Interference;

    use super::*;

    #[test]
    fn a_refused_meter_is_a_look_without_a_clock() {
        let refused = MeterError::SelfCheck { ratio: 0.5 };
        assert!(words(&Err(refused)).starts_with("no clock: the meter's self-check"));
    }

    #[test]
    fn stolen_time_is_seen_but_not_told_in_steps_of_10_ms() {
        let estimate = Err(Refusal::TooFewWindows { accepted: 3, taken: 9 });
        let interference = Interference { is_stolen_from: Some(true), ..Interference::default() };
        let seen = words(&Ok(Reading { estimate, interference }));
        assert!(seen.ends_with("  steal seen"), "{seen}");
    }

    #[test]
    fn a_watch_stays_on_the_cpu_that_it_watches() {
        std::thread::spawn(|| {
            let (seconds, keep) = (Some(0.001), Keep { results: None });
            let args = Args { cpu: None, pid: None, seconds, csv: None, keep };
            let gauge = Gauge::new(&Machine::detect());
            let (began, clocks) = (Instant::now(), BTreeMap::new());
            let mut watch = Watch { args: &args, gauge, counters: None, csv: None, began, clocks };
            watch.until(&AtomicBool::new(false)).unwrap();
            assert_eq!(place::allowed(), [place::here()]);
        })
        .join()
        .unwrap();
    }
}
