//! Runs test programs side by side, so that one computes while another waits for a server.

use std::cmp::Reverse;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::programs::TestProgram;
use crate::test::BUILT;

/// Packages whose tests mostly wait for servers, clients and clocks. The others compute.
const WAITING: [&str; 6] = ["integration", "runtime", "loadgen", "provider", "cli", "lab"];

/// Programs that take half a minute or more, the longest first: what begins late would run alone.
const LONG: [&str; 12] = [
    "runtime/servers",
    "integration/all",
    "loadgen/all",
    "provider/in_process",
    "provider/qat",
    "provider/programs",
    "lab/all",
    "runtime/by_hand",
    "crypto/all",
    "crypto/faults",
    "classify/all",
    "bench/all",
];

/// The name of test programs that measure: they run alone, for what runs beside them would have
/// their measurements rejected.
pub const MEASURING: &str = "measure";

/// Programs in which more tests run at once than there may be CPUs: they wait for the end of a load
/// or of a measurement.
const MORE_THREADS: [&str; 3] = ["loadgen/all", "lab/all", "lab/measure"];
const THREADS: &str = "--test-threads=4";

/// How many seconds a program may take.
const TIME_MAX: &str = "1200";

/// What runs a program: this one, though a build may have put another in its place since.
const SUPERVISED: [&str; 3] = ["/proc/self/exe", "supervise", TIME_MAX];

/// The queues that workers begin with. Two programs that wait leave CPUs to one that computes.
const WORKERS: [usize; 3] = [WAIT, WAIT, COMPUTE];
const WAIT: usize = 0;
const COMPUTE: usize = 1;

/// What all programs get.
#[derive(Default)]
pub struct Terms<'a> {
    /// In their environment.
    pub variables: &'a [(&'a str, OsString)],
    /// As arguments.
    pub arguments: &'a [&'a str],
}

/// Runs all programs and shows what those that fail have printed, and when each ended and how long
/// it took. Each worker begins with a queue and helps with the other in the end; then those that
/// measure run one by one. The tests inside a program run on all CPUs, as the test harness has it.
pub fn run(programs: Vec<TestProgram>, terms: &Terms<'_>) -> Result<()> {
    run_by(&SUPERVISED, programs, terms)
}

fn run_by(supervisor: &[&str], programs: Vec<TestProgram>, terms: &Terms<'_>) -> Result<()> {
    let began = Instant::now();
    let failed = Mutex::new(Vec::new());
    let run = |program: &TestProgram| Run::new(supervisor, program, terms, began);
    let (measuring, others): (Vec<_>, Vec<_>) =
        programs.into_iter().partition(|program| program.target == MEASURING);
    run_queues(queues(others).map(Mutex::new), &WORKERS, &run, &failed);
    run_queues([Mutex::new(measuring)], &[0], &run, &failed);
    let failed = failed.into_inner().expect("no worker panics");
    ensure!(failed.is_empty(), "tests fail in {}", failed.join(", "));
    Ok(())
}

/// Runs the programs of all queues by workers that begin with some of them, and adds the names of
/// those that fail.
fn run_queues<const QUEUES: usize>(
    queues: [Mutex<Vec<TestProgram>>; QUEUES],
    workers: &[usize],
    run: &(impl Fn(&TestProgram) -> Run + Sync),
    failed: &Mutex<Vec<String>>,
) {
    thread::scope(|scope| {
        for &own in workers {
            let queues = &queues;
            scope.spawn(move || {
                while let Some(program) = next(queues, own) {
                    let run = run(&program);
                    // One write: another program may end at the same time.
                    eprint!("{run}");
                    if !run.succeeded() {
                        failed.lock().expect("no worker panics").push(run.name);
                    }
                }
            });
        }
    });
}

/// Programs that wait and those that compute, each in the order of [`LONG`]. The next one is last.
fn queues(mut programs: Vec<TestProgram>) -> [Vec<TestProgram>; 2] {
    let rank = |program: &TestProgram| LONG.iter().position(|name| *name == program.name());
    programs.sort_by_key(|program| Reverse(rank(program).unwrap_or(LONG.len())));
    let waits = |program: &TestProgram| WAITING.contains(&program.package.as_str());
    let (waiting, computing) = programs.into_iter().partition(waits);
    [waiting, computing]
}

/// The next program for a worker: of its own queue, or where that is empty of another.
fn next(queues: &[Mutex<Vec<TestProgram>>], own: usize) -> Option<TestProgram> {
    let pop = |queue: &Mutex<Vec<_>>| queue.lock().expect("no worker panics").pop();
    pop(&queues[own]).or_else(|| queues.iter().find_map(pop))
}

/// A program that has run.
struct Run {
    name: String,
    lasted: Duration,
    /// How long after all programs began it ended.
    ended: Duration,
    outcome: Result<Outcome>,
}

/// What became of it.
struct Outcome {
    status: ExitStatus,
    /// CPU time of the program and all that it started.
    used: Duration,
    said: Vec<u8>,
}

