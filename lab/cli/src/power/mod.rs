//! `widelane power`: what vector width costs the clock of this machine, measured without privilege.

mod beside;
mod duty;
mod map;
mod model;
mod plot;
mod transitions;
mod watch;

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, anyhow, bail};
use clap::Subcommand;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use widelane_cli::{output, system};
use widelane_cpu::Machine;
use widelane_meter::experiment::{ExperimentError, Watcher};
use widelane_meter::place;
use widelane_meter::stimulus::Subject;
use widelane_meter::trace::Recording;
use widelane_meter::verdict::Ratio;
use widelane_results::{Results, Row, Status};
use widelane_tables::{Block, Tone};

use crate::keep::{Keep, ratio_row, row};
use crate::measure;
use crate::targets::WrittenFile;

/// Measures what vector width costs the clock of this machine, without privilege
///
/// Exits with 3 where a measurement does not tell.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    question: Question,
}

#[derive(Subcommand)]
enum Question {
    Map(map::Args),
    Transitions(transitions::Args),
    Duty(duty::Args),
    Sibling(beside::SiblingArgs),
    Speculation(beside::SpeculationArgs),
    Watch(watch::Args),
    Model(model::Args),
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.question {
        Question::Map(args) => map::run(&args),
        Question::Transitions(args) => transitions::run(&args),
        Question::Duty(args) => duty::run(&args),
        Question::Sibling(args) => beside::sibling(&args),
        Question::Speculation(args) => beside::speculation(&args),
        Question::Watch(args) => watch::run(&args),
        Question::Model(args) => model::run(&args),
    }
}

/// Where windows come from and where answers go.
#[derive(clap::Args)]
struct Common {
    /// CPU to measure on; the one this runs on by default
    #[arg(long, value_name = "CPU", conflicts_with = "replay")]
    cpu: Option<usize>,
    /// Writes everything recorded, so that --replay can judge it again
    #[arg(long, value_name = "FILE")]
    csv: Option<WrittenFile>,
    /// Judges a recording made by --csv instead of measuring
    #[arg(long, value_name = "FILE", conflicts_with = "csv")]
    replay: Option<PathBuf>,
    /// Prints JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    keep: Keep,
}

impl Common {
    /// The recording of `experiment`: replayed, or made now, and written if that is wanted.
    fn recording(
        &self,
        experiment: &str,
        make: impl FnOnce(&Machine, &dyn Watcher) -> Result<Recording, ExperimentError>,
    ) -> anyhow::Result<Recorded> {
        if let Some(path) = &self.replay {
            return Ok(Recorded { recording: replay(path, experiment)?, written: Ok(()) });
        }
        let created = widelane_bench::now_rfc3339();
        let progress = Progress::new(experiment)?;
        let recording = self.on_one_cpu(|| make(&Machine::detect(), &progress))?;
        progress.finish();
        let mut recording = recording?;
        recording.facts.push((CREATED.to_owned(), created));
        if progress.is_stopped() {
            recording.facts.push((INTERRUPTED.to_owned(), "true".to_owned()));
        }
        let written = self.csv.as_ref().map_or(Ok(()), |path| write(path, &recording));
        Ok(Recorded { recording, written })
    }

    /// Does `work` on the CPU to measure on, and on no other one meanwhile.
    fn on_one_cpu<T>(&self, work: impl FnOnce() -> T) -> anyhow::Result<T> {
        let cpus = place::allowed();
        place::stay_on(self.cpu.unwrap_or_else(place::here))?;
        let done = work();
        place::roam(&cpus);
        Ok(done)
    }

    /// Writes a results file, if one is wanted; what could not be written, this or the recording,
    /// is an error, and that it was interrupted.
    fn keep(&self, recorded: Recorded, fill: impl FnOnce(&mut Results)) -> anyhow::Result<()> {
        let Recorded { recording, written } = recorded;
        // Recordings of before do not tell when they were made.
        let created = recording.fact(CREATED).unwrap_or_default();
        let complete = recording.fact(INTERRUPTED).is_none();
        let fill = |results: &mut Results| {
            fill(results);
            results.note(measured_on(&recording));
        };
        let kept = if self.replay.is_none() {
            self.keep.here(created, complete, fill)
        } else {
            let cpus = recording.fact("online").and_then(|cpus| cpus.parse().ok());
            let model = recording.fact("model").unwrap_or("unknown");
            self.keep.elsewhere(created, complete, (model, cpus), fill)
        };
        let is_over = complete || self.replay.is_some();
        let ended = if is_over { Ok(()) } else { Err(anyhow!("interrupted")) };
        measure::all([ended, written, kept])
    }

