//! `widelane off` and `widelane on`: switch the acceleration of running processes off and on.

mod chosen;
mod unseen;
mod write;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use serde::Serialize;
use widelane_tables::{Block, Style, Tone, counted};

pub use self::chosen::Chosen;
use self::chosen::Missing;
pub use self::write::{Failed, Written, write};
use crate::live::{self, Directories, ON, Off, Process, Survey};
use crate::system::in_shell;
use crate::{output, units};

/// Switches the acceleration of running servers off, without a restart
///
/// The processes leave all operations to OpenSSL from the next operation on; connections that began
/// before keep their cipher. No handshake is lost. Processes that they fork, and reloads,
/// begin switched off as well; a server that is started anew begins switched on. `widelane on`
/// switches them on again.
#[derive(clap::Args)]
#[command(after_help = OFF_EXAMPLES)]
pub struct OffArgs {
    /// Services, programs as `widelane top` shows them, or numbers of processes; by default all
    /// accelerated processes
    #[arg(value_name = "NAME|PID")]
    servers: Vec<String>,
    /// Switches them on again by itself after this time, such as 90s or 10m, a day at most; by
    /// default they stay off
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    time: Option<Duration>,
    #[command(flatten)]
    common: Common,
}

/// Switches the acceleration of servers on again that were switched off
#[derive(clap::Args)]
pub struct OnArgs {
    /// Services, programs as `widelane top` shows them, or numbers of processes; by default all
    /// that have counters
    #[arg(value_name = "NAME|PID")]
    servers: Vec<String>,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args)]
