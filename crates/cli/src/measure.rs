//! What measuring commands share: what is installed, the policy, signals, results files.

use std::env;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use rustix::time::{ClockId, clock_gettime};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use widelane_bench::Observer;
use widelane_bench::programs::Programs;
use widelane_cpu::policy::{self, Inputs, Resolved};
use widelane_results::{Machine, Results, SCHEMA};

use crate::run::libraries::Libraries;

/// Directories where servers live that are not always in a user's PATH.
const SYSTEM_DIRECTORIES: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// Servers, and the parts of widelane beside this binary.
pub fn programs() -> anyhow::Result<Programs> {
    let widelane = env::current_exe().context("cannot tell where this binary is; mount /proc")?;
    let path = env::var_os("PATH").unwrap_or_default();
    let search: Vec<PathBuf> =
        env::split_paths(&path).chain(SYSTEM_DIRECTORIES.map(PathBuf::from)).collect();
    let provider = Libraries::find().map(|libraries| libraries.provider).ok();
    Ok(Programs::search(widelane, provider, &search))
}

/// The policy in force.
pub fn policy() -> anyhow::Result<Resolved> {
    let inputs = Inputs {
        argument: None,
        policy_path: env::var_os(policy::PATH_VARIABLE).map(PathBuf::from),
        max_simd_bitwidth: env::var(policy::BITWIDTH_VARIABLE).ok(),
        wait_max: env::var(policy::WAIT_VARIABLE).ok(),
        combine: env::var(policy::COMBINE_VARIABLE).ok(),
        lane_cpus: env::var(policy::LANE_CPUS_VARIABLE).ok(),
        system_path: PathBuf::from(policy::SYSTEM_PATH),
    };
    Ok(policy::resolve(&inputs)?)
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

/// A flag that Ctrl-C and its kin set; a second one ends the process at once.
pub fn stop_on_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .context("cannot watch for signals")?;
    }
    Ok(stop)
}

/// CPU time of this thread.
pub fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Writes results so that a reader never sees half of them.
pub fn write_results(path: &Path, results: &Results) -> anyhow::Result<()> {
    write(path, &results.to_json())
}

/// Writes a file in one step: beside its place first, then over it.
pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = parent.unwrap_or(Path::new("."));
    let written = tempfile::Builder::new()
        .prefix(".widelane-")
        .permissions(Permissions::from_mode(0o644))
        .tempfile_in(directory)
        .and_then(|mut file| file.write_all(text.as_bytes()).map(|()| file))
        .and_then(|file| file.persist(path).map_err(|error| error.error));
    written.map(drop).with_context(|| format!("cannot write {}", path.display()))
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

    /// Takes the bar away, and tells if partial results could not be written.
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
