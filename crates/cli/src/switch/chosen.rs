//! Which processes are meant, by names of services and programs and by numbers of processes.

use std::collections::BTreeMap;
use std::path::Path;

use crate::enable;
use crate::live::{self, Directories, NAME_BYTES, Process, Skipped, State, Survey, command_of};

/// Names and numbers; all accelerated processes where there are none.
pub struct Chosen {
    words: Vec<Word>,
    /// The control groups of a process, by which its service is told.
    groups: fn(u32) -> Option<String>,
}

/// One name or number.
#[derive(Clone, Debug)]
pub struct Word {
    given: String,
    /// The service that it means; else it is the name of a program or the number of a process.
    service: Option<String>,
}

/// Nothing that could be switched is meant.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct Missing {
    /// By this word; by none, where all processes are meant.
    pub word: Option<Word>,
    /// Why.
    pub why: String,
}

impl Chosen {
    /// What words mean: a service if its name ends so, or if one of the processes that were found
    /// is in its control group. The same name of a program may be that of other services, and
    /// anybody's process may call itself so.
    pub fn new(words: &[String], found: &[u32]) -> Self {
        Chosen::with(words, found, live::control_group)
    }

    fn with(words: &[String], found: &[u32], groups: fn(u32) -> Option<String>) -> Self {
        let groups_found: Vec<String> = found.iter().filter_map(|pid| groups(*pid)).collect();
        // Control groups have the first of several names, such as mariadb of mysql.
        let own_name = |name: &str| {
            let own = enable::own_name(Path::new("/"), name);
            own.unwrap_or_else(|| name.to_owned())
        };
        let service = |word: &String| match word.strip_suffix(".service") {
            Some(service) => Some(own_name(service)),
            None => {
                let own = own_name(word);
                let is_service = groups_found.iter().any(|groups| live::is_in_unit(groups, &own));
                is_service.then_some(own)
            }
        };
        let word = |word| Word { given: String::clone(word), service: service(word) };
        Chosen { words: words.iter().map(word).collect(), groups }
    }

    /// All processes of one program, whatever services they are in.
    pub fn program(name: &str) -> Self {
        let word = Word { given: name.to_owned(), service: None };
        Chosen { words: vec![word], groups: live::control_group }
    }

    /// Whether a process is meant: none whose policy was refused, in which there is nothing to
    /// switch, and no lane process, which does what processes that are on leave to it.
    pub fn is_of(&self, process: &Process) -> bool {
        is_switched(process) && self.is_named(process.pid, &process.command)
    }

    /// Whether a process is meant by its service, name or number.
    pub fn is_named(&self, pid: u32, command: &str) -> bool {
        self.words.is_empty() || self.words.iter().any(|word| self.means(word, pid, command))
    }

    /// Whether a word means a process: by its service, by the name of its program, as far as the
    /// kernel keeps it, or by its number.
    pub fn means(&self, word: &Word, pid: u32, command: &str) -> bool {
        let given = word.given.as_str();
        match &word.service {
            Some(service) => {
                (self.groups)(pid).is_some_and(|groups| live::is_in_unit(&groups, service))
            }
            None => {
                command == given
                    || given.get(..NAME_BYTES) == Some(command)
                    || pid.to_string() == given
            }
        }
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
        let is_found = |word: &&Word| found.iter().any(|it| self.means(word, it.pid, &it.command));
        if let Some(missing) = self.words.iter().find(|word| !is_found(word)) {
            let why = self.why_missing(missing, survey, directories);
            return Err(Missing { word: Some(missing.clone()), why });
        }
        if found.is_empty() {
            return Err(Missing { word: None, why: why_none(survey, directories) });
        }
        Ok(found)
    }

    /// Why a word means no process that could be switched.
    fn why_missing(&self, word: &Word, survey: &Survey, directories: &Directories) -> String {
        let given = &word.given;
        let is_it = |process: &&Process| self.means(word, process.pid, &process.command);
        if let Some(process) = survey.processes.iter().find(is_it) {
            if process.counts.lane_process_starts > 0 {
                return format!(
                    "{given} is a lane process: switch the server whose signatures it makes"
                );
            }
            return format!("nothing is accelerated in {}", refusal(process));
        }
        let is_it = |file: &&Skipped| {
            file.pid()
                .is_some_and(|pid| self.means(word, pid, &command_of(pid).unwrap_or_default()))
        };
        if let Some(file) = survey.skipped.iter().find(is_it) {
            return format!("the counters of {given} cannot be used: {}", words(file));
        }
        match programs(survey) {
            None => why_none(survey, directories),
            Some(programs) => {
                format!(
                    "no process {given} has counters in {}; there are {programs}{}",
                    directories.words(),
                    truncation(survey)
                )
            }
        }
    }
}

/// Whether a process can be switched at all.
fn is_switched(process: &Process) -> bool {
    process.state() != State::Refused && process.counts.lane_process_starts == 0
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

    /// The processes 1 and 5 are of services.
    fn groups(pid: u32) -> Option<String> {
        let group = match pid {
            1 => "system.slice/nginx.service",
            5 => "system.slice/system-haproxy.slice/haproxy@web.service",
            _ => "user.slice/session-1.scope",
        };
        Some(format!("0::/{group}\n"))
    }

    fn found(words: &[&str], survey: &Survey) -> Result<Vec<u32>, String> {
        find(words, survey, |_| None)
    }

    fn find(
        words: &[&str],
        survey: &Survey,
        groups: fn(u32) -> Option<String>,
    ) -> Result<Vec<u32>, String> {
        let words: Vec<_> = words.iter().map(ToString::to_string).collect();
        let pids: Vec<_> = survey.processes.iter().map(|process| process.pid).collect();
        let chosen = Chosen::with(&words, &pids, groups);
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
    fn the_name_of_a_service_means_its_processes_alone() {
        let mut survey = survey();
        let mut instance = process(5, 1);
        instance.command = "haproxy".to_owned();
        survey.processes.push(instance);
        for (word, expected) in [
            ("nginx", vec![1]),
            ("nginx.service", vec![1]),
            ("haproxy@web", vec![5]),
            ("haproxy@", vec![5]),
            ("haproxy", vec![5]),
            ("2", vec![2]),
        ] {
            assert_eq!(find(&[word], &survey, groups), Ok(expected), "{word}");
        }
        let error = find(&["haproxy.service"], &survey, groups).unwrap_err();
        assert!(error.contains("no process haproxy.service has counters in"), "{error}");
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