struct Common {
    /// Directory of counters; by default all in which `widelane run` and `enable` put them
    #[arg(long, value_name = "DIR")]
    counters_dir: Option<PathBuf>,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

const OFF_EXAMPLES: &str = "\
Examples:
  widelane off
  widelane off nginx --for 10m
  widelane off haproxy@web
  widelane off 4711";

/// A time to be off: of less than a second nobody would notice anything, and it is a slip.
fn time(text: &str) -> Result<Duration, String> {
    let time = units::duration(text)?;
    match time < Duration::from_secs(1) {
        true => Err("give a time of at least 1s, such as 90s or 10m".to_owned()),
        false => Ok(time),
    }
}

/// Switches off.
pub fn off(args: &OffArgs) -> anyhow::Result<ExitCode> {
    switch(&args.servers, Some(args.time), &args.common)
}

/// Switches on.
pub fn on(args: &OnArgs) -> anyhow::Result<ExitCode> {
    switch(&args.servers, None, &args.common)
}

/// Switches off, for good or for a time, or on.
fn switch(
    servers: &[String],
    off: Option<Option<Duration>>,
    common: &Common,
) -> anyhow::Result<ExitCode> {
    let directories = Directories::asked_or_usual(common.counters_dir.as_deref())?;
    // What is in a directory of its own is asked for alone.
    let candidates = if off.is_some() && !live::is_asked(common.counters_dir.as_deref()) {
        unseen::candidates()
    } else {
        Vec::new()
    };
    let survey = Survey::take(&directories);
    let pids: Vec<u32> = survey.pids().chain(candidates.iter().map(|it| it.pid)).collect();
    let chosen = Chosen::new(servers, &pids);
    let is_named = |pid, command: &str| chosen.is_named(pid, command);
    let unseen = unseen::unseen(candidates, is_named, &survey);
    if let Err(Missing { word, why }) = chosen.find(&survey, &directories) {
        let is_meant = |failed: &&Failed| {
            word.as_ref().is_none_or(|word| chosen.means(word, failed.pid, &failed.command))
        };
        match unseen.iter().find(is_meant) {
            Some(Failed { pid, command, reason }) => {
                bail!("cannot switch {command} {pid}: {reason}")
            }
            None => bail!(why),
        }
    }
    let word = off.map_or(ON, Off::word);
    let mut written = write(&directories, |process| chosen.is_of(process), word);
    written.failed.extend(unseen);
    let done = Done::new(&written, off.is_some().then(|| Off::of(word)).flatten());
    if common.json {
        output::print_untrusted(&serde_json::to_string_pretty(&done)?)?;
    } else if !done.switched.is_empty() {
        output::print(&done.text(servers, off.flatten(), &output::style()))?;
    }
    let truncated = || survey.truncated.then(|| live::TRUNCATED.to_owned());
    match written.complaint().or_else(truncated) {
        Some(complaint) => bail!(complaint),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// What was done.
#[derive(Debug, Serialize)]
struct Done {
    /// Whether processes were switched off.
    off: bool,
    /// The Unix time in seconds at which they are on again by themselves.
    off_until: Option<f64>,
    /// Each program.
    switched: Vec<Program>,
    /// Processes that could not be switched.
    failed: Vec<Failed>,
}

/// The processes of one program.
#[derive(Debug, Serialize)]
struct Program {
    command: String,
    /// All that are as they were wanted now.
    pids: Vec<u32>,
    /// How many of them were otherwise before.
    changed: usize,
}

impl Done {
    fn new(written: &Written, off: Option<Off>) -> Self {
        let mut programs: BTreeMap<&str, Vec<&Process>> = BTreeMap::new();
        for process in &written.switched {
            programs.entry(&process.command).or_default().push(process);
        }
        let program = |(command, processes): (&str, Vec<&Process>)| {
            let was_off = |process: &&&Process| process.off.is_some();
            let were_off = processes.iter().filter(was_off).count();
            Program {
                command: command.to_owned(),
                pids: processes.iter().map(|process| process.pid).collect(),
                changed: if off.is_some() { processes.len() - were_off } else { were_off },
            }
        };
        Done {
            off: off.is_some(),
            off_until: off.and_then(Off::end_s),
            switched: programs.into_iter().map(program).collect(),
            failed: written.failed.clone(),
        }
    }

    /// What was done, and what remains.
    fn text(&self, servers: &[String], time: Option<Duration>, style: &Style) -> String {
        let mut lines: Vec<Block> = Vec::new();
        // Names of programs would mean other processes, too.
        let on = servers.iter().fold("widelane on".to_owned(), |on, it| on + " " + &in_shell(it));
        for program in &self.switched {
            let line = if self.off { program.off(&on, time) } else { program.on() };
            lines.push(Block::Lead(Tone::Same, line));
        }
        if self.off {
            lines.push(Block::Text(match time {
                None => "Reloads keep them off; a server that is started anew begins switched on."
                    .to_owned(),
                Some(_) => "A server that is started anew begins switched on.".to_owned(),
            }));
        }
        widelane_tables::show(lines, style)
    }
}

impl Program {
    fn off(&self, on: &str, time: Option<Duration>) -> String {
        let verb = if self.pids.len() == 1 { "leaves" } else { "leave" };
        let time = match time {
            Some(time) => format!("for {}", units::words(time)),
            None => "from now on".to_owned(),
        };
        format!(
            "{}: {} {verb} all operations to OpenSSL {time}; `{on}` takes it back.",
            self.command,
            self.number()
        )
    }

    fn on(&self) -> String {
        let verb = if self.pids.len() == 1 { "is" } else { "are" };
        let before = match self.changed {
            0 => "; none was switched off".to_owned(),
            all if all == self.pids.len() => String::new(),
            some => format!("; {some} of them had been switched off"),
        };
        format!("{}: {} {verb} accelerated from now on{before}.", self.command, self.number())
    }

    fn number(&self) -> String {
        counted(self.pids.len(), "process", "processes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::process;

    const STYLE: Style = Style { colour: false, width: u16::MAX };

    fn done(processes: Vec<Process>, off: Option<Off>) -> Done {
        let reason = "it cannot be written to".to_owned();
        let failed = vec![Failed { pid: 9, command: "nginx".to_owned(), reason }];
        Done::new(&Written { switched: processes, failed }, off)
    }

    #[test]
    fn a_time_that_is_over_before_anybody_notices_is_refused() {
        for text in ["0", "5ms", "999ms"] {
            assert!(time(text).unwrap_err().starts_with("give a time of at least 1s"), "{text}");
        }
        assert_eq!(time("1s"), Ok(Duration::from_secs(1)));
    }

    #[test]
    fn what_was_done_is_said_by_program() {
        let mut proxy = process(3, 1);
        proxy.command = "haproxy 2".to_owned();
        let off = done(vec![process(1, 1), process(2, 1), proxy], Some(Off::ForGood));
        let text = off.text(&["nginx".to_owned(), "haproxy 2".to_owned()], None, &STYLE);
        for expected in [
            "nginx: 2 processes leave all operations to OpenSSL from now on; `widelane on nginx \
             'haproxy 2'` takes it back.",
            "haproxy 2: 1 process leaves all operations to OpenSSL from now on; `widelane on",
            "started anew begins switched on",
        ] {
            assert!(text.contains(expected), "{expected} is missing in {text}");
        }
        let text = off.text(&[], Some(Duration::from_secs(600)), &STYLE);
        assert!(text.contains("to OpenSSL for 10 min; `widelane on` takes it back"), "{text}");
        crate::output::assert_documented(&off);
    }

    #[test]
    fn switching_on_says_whether_it_changed_anything() {
        let mut processes = vec![process(1, 1), process(2, 1)];
        for (off, expected) in [
            ([None, None], "on; none was switched off."),
            ([Some(Off::ForGood), None], "on; 1 of them had been switched off."),
            ([Some(Off::ForGood); 2], "nginx: 2 processes are accelerated from now on."),
        ] {
            processes.iter_mut().zip(off).for_each(|(process, off)| process.off = off);
            let text = done(processes.clone(), None).text(&[], None, &STYLE);
            assert!(text.contains(expected), "{expected} is missing in {text}");
        }
    }
}
