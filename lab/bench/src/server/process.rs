//! A server's processes: started pinned and tied to ours, ended as a whole.
//!
//! No server outlives the process that started it: each has a process group of its own that is
//! ended on drop, and the kernel ends it if we are killed. (The kernel acts when the *thread* that
//! started the server ends, so servers are started from a thread that stays.)
#![allow(unsafe_code, reason = "pre_exec runs code between fork and exec")]

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{Pid, getppid};

use super::{READY_PATIENCE, ServerError};

/// How long a server may take to end by itself before it is killed.
const PATIENCE: Duration = Duration::from_secs(3);

/// Lines of a server's log that an error quotes.
const LOG_LINES: usize = 12;

/// Why a server is not ready.
#[derive(Debug, thiserror::Error)]
pub enum NotReady {
    /// It has ended.
    #[error("it ended at once ({0})")]
    Ended(ExitStatus),
    /// It runs, and does not listen.
    #[error("it does not listen")]
    Deaf,
}

/// A running server with all its processes.
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command` in a process group of its own, pinned to `cpus` if there are any; its
    /// output goes to `log`.
    ///
    /// # Errors
    ///
    /// Those of the operating system.
    pub fn start(mut command: Command, cpus: &[usize], log: PathBuf) -> io::Result<Self> {
        let output = File::create(&log)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).process_group(0);
        let mut allowed = CpuSet::new();
        cpus.iter().try_for_each(|cpu| allowed.set(*cpu))?;
        let allowed = (!cpus.is_empty()).then_some(allowed);
        let parent = Pid::this();
        let prepare = move || {
            // nginx and HAProxy take SIGTERM as "end at once, workers included".
            set_pdeathsig(Signal::SIGTERM)?;
            if getppid() != parent {
                return Err(io::Error::other("the parent ended"));
            }
            if let Some(set) = &allowed {
                sched_setaffinity(Pid::from_raw(0), set)?;
            }
            Ok(())
        };
        // SAFETY: `prepare` makes three system calls on data made before the fork; nothing in it
        // allocates or locks unless it fails, and then the child only reports and exits.
        unsafe { command.pre_exec(prepare) };
        Ok(Process { child: command.spawn()?, log })
    }

    /// The first process of the server.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Waits until the server that is called `server` listens at `place`.
    ///
    /// # Errors
    ///
    /// [`ServerError::NotStarted`] where it ends before, [`ServerError::NotReady`] where it takes
    /// too long.
    pub(super) fn wait_to_listen(
        &mut self,
        server: &str,
        place: impl fmt::Display,
        listens: impl Fn() -> bool,
    ) -> Result<(), ServerError> {
        self.wait_until(READY_PATIENCE, listens).map_err(|error| {
            let (server, place, log) = (server.to_owned(), place.to_string(), self.log());
            match error {
                NotReady::Ended(status) => ServerError::NotStarted { server, status, log },
                NotReady::Deaf => ServerError::NotReady { server, place, log },
            }
        })
    }

    /// The exit status, if the server has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits until the server is ready.
    ///
    /// # Errors
    ///
    /// If it ends, or takes too long.
    pub fn wait_until(
        &mut self,
        patience: Duration,
        is_ready: impl Fn() -> bool,
    ) -> Result<(), NotReady> {
        let end = Instant::now() + patience;
        loop {
            // First: where it listens, another server may answer.
            if let Some(status) = self.ended() {
                return Err(NotReady::Ended(status));
            }
            if is_ready() {
                return Ok(());
            }
            if Instant::now() >= end {
                return Err(NotReady::Deaf);
            }
            sleep(Duration::from_millis(10));
        }
    }

    /// The last lines that the server wrote.
    pub fn log(&self) -> String {
        last_lines(&self.log)
    }

    fn has_ended(&self) -> bool {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        !matches!(waitid(Id::Pid(self.pid()), flags), Ok(WaitStatus::StillAlive))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let group = self.pid();
        let _ = killpg(group, Signal::SIGTERM);
        let end = Instant::now() + PATIENCE;
        while !self.has_ended() && Instant::now() < end {
            sleep(Duration::from_millis(5));
        }
        // Before the first process is reaped its number cannot be another group's.
        let _ = killpg(group, Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

/// The last lines of a log file, or a remark that there are none.
pub fn last_lines(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.is_empty() {
        return "(it wrote nothing)".to_owned();
    }
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(script: &str, directory: &Path) -> Process {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        Process::start(command, &[], directory.join("log")).unwrap()
    }

    fn wait_for_line(process: &Process) -> i32 {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            if let Ok(pid) = process.log().trim().parse() {
                return pid;
            }
            assert!(Instant::now() < end, "no line: {}", process.log());
            sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn dropping_ends_grandchildren_too() {
        let directory = tempfile::tempdir().unwrap();
        let process = start("trap '' TERM; sleep 600 & echo $!; exec sleep 601", directory.path());
        let grandchild = Pid::from_raw(wait_for_line(&process));
        assert!(nix::sys::signal::kill(grandchild, None).is_ok());
        drop(process);
        let end = Instant::now() + Duration::from_secs(10);
        while alive(grandchild) {
            assert!(Instant::now() < end, "{grandchild} still lives");
            sleep(Duration::from_millis(5));
        }
    }

    /// Whether a process lives; one that waits for its new parent to reap it does not.
    fn alive(pid: Pid) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    }

    #[test]
    fn tells_how_a_process_ended_and_what_it_said() {
        let directory = tempfile::tempdir().unwrap();
        let mut process = start("echo cannot; exit 3", directory.path());
        let waited = process.wait_until(Duration::from_secs(10), || false);
        assert!(matches!(waited, Err(NotReady::Ended(status)) if status.code() == Some(3)));
        assert_eq!(process.log(), "cannot");
    }

    #[test]
    fn tells_that_a_process_is_not_ready_in_time() {
        let directory = tempfile::tempdir().unwrap();
        let mut process = start("exec sleep 600", directory.path());
        let waited = process.wait_until(Duration::from_millis(20), || false);
        assert!(matches!(waited, Err(NotReady::Deaf)));
        process.wait_until(Duration::ZERO, || true).unwrap();
    }
}
