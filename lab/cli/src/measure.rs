//! What measuring commands share: what is installed, progress, results files.

use std::env;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use rustix::time::{ClockId, clock_gettime};
use widelane_bench::Observer;
use widelane_bench::programs::Programs;
use widelane_cli::libraries::Libraries;
use widelane_cli::output;
use widelane_cli::system::{self, write};
use widelane_host::programs;
use widelane_results::{Machine, Results, SCHEMA};

/// Servers, and the parts of widelane beside this program.
pub fn programs() -> anyhow::Result<Programs> {
    let bench = env::current_exe().context("cannot tell where this program is; mount /proc")?;
    let search = system::search_path();
    let installed = || programs::find("widelane", &search);
    let widelane = system::find_beside("widelane").or_else(installed).unwrap_or_default();
    let provider = Libraries::find().map(|libraries| libraries.provider).ok();
    Ok(Programs { bench, ..Programs::search(widelane, provider, &search) })
}

/// Results without results: when, where and by which command.
pub fn blank(machine: Machine) -> Results {
    Results {
        schema: SCHEMA.to_owned(),
        created: widelane_bench::now_rfc3339(),
        command: env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        machine,
        ..Results::default()
    }
}

/// CPU time of this thread.
pub fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Shows results, then writes what is wanted of them; each whatever became of the others, so that a
/// disk that is full by now loses nothing.
pub fn tell(results: &Results, json: Option<&Path>, html: Option<&Path>) -> anyhow::Result<()> {
    let shown = output::print(&widelane_report::terminal(results, &output::style()));
    let kept = json.map_or(Ok(()), |path| write_results(path, results));
    let drawn = html.map_or(Ok(()), |path| write(path, &widelane_report::html(results)));
    shown.and(kept).and(drawn)
}

/// Writes results so that a reader never sees half of them.
pub fn write_results(path: &Path, results: &Results) -> anyhow::Result<()> {
    write(path, &results.to_json())
}

/// Draws a progress bar on terminals and keeps partial results.
pub struct Progress<'a> {
    bar: Option<ProgressBar>,
    json: Option<&'a Path>,
    write_failure: Option<anyhow::Error>,
}

impl<'a> Progress<'a> {
    /// Follows a run whose partial results go to `json`.
    pub fn new(json: Option<&'a Path>) -> Self {
        Progress { bar: None, json, write_failure: None }
    }

    /// Takes the bar away, and returns an error if partial results could not be written.
    pub fn finish(self) -> anyhow::Result<()> {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        self.write_failure.map_or(Ok(()), Err)
    }
}

impl Observer for Progress<'_> {
    fn planned(&mut self, rounds: u64) {
        if let Some(bar) = &self.bar {
            bar.inc_length(rounds);
            return;
        }
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} rounds, {eta} left  {msg}");
        let bar = ProgressBar::new(rounds);
        self.bar = Some(style.map_or_else(|_| bar.clone(), |style| bar.clone().with_style(style)));
    }

    fn began(&mut self, scenario: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(scenario.to_owned());
        }
    }

    fn round_taken(&mut self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    fn ended(&mut self, results: &Results) {
        if let Some(path) = self.json
            && let Err(error) = write_results(path, results)
        {
            self.write_failure.get_or_insert(error);
        }
    }
}
