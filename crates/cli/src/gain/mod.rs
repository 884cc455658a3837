//! `widelane gain`: what Widelane saves on a running server's own traffic, by switching it off and
//! on in turns.

mod answer;
mod look;
mod plan;
mod progress;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use serde::Serialize;

use self::answer::{Gain, LeftOut, Setting, Slice};
use self::look::Look;
use self::plan::Plan;
use self::progress::Progress;
use crate::live::{self, Directories, ON, Objection, Off, Process, State, Survey};
use crate::output::WrongUsage;
use crate::switch::{Chosen, write};
use crate::{output, system, units};

/// Measures what Widelane saves on a running server's own traffic, by switching it off and on
///
/// Switches the server's processes off and on in turns, as `widelane off` and `on` do, and compares
/// their total CPU time per handshake. At the end and on Ctrl-C they are switched on; if this
/// command is killed, they are on again by themselves after one slice. It needs traffic: 100
/// handshakes in each slice. Fewer than six pairs of slices give no answer.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Service, program as `widelane top` shows it, or number of a process [default: the only
    /// accelerated program]
    #[arg(value_name = "NAME|PID")]
    server: Option<String>,
    /// How long to measure
    #[arg(long = "for", value_name = "TIME", value_parser = units::some_time, default_value = "5m")]
    time: Duration,
    /// How long the server is off, or on, at a stretch
    #[arg(long, value_name = "TIME", value_parser = units::some_time, default_value = "10s")]
    slice: Duration,
    /// Directory of counters; by default all in which `widelane run` and `enable` put them
    #[arg(long, value_name = "DIR")]
    counters_dir: Option<PathBuf>,
    /// Prints JSON, each slice included
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  widelane gain
  widelane gain nginx --for 15m
  widelane gain haproxy --for 2m --slice 5s --json";

/// The exit status where what was measured gives no answer.
const NO_ANSWER: u8 = 3;

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let plan = Plan::new(args.time, args.slice).map_err(WrongUsage)?;
    let directories = Directories::asked_or_usual(args.counters_dir.as_deref())?;
    let survey = Survey::take(&directories);
    let chosen = match &args.server {
        Some(server) => {
            let pids: Vec<u32> = survey.pids().collect();
            Chosen::new(std::slice::from_ref(server), &pids)
        }
        None => Chosen::program(&only_program(&survey)?),
    };
    let processes = chosen.find(&survey, &directories)?;
    check(&processes)?;
    let name = processes[0].command.clone();
    let stop = system::stop_on_signals()?;
    let mut turns = Turns { directories, chosen, own: vec![ON], known: BTreeSet::new() };
    let mut progress = Progress::begin(&name, processes.len(), &plan);
    let outcome = turns.measure(&plan, &stop, &mut progress);
    let restored = turns.restore();
    progress.finish();
    // Before anything that may fail, and hide that the server is still off.
    if let Err(error) = &restored {
        output::complain(error);
    }
    let (slices, end) = outcome?;
    let gain = Gain::new(name, &plan, slices, end);
    if args.json {
        output::print_untrusted(&serde_json::to_string_pretty(&gain)?)?;
    } else {
        output::print(&widelane_tables::show(gain.blocks(restored.is_ok()), &output::style()))?;
    }
    Ok(match (restored, gain.is_answer()) {
        (Err(_), _) => ExitCode::FAILURE,
        (Ok(()), true) => ExitCode::SUCCESS,
        (Ok(()), false) => NO_ANSWER.into(),
    })
}

/// The only program of which processes are accelerated, beside lane processes.
fn only_program(survey: &Survey) -> anyhow::Result<String> {
    let servers = survey.processes.iter().filter(|it| it.counts.lane_process_starts == 0);
    let servers = servers.filter(|process| process.state() != State::Refused);
    let names: BTreeSet<&str> = servers.map(|process| process.command.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    match names[..] {
        [name] => Ok(name.to_owned()),
        [] => bail!("no accelerated server has counters; `widelane top --once` says more"),
        _ => bail!(WrongUsage(format!("say which server is meant: {}", names.join(", ")))),
    }
}

/// Refuses what cannot be measured.
fn check(processes: &[&Process]) -> anyhow::Result<()> {
    let name = &processes[0].command;
    let off = processes.iter().filter(|process| process.off.is_some());
    // By numbers: a name may be that of a service, too, which has only some of them.
    let off: String = off.map(|process| format!(" {}", process.pid)).collect();
    if !off.is_empty() {
        bail!("{name} is switched off: `widelane on{off}` first");
    }
    let handshakes: u64 = processes.iter().map(|process| process.counts.handshakes).sum();
    if handshakes == 0 && processes.iter().any(|process| process.counts.jobs() > 0) {
        bail!(
            "the handshakes of {name} are not counted, as it makes them outside of epoll: compare \
             its CPU time over the same hours of two days, one with widelane and one without \
             (docs/operate/ten-minutes.md)"
        );
    }
    for process in processes {
        match live::may_switch(&process.path) {
            Ok(()) | Err(Objection::Ended) => {}
            Err(objection) => bail!("cannot switch {name} {}: {objection}", process.pid),
        }
    }
    Ok(())
}

/// Why the measurement ended before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EarlyEnd {
    /// A signal, such as Ctrl-C.
    Signal,
    /// Somebody else has switched the server off or on.
    SwitchedByOthers,
    /// No process is left.
    ServerEnded,
}

