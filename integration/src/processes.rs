//! What a server's processes are and hold, read from `/proc`.

use std::fs;

use anyhow::{Context, Result};

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
    /// If it has ended or belongs to somebody else.
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
/// If it has ended or belongs to somebody else.
pub fn proportional_kib(pid: i32) -> Result<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))
        .with_context(|| format!("process {pid} cannot be looked at; did it end?"))?;
    rollup.lines().find_map(|line| kib(line, "Pss:")).context("smaps_rollup without Pss")
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

/// The parent of a process that is not a zombie.
fn living_parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    if state == "Z" { None } else { fields.next()?.parse().ok() }
}

fn kib(line: &str, field: &str) -> Option<u64> {
    line.strip_prefix(field)?.trim().strip_suffix(" kB")?.parse().ok()
}
