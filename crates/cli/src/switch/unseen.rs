//! Accelerated processes whose counters are not to be found: nothing can switch them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use widelane_bridge::counters::COUNTERS_EXTENSION;
use widelane_bridge::processes::{LANE_PROCESS, SUPERVISOR};

use super::Failed;
use crate::libraries::PROVIDER_NAMES;
use crate::live::{self, Survey};

/// An accelerated process, and the counters that it has mapped: its own, or those of its parent.
pub struct Candidate {
    pub pid: u32,
    command: String,
    counters: BTreeSet<PathBuf>,
}

/// The accelerated processes, as far as we may look at them.
pub fn candidates() -> Vec<Candidate> {
    let candidate = |pid: u32| {
        let files = live::mapped_files(pid)?;
        let is_provider = |file: &PathBuf| {
            file.file_name().is_some_and(|name| PROVIDER_NAMES.iter().any(|it| name == *it))
        };
        if !files.iter().any(is_provider) {
            return None;
        }
        let command = live::command_of(pid)?;
        let is_ours = [LANE_PROCESS, SUPERVISOR].iter().any(|name| name.to_str() == Ok(&command));
        let counters = files.into_iter().filter(|file| is_of_counters(file)).collect();
        (!is_ours).then_some(Candidate { pid, command, counters })
    };
    live::all().filter_map(candidate).collect()
}

/// The candidates that are meant and that a later look at the counters did not reach, not even by a
/// parent's: a child goes by these until it has counters of its own.
pub fn unseen(
    candidates: Vec<Candidate>,
    is_meant: impl Fn(u32, &str) -> bool,
    survey: &Survey,
) -> Vec<Failed> {
    // The kernel tells where a file is, whatever links lead there.
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let seen: BTreeSet<PathBuf> = survey.processes.iter().map(|it| real(&it.path)).collect();
    let is_unseen = |candidate: &Candidate| {
        is_meant(candidate.pid, &candidate.command)
            && candidate.counters.is_disjoint(&seen)
            && !survey.processes.iter().any(|process| process.pid == candidate.pid)
            && live::command_of(candidate.pid).is_some()
    };
    let failed = |candidate: Candidate| {
        let reason = candidate.reason(survey);
        Failed { pid: candidate.pid, command: candidate.command, reason }
    };
    candidates.into_iter().filter(is_unseen).map(failed).collect()
}

fn is_of_counters(file: &Path) -> bool {
    file.extension() == Some(OsStr::new(COUNTERS_EXTENSION))
}

impl Candidate {
    /// Why it is not seen.
    fn reason(&self, survey: &Survey) -> String {
        if let Some(file) = survey.skipped.iter().find(|file| file.pid() == Some(self.pid)) {
            return format!("{} {}", file.path.display(), file.objection);
        }
        match self.counters.first().and_then(|path| path.parent()) {
            Some(directory) => format!(
                "its counters are in {}, as it sees it; name that directory by --counters-dir",
                directory.display()
            ),
            None => "it has no counters, by which it could be switched: it gets them at its first \
                     handshake, or its log says why not"
                .to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::{Objection, Skipped};
    use crate::top::process;

    fn candidate(counters: &[&str]) -> Candidate {
        let counters = counters.iter().map(PathBuf::from).collect();
        Candidate { pid: std::process::id(), command: "nginx".to_owned(), counters }
    }

    fn reason(counters: &[&str], survey: &Survey) -> Option<String> {
        unseen(vec![candidate(counters)], |_, _| true, survey).pop().map(|failed| failed.reason)
    }

    #[test]
    fn a_process_is_reached_by_its_own_counters_or_its_parents() {
        let mut parent = process(1, 1);
        parent.path = "/run/widelane/1.counters".into();
        let mut survey = Survey { processes: vec![parent], ..Survey::default() };
        assert_eq!(reason(&["/run/widelane/1.counters"], &survey), None);
        assert_eq!(reason(&["/old/7.counters", "/run/widelane/1.counters"], &survey), None);
        assert!(reason(&[], &survey).unwrap().contains("has no counters"));
        assert!(reason(&["/other/1.counters"], &survey).unwrap().contains("are in /other, "));
        // By a link, and opened after the maps were read.
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        let file = dir.path().canonicalize().unwrap().join("1.counters");
        fs::write(&file, "").unwrap();
        survey.processes[0].path = link.join("1.counters");
        assert_eq!(reason(&[file.to_str().unwrap()], &survey), None);
        survey.processes[0].pid = std::process::id();
        assert_eq!(reason(&[], &survey), None);
    }

    #[test]
    fn what_is_objected_to_counters_is_told() {
        let path: PathBuf = format!("/run/widelane/{}.counters", std::process::id()).into();
        let skipped = vec![Skipped { path: path.clone(), objection: Objection::Version }];
        let survey = Survey { skipped, ..Survey::default() };
        let reason = reason(&[path.to_str().unwrap()], &survey).unwrap();
        assert!(reason.contains("another version"), "{reason}");
    }

    #[test]
    fn a_process_without_the_provider_is_none() {
        assert!(candidates().iter().all(|candidate| candidate.pid != std::process::id()));
    }
}