/// Switches the server in turns.
struct Turns {
    directories: Directories,
    chosen: Chosen,
    /// The words that this command writes: others are somebody else's, and stay.
    own: Vec<u64>,
    /// The processes that this command has switched.
    known: BTreeSet<(u32, u64)>,
}

impl Turns {
    /// Measures pair by pair.
    fn measure(
        &mut self,
        plan: &Plan,
        stop: &AtomicBool,
        progress: &mut Progress,
    ) -> anyhow::Result<(Vec<Slice>, Option<EarlyEnd>)> {
        let mut slices = Vec::new();
        for pair in 0..plan.pairs {
            for setting in Setting::of_pair(pair) {
                progress.slice(pair, setting);
                match self.slice(pair, setting, plan, stop)? {
                    Ok(slice) => slices.push(slice),
                    Err(end) => return Ok((slices, Some(end))),
                }
            }
            progress.pair(pair, &slices);
        }
        Ok((slices, None))
    }

    /// One slice, or why there is none.
    fn slice(
        &mut self,
        pair: usize,
        setting: Setting,
        plan: &Plan,
        stop: &AtomicBool,
    ) -> anyhow::Result<Result<Slice, EarlyEnd>> {
        let begin = Instant::now();
        let word = match setting {
            Setting::On => ON,
            Setting::Off => Off::word(Some(plan.deadline())),
        };
        self.write(word)?;
        let mut looks = Vec::new();
        for time in [plan.unmeasured, plan.slice] {
            if !sleep_until(begin + time, stop) {
                return Ok(Err(EarlyEnd::Signal));
            }
            let look = Look::take(&self.directories, &self.chosen);
            if look.words.is_empty() {
                return Ok(Err(EarlyEnd::ServerEnded));
            }
            let is_other =
                |(identity, it): &(_, u64)| !is_alike(*it, word) && self.known.contains(identity);
            if look.words.iter().any(is_other) {
                return Ok(Err(EarlyEnd::SwitchedByOthers));
            }
            looks.push(look);
        }
        let measured = looks[1].since(&looks[0]);
        let is_late = setting == Setting::Off && begin.elapsed() >= plan.deadline();
        let left_out = match &measured {
            _ if is_late => Some(LeftOut::Late),
            None => Some(LeftOut::Processes),
            Some(_) if looks[1].words.iter().any(|(_, it)| !is_alike(*it, word)) => {
                Some(LeftOut::Processes)
            }
            Some(measured) => measured.why_too_little(),
        };
        Ok(Ok(Slice { pair, setting, measured, left_out }))
    }

    /// Switches the processes, but for those that somebody else has switched.
    fn write(&mut self, word: u64) -> anyhow::Result<()> {
        if !self.own.contains(&word) {
            self.own.push(word);
        }
        let Turns { directories, chosen, own, known } = self;
        let is_own = |word: u64| own.contains(&word) || Off::of(word).is_none();
        let is_meant =
            |process: &Process| chosen.is_of(process) && is_own(process.counts.off_until_ns);
        let written = write(directories, is_meant, word);
        known.extend(written.switched.iter().map(Process::identity));
        written.complaint().map_or(Ok(()), |complaint| Err(anyhow!(complaint)))
    }

    /// Has all processes be on as before.
    fn restore(&mut self) -> anyhow::Result<()> {
        self.write(ON)?;
        self.own = vec![ON];
        Ok(())
    }
}

impl Drop for Turns {
    /// Where an error or a panic has come between.
    fn drop(&mut self) {
        if self.own != [ON] {
            drop(self.restore());
        }
    }
}

/// Whether two words mean the same now: a time that has passed is as good as none.
fn is_alike(one: u64, other: u64) -> bool {
    one == other || Off::of(one).is_none() && Off::of(other).is_none()
}

/// Sleeps until then; returns whether nobody asked to stop.
fn sleep_until(time: Instant, stop: &AtomicBool) -> bool {
    while !stop.load(Ordering::Relaxed) {
        let left = time.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(SIGNAL_WAIT_MAX));
    }
    false
}

/// The longest time until a signal that ends the program is noticed.
const SIGNAL_WAIT_MAX: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use widelane_bridge::counters::OFF_FOR_GOOD;

    use super::*;

    #[test]
    fn a_time_that_has_passed_is_as_good_as_none() {
        let word = Off::word(Some(Duration::from_secs(60)));
        assert!(is_alike(1, ON) && is_alike(word, word));
        assert!(!is_alike(word, ON) && !is_alike(OFF_FOR_GOOD, word));
    }
}
