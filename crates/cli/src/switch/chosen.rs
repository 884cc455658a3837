//! Which processes are meant, by names of programs and numbers of processes.

use std::collections::BTreeMap;

use crate::live::{self, Directories, NAME_BYTES, Process, Skipped, State, Survey, command_of};

/// Names and numbers; all accelerated processes where there are none.
pub struct Chosen(pub Vec<String>);

/// Nothing that could be switched is meant.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct Missing {
    /// By this word; by none, where all processes are meant.
    pub word: Option<String>,
    /// Why.
    pub why: String,
}

impl Chosen {
    /// Whether a process is meant: none whose policy was refused, in which there is nothing to
    /// switch, and no lane process, which does what processes that are on leave to it.
    pub fn is_of(&self, process: &Process) -> bool {
        is_switched(process) && self.is_named(process.pid, &process.command)
    }

    /// Whether a process is meant by its name or number.
    pub fn is_named(&self, pid: u32, command: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|word| is_named(pid, command, word))
    }

    /// The processes that are meant, at least one by each word.
    ///
    /// # Errors
    ///
    /// Where a word means none, with those that there are.
    pub fn find<'a>(
        &self,
        survey: &'a Survey,
        directories: &Directories,
    ) -> Result<Vec<&'a Process>, Missing> {
        let found: Vec<_> = survey.processes.iter().filter(|process| self.is_of(process)).collect();
        let is_found = |word: &&String| found.iter().any(|it| is_named(it.pid, &it.command, word));
        if let Some(missing) = self.0.iter().find(|word| !is_found(word)) {
            let why = why_missing(missing, survey, directories);
            return Err(Missing { word: Some(missing.clone()), why });
        }
        if found.is_empty() {
            return Err(Missing { word: None, why: why_none(survey, directories) });
        }
        Ok(found)
    }
}

/// Whether a process can be switched at all.
fn is_switched(process: &Process) -> bool {
    process.state() != State::Refused && process.counts.lane_process_starts == 0
}

/// Whether a word is the name of a process's program, as far as the kernel keeps it, or its number.
pub fn is_named(pid: u32, command: &str, word: &str) -> bool {
    command == word || word.get(..NAME_BYTES) == Some(command) || pid.to_string() == word
}

/// Why a word means no process that could be switched.
fn why_missing(word: &str, survey: &Survey, directories: &Directories) -> String {
    let is_it = |process: &&Process| is_named(process.pid, &process.command, word);
    if let Some(process) = survey.processes.iter().find(is_it) {
        if process.counts.lane_process_starts > 0 {
            return format!(
                "{word} is a lane process: switch the server whose signatures it makes"
            );
        }
        return format!("nothing is accelerated in {}", refusal(process));
    }
    let is_it = |file: &&Skipped| {
        let pid = file.pid();
        pid.is_some_and(|pid| pid.to_string() == word)
            || pid.and_then(command_of).is_some_and(|command| command == word)
    };
    if let Some(file) = survey.skipped.iter().find(is_it) {
        return format!("the counters of {word} cannot be used: {}", words(file));
    }
    match programs(survey) {
        None => why_none(survey, directories),
        Some(programs) => {
            format!(
                "no process {word} has counters in {}; there are {programs}{}",
                directories.words(),
                truncation(survey)
            )
        }
    }
}

/// Why there is no process at all.
fn why_none(survey: &Survey, directories: &Directories) -> String {
    if let Some(process) = survey.processes.first() {
        return format!("nothing is accelerated: {}", refusal(process));
    }
    let skipped = match survey.skipped.first() {
        Some(file) => format!("; {} is skipped: {}", file.path.display(), file.objection),
        None => String::new(),
    };
    format!(
        "no accelerated process has counters in {}; start the server with `widelane run` or \
         `widelane enable`, or name another directory with --counters-dir{skipped}{}",
        directories.words(),
        truncation(survey)
    )
}

/// That a process may be missing because not all files were looked at.
fn truncation(survey: &Survey) -> String {
    if survey.truncated { format!("; {}", live::TRUNCATED) } else { String::new() }
}