    /// Prints an answer, as JSON or in parts for the reader, even where the experiment or what was
    /// to be `written` did not come to its end. The status tells whether it is an answer.
    fn answer(
        &self,
        tone: Tone,
        answer: &impl Serialize,
        parts: Vec<Part>,
        written: anyhow::Result<()>,
    ) -> anyhow::Result<ExitCode> {
        let printed = print(self.json, answer, parts)?;
        let is_told = tone != Tone::Unknown;
        written.map(|()| if is_told { printed } else { ExitCode::from(measure::INCONCLUSIVE) })
    }
}

/// How many rounds, and the time in seconds after which no further one begins: as many as were
/// `asked` for, however long they take, or the `usual` number within the usual time.
fn limits(asked: Option<u32>, (usual, seconds): (u32, f64)) -> (u32, f64) {
    asked.map_or((usual, seconds), |rounds| (rounds, f64::INFINITY))
}

/// The subject that was `asked` for, or else the one that costs most here.
fn subject(asked: Option<&str>) -> anyhow::Result<Subject> {
    let Some(name) = asked else { return Ok(Subject::widest()) };
    Subject::named(name)
        .ok_or_else(|| anyhow!("there is no subject {name:?}; `widelane power map` lists them"))
}

/// The CPU that a recording is of, in words.
fn measured_on(recording: &Recording) -> Option<String> {
    Some(format!("Measured on CPU {}.", recording.fact("cpu")?))
}

/// A recording, and whether it was written where that was wanted.
struct Recorded {
    recording: Recording,
    written: anyhow::Result<()>,
}

/// The fact of a recording that tells when it was made.
const CREATED: &str = "created";

/// The fact of a recording that was cut short.
const INTERRUPTED: &str = "interrupted";

fn write(path: &Path, recording: &Recording) -> anyhow::Result<()> {
    let mut text = Vec::new();
    recording.write(&mut text)?;
    system::write(path, &String::from_utf8(text)?)
}

