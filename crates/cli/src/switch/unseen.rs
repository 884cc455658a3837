//! Accelerated processes whose counters are not to be found: nothing can switch them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use widelane_bridge::counters::COUNTERS_EXTENSION;

use super::Failed;
use crate::libraries::PROVIDER_NAMES;
use crate::live::{self, Survey};

/// An accelerated process, and the counters that it has mapped: its own, or those of its parent.
pub struct Candidate {
    pid: u32,
    command: String,
    counters: BTreeSet<PathBuf>,
}

/// Those of a name or number by which a process is meant; only of processes that we may look at.
pub fn candidates(is_meant: impl Fn(u32, &str) -> bool) -> Vec<Candidate> {
    let candidate = |pid: u32| {
        let files = live::mapped_files(pid)?;
        let is_provider = |file: &PathBuf| {
            PROVIDER_NAMES.iter().any(|name| file.file_name() == Some(name.as_ref()))
        };
        if !files.iter().any(is_provider) {
            return None;
        }
        let command = live::command_of(pid).filter(|command| is_meant(pid, command))?;
        let counters = files.into_iter().filter(|file| is_of_counters(file)).collect();
        Some(Candidate { pid, command, counters })
    };
    live::all().filter_map(candidate).collect()
}

/// Those of them that a later look at the counters did not reach, not even by a parent's: a child
/// goes by these until it has counters of its own.
pub fn unseen(candidates: Vec<Candidate>, survey: &Survey) -> Vec<Failed> {
    let seen: BTreeSet<&Path> =
        survey.processes.iter().map(|process| process.path.as_path()).collect();
    let is_unseen = |candidate: &Candidate| {
        !candidate.counters.iter().any(|path| seen.contains(path.as_path()))
            && live::command_of(candidate.pid).is_some()
    };
    candidates.into_iter().filter(is_unseen).map(Candidate::failed).collect()
}

fn is_of_counters(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == COUNTERS_EXTENSION)
}

impl Candidate {
    fn failed(self) -> Failed {
        let reason = match self.counters.first().and_then(|path| path.parent()) {
            Some(directory) => format!(
                "its counters are in {}, as it sees it; name that directory by --counters-dir",
                directory.display()
            ),
            None => "it has no counters, so that only a restart without widelane switches it off"
                .to_owned(),
        };
        Failed { pid: self.pid, command: self.command, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::process;

    fn candidate(counters: &[&str]) -> Candidate {
        let counters = counters.iter().map(PathBuf::from).collect();
        Candidate { pid: std::process::id(), command: "nginx".to_owned(), counters }
    }

    #[test]
    fn a_process_is_reached_by_its_own_counters_or_its_parents() {
        let mut parent = process(1, 1);
        parent.path = "/run/widelane/1.counters".into();
        let survey = Survey { processes: vec![parent], ..Survey::default() };
        let reasons = |counters: &[&str]| {
            unseen(vec![candidate(counters)], &survey).pop().map(|failed| failed.reason)
        };
        assert_eq!(reasons(&["/run/widelane/1.counters"]), None);
        assert_eq!(reasons(&["/old/7.counters", "/run/widelane/1.counters"]), None);
        assert!(reasons(&[]).unwrap().contains("has no counters"));
        assert!(reasons(&["/other/1.counters"]).unwrap().contains("are in /other, "));
    }

    #[test]
    fn a_process_without_the_provider_is_none() {
        assert!(candidates(|pid, _| pid == std::process::id()).is_empty());
    }
}
