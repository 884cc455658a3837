//! Runs test programs side by side, so that one computes while another waits for a server.

use std::cmp::Reverse;
use std::ffi::OsString;
use std::fmt;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::programs::TestProgram;
use crate::test::BUILT;

/// Packages whose tests mostly wait for servers, clients and clocks. The others compute.
const WAITING: [&str; 5] = ["integration", "runtime", "loadgen", "provider", "cli"];

/// Programs that take a minute or more, the longest first: what begins late would run alone.
const LONG: [&str; 11] = [
    "integration/all",
    "runtime/servers",
    "runtime/by_hand",
    "provider/in_process",
    "provider/qat",
    "provider/programs",
    "loadgen/all",
    "crypto/all",
    "crypto/faults",
    "classify/all",
    "bench/all",
];

/// The name of test programs that measure: they run alone, for what runs beside them would have
/// their measurements rejected.
const MEASURING: &str = "measure";

/// How many tests of such a program run at once: half of them wait for the end of a load.
const MEASURING_THREADS: &str = "--test-threads=4";

/// How many seconds a program may take.
const TIME_MAX: &str = "1200";

/// The queues that workers begin with. Two programs that wait leave CPUs to one that computes.
const WORKERS: [usize; 3] = [WAIT, WAIT, COMPUTE];
const WAIT: usize = 0;
const COMPUTE: usize = 1;

/// Runs all programs and shows what those that fail have printed, and when each ended and how long
/// it took. Each worker begins with a queue and helps with the other in the end; then those that
/// measure run one by one. The tests inside a program run on all CPUs, as the test harness has it.
/// All programs get `variables` in their environment.
pub fn run(programs: Vec<TestProgram>, variables: &[(&str, OsString)]) -> Result<()> {
    let began = Instant::now();
    let failed = Mutex::new(Vec::new());
    let run = |program: &TestProgram| Run::new(program, variables, began);
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
    output: Result<Output>,
}

impl Run {
    /// Runs a program as `cargo test` does, given when the first one began.
    fn new(program: &TestProgram, variables: &[(&str, OsString)], all_began: Instant) -> Self {
        let began = Instant::now();
        // One that hangs is ended as by an assertion, so that what it has printed is shown.
        let output = Command::new("timeout")
            .args(["--foreground", "--signal=ABRT", "--kill-after=30", TIME_MAX])
            .arg(&program.path)
            .current_dir(&program.directory)
            .env("CARGO_MANIFEST_DIR", &program.directory)
            .env(BUILT, "yes")
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .args((program.target == MEASURING).then_some(MEASURING_THREADS))
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot start {}", program.path.display()));
        Run { name: program.name(), lasted: began.elapsed(), ended: all_began.elapsed(), output }
    }

    fn succeeded(&self) -> bool {
        self.output.as_ref().is_ok_and(|output| output.status.success())
    }
}

impl fmt::Display for Run {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Ok(output), false) = (&self.output, self.succeeded()) {
            formatter.write_str(&String::from_utf8_lossy(&output.stdout))?;
            formatter.write_str(&String::from_utf8_lossy(&output.stderr))?;
        }
        let [seconds, ended] = [self.lasted, self.ended].map(|time| time.as_secs_f64());
        match &self.output {
            Ok(output) if output.status.success() => {
                writeln!(formatter, "    {}: passed in {seconds:.1} s, at {ended:.0} s", self.name)
            }
            Ok(output) => writeln!(formatter, "    {}: FAILED ({})", self.name, output.status),
            Err(error) => writeln!(formatter, "    {}: FAILED ({error:#})", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(package: &str, path: &str) -> TestProgram {
        let [package, target] = [package, "all"].map(str::to_owned);
        TestProgram { package, target, directory: "/".into(), path: path.into() }
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
    fn every_program_runs_and_those_that_fail_are_named() {
        run(vec![program("a", "/bin/true"), program("b", "/bin/true")], &[]).unwrap();
        let programs = ["/bin/false", "/bin/true", "/nowhere"].map(|path| program("cli", path));
        let error = run(programs.into(), &[]).unwrap_err().to_string();
        assert_eq!(error, "tests fail in cli/all, cli/all");
    }
}
