//! Hard times for a server while clients come: what a machine does to its programs at its worst.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::{available_parallelism, sleep};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::processes::{Holdings, Limit, address_space, children, limit, workers};
use crate::server::Server;

/// Something that is taken from a server for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hardship {
    /// All its threads share one CPU, as after the others were unplugged.
    OneCpu,
    /// All its processes stand still: to them the clock jumps.
    Stopped,
    /// Its workers get a few more descriptors only.
    Descriptors,
    /// The disk of its counters and of its log is full.
    FullDisk,
    /// Its workers get a little more memory only, less than their clients need.
    Memory,
}

impl Hardship {
    /// All of them.
    pub const ALL: [Hardship; 5] = [
        Hardship::OneCpu,
        Hardship::Stopped,
        Hardship::Descriptors,
        Hardship::FullDisk,
        Hardship::Memory,
    ];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Hardship::OneCpu => "one CPU",
            Hardship::Stopped => "processes stopped",
            Hardship::Descriptors => "few descriptors",
            Hardship::FullDisk => "full disk",
            Hardship::Memory => "little memory",
        }
    }

    /// How long it lasts.
    fn lasts(self) -> Duration {
        match self {
            Hardship::Stopped => Duration::from_millis(1_500),
            _ => Duration::from_secs(3),
        }
    }

    /// Whether it can befall a server: only one with a small disk can have that full.
    pub fn fits(self, server: &Server) -> bool {
        self != Hardship::FullDisk || server.disk().is_some()
    }

    /// Lets it happen from beginning to end.
    ///
    /// # Errors
    ///
    /// If the system does not let us.
    pub fn befall(self, server: &Server) -> Result<()> {
        match self {
            Hardship::OneCpu => {
                self.pin(server, 1)?;
                sleep(self.lasts());
                self.pin(server, available_parallelism()?.get())
            }
            Hardship::Stopped => {
                let all = family(server);
                for (signal, lasts) in
                    [(Signal::SIGSTOP, self.lasts()), (Signal::SIGCONT, Duration::ZERO)]
                {
                    for &pid in &all {
                        // A process that has ended stands still anyway.
                        let _ = kill(Pid::from_raw(pid), signal);
                    }
                    sleep(lasts);
                }
                Ok(())
            }
            Hardship::Descriptors => self.limit(server, Limit::Descriptors, |pid| {
                Ok(Holdings::of(pid)?.descriptors as u64 + DESCRIPTORS_LEFT)
            }),
            Hardship::Memory => {
                self.limit(server, Limit::AddressSpace, |pid| Ok(address_space(pid)? + BYTES_LEFT))
            }
            Hardship::FullDisk => {
                let filled = server.disk().context("a server with a small disk")?.fill()?;
                sleep(self.lasts());
                filled.take_away()
            }
        }
    }

    /// Gives all threads the first CPUs.
    fn pin(self, server: &Server, cpus: usize) -> Result<()> {
        let mut set = CpuSet::new();
        (0..cpus).try_for_each(|cpu| set.set(cpu))?;
        for pid in family(server) {
            let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
            for task in tasks.flatten() {
                let Some(Ok(id)) = task.file_name().to_str().map(str::parse) else { continue };
                // A thread that has ended needs no CPU.
                let _ = sched_setaffinity(Pid::from_raw(id), &set);
            }
        }
        Ok(())
    }

    /// Lowers a limit of all workers, and gives those that still live the old one back.
    fn limit(self, server: &Server, what: Limit, low: impl Fn(i32) -> Result<u64>) -> Result<()> {
        let mut before = Vec::new();
        for pid in workers(server.master()) {
            // One that has ended needs no limit.
            let Ok(low) = low(pid) else { continue };
            before.extend(limit(pid, what, &low.to_string())?.map(|value| (pid, value)));
        }
        sleep(self.lasts());
        for (pid, value) in before {
            limit(pid, what, &value)?;
        }
        Ok(())
    }
}

/// All processes of a server.
fn family(server: &Server) -> Vec<i32> {
    [server.master()].into_iter().chain(children(server.master())).collect()
}

/// A small disk in memory, mounted while this lives.
pub struct Disk(PathBuf);

impl Disk {
    /// Mounts a disk that everybody may write to; none where we may not mount.
    ///
    /// # Errors
    ///
    /// If `mount` cannot be started.
    pub fn mount(at: &Path) -> Result<Option<Self>> {
        let options = "size=4m,mode=1777";
        let output = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "none"])
            .arg(at)
            .output()
            .context("cannot start mount")?;
        if !output.status.success() {
            eprintln!("no small disk: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(output.status.success().then(|| Disk(at.to_owned())))
    }

    /// The log on it, which grows with every client that hangs up.
    pub fn log(&self) -> PathBuf {
        self.0.join("info.log")
    }

    /// Fills it to the last byte.
    fn fill(&self) -> Result<Filled<'_>> {
        let path = self.0.join("filler");
        let full = fs::write(&path, vec![0; 8 << 20]);
        ensure!(full.is_err(), "{} holds more than it should", self.0.display());
        Ok(Filled { disk: self, path })
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Processes that end right now may still have files open on it.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// A disk that is full.
struct Filled<'a> {
    disk: &'a Disk,
    path: PathBuf,
}

impl Filled<'_> {
    /// Makes room again.
    fn take_away(self) -> Result<()> {
        fs::remove_file(&self.path)?;
        // The server appends to it, so it goes on from the beginning.
        if self.disk.log().exists() {
            fs::File::options().write(true).open(self.disk.log())?.set_len(0)?;
        }
        Ok(())
    }
}

/// Descriptors that workers may still open.
const DESCRIPTORS_LEFT: u64 = 8;

/// Bytes of addresses that a worker whose memory is short may have beyond those it has.
pub const BYTES_LEFT: u64 = 400 << 10;