fn print(json: bool, answer: &impl Serialize, parts: Vec<Part>) -> anyhow::Result<ExitCode> {
    let text = if json {
        serde_json::to_string_pretty(answer).context("cannot write JSON")?
    } else {
        let style = output::style();
        let part = |part| match part {
            Part::Blocks(blocks) => widelane_tables::show(blocks, &style),
            Part::Plot(plot) => plot + "\n",
        };
        parts.into_iter().map(part).collect::<Vec<_>>().join("\n")
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// A part of an answer.
enum Part {
    /// Text and tables, fitted to the terminal.
    Blocks(Vec<Block>),
    /// Lines that must stay as they are.
    Plot(String),
}

fn replay(path: &Path, experiment: &str) -> anyhow::Result<Recording> {
    let file = File::open(path).with_context(|| cannot("read", path))?;
    let recording = Recording::read(BufReader::new(file)).with_context(|| cannot("read", path))?;
    if recording.experiment != experiment {
        bail!(
            "{} records `{}`; judge it with `widelane power {1} --replay`",
            path.display(),
            recording.experiment,
        );
    }
    Ok(recording)
}

fn cannot(what: &str, path: &Path) -> String {
    format!("cannot {what} {}", path.display())
}

/// Draws progress, and ends an experiment on Ctrl-C.
struct Progress {
    bar: ProgressBar,
    stop: Arc<AtomicBool>,
}

impl Progress {
    fn new(experiment: &str) -> anyhow::Result<Self> {
        let stop = system::stop_on_signals()?;
        let bar = ProgressBar::new(0).with_message(experiment.to_owned());
        bar.set_style(ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}")?);
        Ok(Progress { bar, stop })
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Watcher for Progress {
    fn goes_on(&self, done: u64, steps: u64) -> bool {
        self.bar.set_length(steps);
        self.bar.set_position(done);
        !self.is_stopped()
    }
}

/// What a subject leaves of the ambient clock, as rows; `why_not` is told where that is not known.
fn clock_rows(
    scenario: &str,
    subject: &str,
    (ratio, clock_mhz): (Option<Ratio>, Option<f64>),
    why_not: (Status, String),
) -> Vec<Row> {
    let (status, reason) = why_not;
    let kept = match ratio {
        Some(ratio) => ratio_row(scenario, subject, "clock_kept", "ambient", ratio),
        None => Row {
            value: None,
            status,
            reason: Some(reason),
            ..row(scenario, subject, ("clock_kept", "1"), 0.0)
        },
    };
    let clock = clock_mhz.map(|mhz| row(scenario, subject, ("clock", "MHz"), mhz));
    [kept].into_iter().chain(clock).collect()
}

/// Which way a verdict in words goes.
fn tone_of(verdict: &str) -> Tone {
    match verdict {
        verdict if verdict.starts_with("free") => Tone::Better,
        verdict if verdict.starts_with("cannot tell") => Tone::Unknown,
        _ => Tone::Worse,
    }
}

/// A frequency for the reader: in whole MHz.
fn mhz(value: Option<f64>) -> String {
    value.map_or(String::new(), |mhz| format!("{mhz:.0}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_experiment_that_was_interrupted_is_not_whole() {
        let directory = tempfile::tempdir().unwrap();
        let results = directory.path().join("results.json");
        for replay in [None, Some(PathBuf::from("recording.csv"))] {
            let keep = Keep { results: Some(results.clone().into_os_string().into()) };
            let common = Common { cpu: None, csv: None, replay, json: false, keep };
            let facts = vec![(INTERRUPTED.to_owned(), "true".to_owned())];
            let recording = Recording { experiment: "map".to_owned(), facts, samples: Vec::new() };
            let kept = common.keep(Recorded { recording, written: Ok(()) }, |_| ());
            // A replay is as whole as it can be.
            let said = kept.err().map(|error| error.to_string());
            assert_eq!(said, common.replay.is_none().then(|| "interrupted".to_owned()));
            let kept = std::fs::read_to_string(&results).unwrap();
            assert!(kept.contains("\"complete\": false"), "{kept}");
        }
    }

    #[test]
    fn a_recording_is_written_beside_the_one_before() {
        let directory = tempfile::tempdir().unwrap();
        let (path, link) = (directory.path().join("rec.csv"), directory.path().join("link"));
        std::fs::write(&path, "before").unwrap();
        std::fs::hard_link(&path, &link).unwrap();
        let recording = Recording::new("map", Vec::new());
        write(&path, &recording).unwrap();
        assert_eq!(std::fs::read_to_string(&link).unwrap(), "before");
        assert_eq!(replay(&path, "map").unwrap(), recording);
        let said = format!("{:#}", write(Path::new("/dev/full"), &recording).unwrap_err());
        assert!(said.starts_with("cannot write /dev/full: No space left"), "{said}");
    }

    #[test]
    fn rounds_that_were_asked_for_have_no_limit() {
        assert_eq!(limits(None, (24, 45.0)), (24, 45.0));
        assert_eq!(limits(Some(1000), (24, 45.0)), (1000, f64::INFINITY));
    }

    #[test]
    fn what_is_measured_stays_on_its_cpu() {
        std::thread::spawn(|| {
            let cpus = place::allowed();
            for cpu in cpus.iter().copied().map(Some).chain([None]) {
                let keep = Keep { results: None };
                let common = Common { cpu, csv: None, replay: None, json: false, keep };
                let (allowed, here) =
                    common.on_one_cpu(|| (place::allowed(), place::here())).unwrap();
                assert_eq!(allowed, [here]);
                assert!(cpu.is_none_or(|cpu| cpu == here));
                assert_eq!(place::allowed(), cpus);
            }
        })
        .join()
        .unwrap();
    }
}