impl Run {
    /// Runs a program as `cargo test` does, given when the first one began.
    fn new(
        supervisor: &[&str],
        program: &TestProgram,
        terms: &Terms<'_>,
        all_began: Instant,
    ) -> Self {
        let (began, name) = (Instant::now(), program.name());
        let mut command = Command::new(supervisor[0]);
        command
            .args(&supervisor[1..])
            .arg(&program.path)
            .args(MORE_THREADS.contains(&name.as_str()).then_some(THREADS))
            .args(terms.arguments)
            .current_dir(&program.directory)
            .env("CARGO_MANIFEST_DIR", &program.directory)
            .env(BUILT, "yes")
            .envs(terms.variables.iter().map(|(name, value)| (name, value)));
        let outcome =
            outcome(&mut command).with_context(|| format!("cannot run {}", program.path.display()));
        Run { name, lasted: began.elapsed(), ended: all_began.elapsed(), outcome }
    }

    fn succeeded(&self) -> bool {
        self.outcome.as_ref().is_ok_and(|outcome| outcome.status.success())
    }
}

/// Runs a command to its end. What it prints goes to memory: of a pipe, whatever it leaves behind
/// would keep the other end. In a process group of its own it outlives a Ctrl-C for as long as it
/// takes to clean up.
fn outcome(command: &mut Command) -> Result<Outcome> {
    let mut output = File::from(memfd_create("output", MemfdFlags::CLOEXEC)?);
    command.process_group(0).stdin(Stdio::null());
    let mut child = command.stdout(output.try_clone()?).stderr(output.try_clone()?).spawn()?;
    let pid = Pid::from_child(&child);
    // Before it is reaped, what it used can be read.
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()))?;
    let status = child.wait()?;
    let mut said = Vec::new();
    output.rewind()?;
    output.read_to_end(&mut said)?;
    Ok(Outcome { status, used: used_by_children(&stat), said })
}

/// The CPU time of what a process has waited for: fields 16 and 17 of its `stat`, in hundredths of
/// a second.
fn used_by_children(stat: &str) -> Duration {
    let (_, behind_name) = stat.rsplit_once(") ").unwrap_or_default();
    let fields = behind_name.split(' ').skip(13).take(2);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * ticks)
}

impl fmt::Display for Run {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Run { name, .. } = self;
        let [seconds, ended] = [self.lasted, self.ended].map(|time| time.as_secs_f64());
        match &self.outcome {
            Ok(Outcome { status, used, .. }) if status.success() => {
                let used = used.as_secs_f64();
                writeln!(
                    formatter,
                    "    {name}: passed in {seconds:.1} s ({used:.1} s of CPU), at {ended:.0} s"
                )
            }
            Ok(Outcome { status, said, .. }) => {
                formatter.write_str(&String::from_utf8_lossy(said))?;
                writeln!(formatter, "    {name}: FAILED ({status})")
            }
            Err(error) => writeln!(formatter, "    {name}: FAILED ({error:#})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::workspace::{Package, Workspace};

    fn program(package: &str, path: &str) -> TestProgram {
        let [package, target] = [package, "all"].map(str::to_owned);
        TestProgram { package, target, is_checked: false, directory: "/".into(), path: path.into() }
    }

    #[test]
    fn a_worker_begins_with_its_own_queue_and_helps_the_other() {
        let names = ["crypto", "cli", "loadgen", "integration", "batch"];
        let queues = queues(names.map(|name| program(name, "")).into()).map(Mutex::new);
        let order: Vec<_> =
            std::iter::from_fn(|| next(&queues, 0)).map(|program| program.package).collect();
        assert_eq!(order, ["integration", "loadgen", "cli", "crypto", "batch"]);
    }

    #[test]
    fn every_name_in_a_list_is_that_of_a_package_or_a_program() {
        let packages = Workspace::find().unwrap().packages;
        let package = |name: &str| packages.iter().find(|package| package.name == name);
        for name in WAITING {
            assert!(package(name).is_some(), "{name}");
        }
        for name in LONG.iter().chain(&MORE_THREADS) {
            let (of, target) = name.split_once('/').unwrap();
            let roots = [format!("tests/{target}/main.rs"), format!("tests/{target}.rs")];
            let is_it = |root: &PathBuf| roots.iter().any(|end| root.ends_with(end));
            let has = |package: &Package| package.roots.iter().any(is_it);
            assert!(package(of).is_some_and(has), "{name}");
        }
    }

    #[test]
    fn every_program_runs_and_those_that_fail_are_named() {
        let run = |programs: &[(&str, &str)]| {
            let programs = programs.iter().map(|(package, path)| program(package, path));
            run_by(&["env"], programs.collect(), &Terms::default())
        };
        run(&[("a", "/bin/true"), ("b", "/bin/true")]).unwrap();
        let error = run(&[("cli", "/bin/false"), ("a", "/bin/true"), ("lab", "/nowhere")]);
        let error = error.unwrap_err().to_string();
        let names = ["tests fail in cli/all, lab/all", "tests fail in lab/all, cli/all"];
        assert!(names.contains(&error.as_str()), "{error}");
    }

    #[test]
    fn what_a_program_said_and_used_is_told() {
        let mut command = Command::new("sh");
        let turns = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        command.args(["-c", &format!("echo one; sh -c '{turns}'; echo two >&2; exit 1")]);
        let outcome = outcome(&mut command).unwrap();
        assert_eq!(String::from_utf8(outcome.said).unwrap(), "one\ntwo\n");
        assert_eq!(outcome.status.code(), Some(1));
        assert!(outcome.used > Duration::ZERO);
    }
}
