//! The process between the runner and a test program. It lets nothing of the program live on: no
//! server whose test crashed, no daemon, and nothing at all where the runner is ended, as by
//! Ctrl-C.

use std::ffi::OsString;
use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, getppid, kill_process, set_child_subreaper, wait,
};

/// What `cargo xtask supervise` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// How many seconds the program may take
    seconds: u64,
    /// The program, and what it takes
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Runs a program, and fails where it fails, takes too long, or leaves processes behind.
pub fn run(arguments: &Arguments) -> Result<()> {
    let runner = getppid();
    // What loses its parent becomes a child of this process.
    set_child_subreaper(Some(getpid()))?;
    let mut command = Command::new(&arguments.command[0]);
    command.args(&arguments.command[1..]);
    let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    let ended = wait_for(Pid::from_child(&child), || getppid() == runner, arguments.seconds);
    if ended.is_ok() {
        let end = Instant::now() + GRACE;
        while Instant::now() < end && reap_or_sleep()? {}
    }
    let left = kill_descendants()?;
    let status = ended?;
    match (status.exit_status(), status.terminating_signal()) {
        (Some(0), _) => {}
        (Some(status), _) => bail!("exit status {status}"),
        (_, signal) => bail!("ended by signal {}", signal.unwrap_or_default()),
    }
    ensure!(left.is_empty(), "processes were left behind and killed: {}", left.join(", "));
    Ok(())
}

/// Waits for the end of a child.
fn wait_for(child: Pid, is_wanted: impl Fn() -> bool, seconds: u64) -> Result<WaitStatus> {
    let end = Instant::now() + Duration::from_secs(seconds);
    loop {
        match wait(WaitOptions::NOHANG)? {
            Some((pid, status)) if pid == child => return Ok(status),
            Some(_) => {}
            None => sleep(LOOK),
        }
        ensure!(is_wanted(), "nobody waits for this any more");
        // The test harness has said by now which test takes long.
        ensure!(Instant::now() < end, "it ran for more than {seconds} s and was killed");
    }
}

/// Takes note of a child that has ended, or waits a little; whether there are children still.
fn reap_or_sleep() -> Result<bool> {
    match wait(WaitOptions::NOHANG) {
        Ok(Some(_)) => {}
        Ok(None) => sleep(LOOK),
        Err(rustix::io::Errno::CHILD) => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    Ok(true)
}

/// Kills all descendants of this process; their names.
fn kill_descendants() -> Result<Vec<String>> {
    let mut names = Vec::new();
    let end = Instant::now() + GRACE;
    loop {
        for pid in descendants() {
            let number = pid.as_raw_nonzero();
            let name = fs::read_to_string(format!("/proc/{number}/comm")).unwrap_or_default();
            let name = format!("{} ({number})", name.trim());
            if kill_process(pid, Signal::KILL).is_ok() && !names.contains(&name) {
                names.push(name);
            }
        }
        if !reap_or_sleep()? {
            return Ok(names);
        }
        ensure!(Instant::now() < end, "cannot kill {}", names.join(", "));
    }
}

/// All that this process started, or those did.
fn descendants() -> Vec<Pid> {
    let mut found = vec![getpid()];
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        next += 1;
        let tasks = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()));
        for task in tasks.into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let numbers = children.split_whitespace().filter_map(|child| child.parse().ok());
            found.extend(numbers.filter_map(Pid::from_raw));
        }
    }
    found.split_off(1)
}

/// How long what is about to end may still take: a server that its test has told to.
const GRACE: Duration = Duration::from_secs(10);

const LOOK: Duration = Duration::from_millis(20);