fn refusal(process: &Process) -> String {
    format!("{} {}: its policy is refused, and its log says why", process.command, process.pid)
}

fn words(file: &Skipped) -> String {
    format!("{} {}", file.path.display(), file.objection)
}

/// The programs that can be named, with their numbers of processes.
fn programs(survey: &Survey) -> Option<String> {
    let mut programs: BTreeMap<&str, usize> = BTreeMap::new();
    for process in survey.processes.iter().filter(|process| is_switched(process)) {
        *programs.entry(&process.command).or_default() += 1;
    }
    let programs = programs.iter().map(|(command, number)| format!("{command} ({number})"));
    let programs = programs.collect::<Vec<_>>().join(", ");
    (!programs.is_empty()).then_some(programs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::Objection;
    use crate::top::process;

    fn survey() -> Survey {
        let (mut proxy, mut refusing) = (process(3, 1), process(4, 1));
        proxy.command = "a-very-long-nam".to_owned();
        (refusing.command, refusing.counts.policy_refused) = ("apache2".to_owned(), 1);
        let processes = vec![process(1, 1), process(2, 1), proxy, refusing];
        let path = format!("/run/widelane/{}.counters", std::process::id()).into();
        let skipped = vec![Skipped { path, objection: Objection::Version }];
        Survey { processes, skipped, ..Survey::default() }
    }

    fn found(words: &[&str], survey: &Survey) -> Result<Vec<u32>, String> {
        let chosen = Chosen(words.iter().map(ToString::to_string).collect());
        let found = chosen.find(survey, &Directories::only("/run/widelane".into()));
        let found = found.map(|found| found.iter().map(|process| process.pid).collect());
        found.map_err(|error| error.to_string())
    }

    #[test]
    fn processes_are_chosen_by_name_and_number() {
        let survey = survey();
        assert_eq!(found(&[], &survey), Ok(vec![1, 2, 3]));
        assert_eq!(found(&["nginx"], &survey), Ok(vec![1, 2]));
        assert_eq!(found(&["2", "a-very-long-name"], &survey), Ok(vec![2, 3]));
        assert_eq!(found(&["2", "nginx"], &survey), Ok(vec![1, 2]));
    }

    #[test]
    fn a_lane_process_is_left_alone() {
        let mut survey = survey();
        survey.processes[0].command = "widelane-lanes".to_owned();
        survey.processes[0].counts.lane_process_starts = 1;
        assert_eq!(found(&[], &survey), Ok(vec![2, 3]));
        let error = found(&["widelane-lanes"], &survey).unwrap_err();
        assert!(error.contains("switch the server whose signatures it makes"), "{error}");
    }

    #[test]
    fn what_is_not_there_is_told_with_what_is() {
        let survey = survey();
        let own = command_of(std::process::id()).unwrap();
        for (words, expected) in [
            (&["nginx", "ngin"][..], "no process ngin has counters in /run/widelane; there are"),
            (&["02"], "there are a-very-long-nam (1), nginx (2)"),
            (&["apache2"], "nothing is accelerated in apache2 4: its policy is refused"),
            (&[own.as_str()], "it is of another version of widelane; restart its server"),
        ] {
            let error = found(words, &survey).unwrap_err();
            assert!(error.contains(expected), "{expected} is missing in {error}");
        }
    }

    #[test]
    fn files_that_nobody_looked_at_are_told() {
        let mut survey = Survey { truncated: true, ..survey() };
        assert!(found(&["ngin"], &survey).unwrap_err().ends_with("that no server wrote"));
        survey.processes.clear();
        assert!(found(&[], &survey).unwrap_err().ends_with("that no server wrote"));
    }

    #[test]
    fn nothing_at_all_is_told_with_what_was_skipped() {
        let mut survey = survey();
        survey.processes.drain(..3);
        assert!(found(&[], &survey).unwrap_err().starts_with("nothing is accelerated: apache2 4"));
        survey.processes.clear();
        for words in [&[][..], &["nginx"]] {
            let error = found(words, &survey).unwrap_err();
            assert!(error.starts_with("no accelerated process has counters in /run/"), "{error}");
            assert!(error.contains("is skipped: it is of another version"), "{error}");
        }
    }
}
