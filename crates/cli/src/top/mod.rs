//! `widelane top`: what the accelerated processes do now.

mod screen;
mod view;

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use std::io::IsTerminal;

use widelane_cpu::Machine;

#[cfg(test)]
pub use self::view::tests::process;
use self::view::{Row, View};
use crate::live::{Clocks, Directories, Survey};
use crate::output;

/// Shows what accelerated processes do: operations, batches, waits, instruction sets, clock
///
/// Processes that `widelane run` or `widelane enable` accelerates are seen once they have made a
/// handshake, those of all users whose counters are in /run/widelane. Handshakes with clients are
/// counted where an event loop makes them (epoll); a server that makes them otherwise has
/// operations only. CPU µs is the process's total CPU time divided by its handshakes. In a terminal
/// the view is live (q ends it); else, or with --once or --json, it is one look. The last columns
/// are left out where the terminal has no room for them.
#[derive(clap::Args)]
pub struct Args {
    /// Seconds from one look to the next
    #[arg(long, value_name = "SECONDS", value_parser = crate::units::seconds,
          default_value = "1")]
    interval: Duration,
    /// Looks once, for one interval, and ends
    #[arg(long)]
    once: bool,
    /// Looks once and prints JSON
    #[arg(long)]
    json: bool,
    /// Does not meter the clock, which takes a third of a millisecond of each CPU that a process is
    /// on
    #[arg(long)]
    no_clock: bool,
    /// Directory of counters; by default all in which `widelane run` and `enable` put them
    #[arg(long, value_name = "DIR")]
    counters_dir: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let directories = Directories::asked_or_usual(args.counters_dir.as_deref())?;
    let mut observer = Observer::new(directories, !args.no_clock);
    if args.json || args.once || !std::io::stdout().is_terminal() {
        thread::sleep(args.interval);
        let view = observer.look();
        if args.json {
            output::print_untrusted(&serde_json::to_string_pretty(&view)?)?;
        } else {
            output::print(&view.text(&output::style(), &observer.directories.words()))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    screen::run(&mut observer, args.interval)?;
    Ok(ExitCode::SUCCESS)
}

/// Who looks, and remembers the last look.
struct Observer {
    directories: Directories,
    clocks: Option<Clocks>,
    last: (Instant, Survey),
}

impl Observer {
    fn new(directories: Directories, with_clock: bool) -> Self {
        let clocks = with_clock.then(|| Clocks::new(&Machine::detect()));
        let last = (Instant::now(), Survey::take(&directories));
        Observer { directories, clocks, last }
    }

    /// What happened since the last look.
    fn look(&mut self) -> View {
        let now = (Instant::now(), Survey::take(&self.directories));
        let mut view = View::between(&self.last.1, &now.1, now.0 - self.last.0);
        self.last = now;
        for process in &mut view.processes {
            process.cpu = crate::live::cpu_of(process.pid).ok().flatten();
        }
        if let Some(clocks) = &mut self.clocks {
            set_clocks(&mut view.processes, |cpu| clocks.read(cpu));
        }
        view
    }
}

/// Gives each process the clock of its CPU. Each CPU is metered once: that takes time from its
/// processes.
fn set_clocks(processes: &mut [Row], mut read: impl FnMut(usize) -> Option<f64>) {
    let mut by_cpu = HashMap::new();
    for process in processes {
        let clock_of = |cpu| *by_cpu.entry(cpu).or_insert_with(|| read(cpu));
        process.clock_hz = process.cpu.and_then(clock_of);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_is_metered_once_for_all_its_processes() {
        let processes = (1..=5).map(|pid| view::tests::process(pid, 1)).collect();
        let survey = Survey { processes, ..Survey::default() };
        let mut view = View::between(&Survey::default(), &survey, Duration::from_secs(1));
        let cpus = [Some(1), Some(2), None, Some(1), Some(2)];
        view.processes.iter_mut().zip(cpus).for_each(|(process, cpu)| process.cpu = cpu);
        let mut read = Vec::new();
        set_clocks(&mut view.processes, |cpu| {
            read.push(cpu);
            (cpu == 1).then_some(3e9)
        });
        let clocks: Vec<_> = view.processes.iter().map(|process| process.clock_hz).collect();
        assert_eq!((read, clocks), (vec![1, 2], vec![Some(3e9), None, None, Some(3e9), None]));
    }
}
