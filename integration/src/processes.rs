//! What a server's processes are and hold, read from `/proc`.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use widelane_host::process::Stat;

/// What a process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holdings {
    /// Number of open descriptors.
    pub descriptors: usize,
    /// Memory that is its own, in KiB.
    pub memory_kib: u64,
}

impl Holdings {
    /// Looks at a process.
    ///
    /// # Errors
    ///
    /// If it has ended or belongs to another user.
    pub fn of(pid: i32) -> Result<Self> {
        let gone = || format!("process {pid} cannot be looked at; did it end?");
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).with_context(gone)?.count();
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).with_context(gone)?;
        let memory_kib = rollup.lines().filter_map(|line| kib(line, "Private_Dirty:")).sum();
        Ok(Holdings { descriptors, memory_kib })
    }
}

/// Memory that a process holds alone and its share of what it holds with others, in KiB.
///
/// # Errors
///
/// If it has ended or belongs to another user.
pub fn proportional_kib(pid: i32) -> Result<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))
        .with_context(|| format!("process {pid} cannot be looked at; did it end?"))?;
    rollup.lines().find_map(|line| kib(line, "Pss:")).context("smaps_rollup without Pss")
}

/// What a process may have at most.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// A number of descriptors.
    Descriptors,
    /// Bytes of address space.
    AddressSpace,
}

impl Limit {
    /// The option of `prlimit`, and the line in `/proc/PID/limits`.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Limit::Descriptors => ("nofile", "Max open files"),
            Limit::AddressSpace => ("as", "Max address space"),
        }
    }
}

/// Sets a limit of a process, and answers what it was before; nothing if the process has ended.
///
/// This is done as the process's own user: for another user's process even root needs a capability
/// that containers withhold.
///
/// # Errors
///
/// If the system does not let us.
pub fn limit(pid: i32, limit: Limit, value: &str) -> Result<Option<String>> {
    let process = Path::new("/proc").join(pid.to_string());
    let word = |file: &str, line: &str| {
        let text = fs::read_to_string(process.join(file)).ok()?;
        let words = text.lines().find_map(|found| found.strip_prefix(line))?;
        Some(words.split_whitespace().next()?.to_owned())
    };
    let number = |line: &str| word("status", line)?.parse().ok();
    let (option, line) = limit.names();
    let (Some(user), Some(group), Some(before)) =
        (number("Uid:"), number("Gid:"), word("limits", line))
    else {
        return Ok(None);
    };
    let output = Command::new("prlimit")
        .uid(user)
        .gid(group)
        .args([format!("--pid={pid}"), format!("--{option}={value}:")])
        .output()
        .context("cannot start prlimit")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success() || living_parent(pid).is_none(),
        "process {pid} cannot be limited: {}",
        said.trim()
    );
    Ok(output.status.success().then_some(before))
}

/// Bytes of addresses that a process has.
///
/// # Errors
///
/// If it has ended.
pub fn address_space(pid: i32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let size =
        status.lines().find_map(|line| kib(line, "VmSize:")).context("status without size")?;
    Ok(1024 * size)
}

/// The living children of a process that are not about to leave, by what they call themselves.
pub fn workers(master: i32) -> Vec<i32> {
    let mut workers = children(master);
    workers.retain(|&pid| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        !String::from_utf8_lossy(&command).contains("shutting down")
    });
    workers
}

/// The living children of a process, oldest first.
pub fn children(parent: i32) -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let mut children: Vec<i32> = pids.filter(|&pid| living_parent(pid) == Some(parent)).collect();
    children.sort_unstable();
    children
}

/// Whether a process waits, which one that is starting does not yet; so does one that has ended.
pub fn sleeps(pid: i32) -> bool {
    stat(pid).is_none_or(|stat| stat.state == 'S')
}

/// The parent of a process that is not a zombie.
fn living_parent(pid: i32) -> Option<i32> {
    stat(pid).filter(|stat| !stat.has_ended()).map(|stat| stat.parent.cast_signed())
}

fn stat(pid: i32) -> Option<Stat> {
    Stat::of(pid.cast_unsigned()).ok()
}

fn kib(line: &str, field: &str) -> Option<u64> {
    line.strip_prefix(field)?.trim().strip_suffix(" kB")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_somebody_else_changes_and_comes_back() -> Result<()> {
        let mut sleeps = Command::new("sleep");
        sleeps.arg("60");
        if nix::unistd::geteuid().is_root() {
            sleeps.uid(NOBODY).gid(NOBODY);
        }
        let mut child = sleeps.spawn()?;
        let pid = child.id() as i32;
        let told = ["20", "30"].map(|value| limit(pid, Limit::Descriptors, value));
        let addresses =
            ["1073741824", "unlimited"].map(|value| limit(pid, Limit::AddressSpace, value));
        child.kill()?;
        child.wait()?;
        let [before, lowered] = told;
        assert!(before?.is_some_and(|before| before.parse::<u64>().is_ok_and(|it| it > 30)));
        assert_eq!(lowered?.as_deref(), Some("20"));
        let [_, lowered] = addresses;
        assert_eq!(lowered?.as_deref(), Some("1073741824"));
        assert_eq!(limit(pid, Limit::Descriptors, "30")?, None, "it has ended");
        Ok(())
    }

    const NOBODY: u32 = 65_534;
}
