//! The accelerated processes that run now, by the counters files that they keep.
//!
//! Whoever may write to the directory may put anything there, so that a file is believed only if it
//! fits the process that it names: see [`file::read`].

mod clock;
mod directory;
mod file;
mod off;
mod process;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

pub use widelane_bridge::counters::ON;
use widelane_host::counters::{self, Counts};

pub use self::clock::Clocks;
pub use self::directory::{Directories, SYSTEM_DIRECTORY, for_servers, is_asked, try_out};
pub use self::file::{Objection, may_switch, switch};
pub use self::off::Off;
pub use self::process::{
    NAME_BYTES, all, are_others_hidden, command_of, control_group, cpu_of, has_loaded, is_in_unit,
    mapped_files, of_service,
};

/// One accelerated process.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks after boot: with the number, its identity.
    pub started_ticks: u64,
    /// The CPU time that it has used since then, in steps of a clock tick.
    pub cpu: Duration,
    /// Who it is now.
    pub user: u32,
    /// Its program's name, without control characters.
    pub command: String,
    /// How many threads it has.
    pub threads: usize,
    /// What it counted.
    pub counts: Counts,
    /// Whether it was switched off when its counters were read.
    pub off: Option<Off>,
    /// The file of its counters.
    pub path: PathBuf,
}

/// What becomes of the operations of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// They are accelerated.
    Accelerated,
    /// OpenSSL does them, because somebody has switched the process off.
    Off(Off),
    /// OpenSSL does them, because the policy was refused.
    Refused,
}

impl Process {
    /// What becomes of its operations: what counts as accelerated is decided here alone.
    pub fn state(&self) -> State {
        match self.off {
            _ if self.counts.policy_refused > 0 => State::Refused,
            Some(off) => State::Off(off),
            None => State::Accelerated,
        }
    }

    /// What tells the process from others: its number, and when it started.
    pub fn identity(&self) -> (u32, u64) {
        (self.pid, self.started_ticks)
    }
}

/// A file that was not believed.
#[derive(Debug)]
pub struct Skipped {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub objection: Objection,
}

impl Skipped {
    /// The process that the file is named after.
    pub fn pid(&self) -> Option<u32> {
        file::named_process(&self.path)
    }
}

/// A look at everything in the directories.
#[derive(Debug, Default)]
pub struct Survey {
    /// Living processes, by number.
    pub processes: Vec<Process>,
    /// Files that were not believed.
    pub skipped: Vec<Skipped>,
    /// Files of processes that have ended.
    pub ended: usize,
    /// Whether there were more files of running processes than anybody looks at.
    pub truncated: bool,
}

/// Files of running processes that one look goes through: more than any machine has servers.
const FILES_MAX: usize = 16_384;

/// What to tell where [`Survey::truncated`] is set.
pub const TRUNCATED: &str = "there are more counters files than are looked at, so that servers \
                             may be missing; remove those that no server wrote";

impl Survey {
    /// The processes that are accelerated now.
    pub fn accelerated(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter().filter(|process| process.state() == State::Accelerated)
    }

    /// The numbers of all processes that have files, whether these are believed or not.
    pub fn pids(&self) -> impl Iterator<Item = u32> {
        let believed = self.processes.iter().map(|process| process.pid);
        believed.chain(self.skipped.iter().filter_map(Skipped::pid))
    }

    /// Looks into directories; one that is missing or closed to us has no processes.
    pub fn take(directories: &Directories) -> Self {
        let mut survey = Survey::default();
        let mut processes = BTreeMap::new();
        let paths = directories.existing().flat_map(counters::files);
        let mut looked_at = 0;
        for path in paths {
            if looked_at == FILES_MAX {
                survey.truncated = true;
                break;
            }
            match file::read(&path) {
                Ok(process) => drop(processes.insert(process.pid, process)),
                Err(Objection::Ended) => {
                    survey.ended += 1;
                    continue;
                }
                Err(objection) => survey.skipped.push(Skipped { path, objection }),
            }
            looked_at += 1;
        }
        survey.processes = processes.into_values().collect();
        survey
    }
}
