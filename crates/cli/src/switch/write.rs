//! Switches processes by the word in their counters, those too that are forked meanwhile.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use serde::Serialize;

use crate::live::{self, Directories, Objection, Process, Survey};

/// What came of switching processes.
pub struct Written {
    /// The processes that are as they were wanted, as they were found before.
    pub switched: Vec<Process>,
    /// The processes that could not be switched.
    pub failed: Vec<Failed>,
}

/// A process that could not be switched.
#[derive(Clone, Debug, Serialize)]
pub struct Failed {
    pub pid: u32,
    pub command: String,
    pub reason: String,
}

/// Looks that are taken at most: each finds processes that were forked from one that the look
/// before had not reached.
const LOOKS_MAX: usize = 20;

/// Time for a process that has just been forked to take over what its parent had.
const PAUSE: Duration = Duration::from_millis(5);

/// Writes `word` to the processes that are meant, until a look finds it in all of them.
pub fn write(directories: &Directories, is_meant: impl Fn(&Process) -> bool, word: u64) -> Written {
    let mut before = BTreeMap::new();
    let mut switched = BTreeSet::new();
    let mut failed = BTreeMap::new();
    for look in 0..=LOOKS_MAX {
        let survey = Survey::take(directories);
        let mut is_done = true;
        for process in survey.processes.into_iter().filter(|process| is_meant(process)) {
            let identity = process.identity();
            before.entry(identity).or_insert_with(|| process.clone());
            if process.counts.off_until_ns == word {
                switched.insert(identity);
            } else if let Entry::Vacant(failure) = failed.entry(identity) {
                is_done = false;
                let written = match look {
                    LOOKS_MAX => Err("something else switches it as well".to_owned()),
                    _ => switch(&process, word),
                };
                if let Err(reason) = written {
                    failure.insert(Failed { pid: process.pid, command: process.command, reason });
                }
            }
        }
        if is_done {
            break;
        }
        thread::sleep(PAUSE);
    }
    before.retain(|identity, _| switched.contains(identity) && !failed.contains_key(identity));
    Written { switched: before.into_values().collect(), failed: failed.into_values().collect() }
}

/// Switches one process; one that has ended is no failure.
fn switch(process: &Process, word: u64) -> Result<(), String> {
    match live::switch(&process.path, word) {
        Ok(()) | Err(Objection::Ended) => Ok(()),
        Err(objection) => Err(objection.to_string()),
    }
}

impl Written {
    /// What to tell of the processes that could not be switched.
    pub fn complaint(&self) -> Option<String> {
        let Failed { pid, command, reason } = self.failed.first()?;
        let of = format!("{command} {pid}: {reason}");
        Some(match self.failed.len() {
            1 => format!("cannot switch {of}"),
            all => format!("cannot switch {all} processes, {of}"),
        })
    }
}
