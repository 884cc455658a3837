//! What `/proc` knows of a process.

use std::fs;

use anyhow::{Context, bail};

/// Who a process is.
#[derive(Debug)]
pub struct Facts {
    /// When it started, in clock ticks after boot.
    pub started_ticks: u64,
    /// Real, effective, saved and filesystem user.
    pub users: [u32; 4],
    /// Its name, without control characters.
    pub command: String,
    /// Its threads.
    pub threads: usize,
}

impl Facts {
    /// Looks at a process; nothing if it has ended.
    pub fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let users: Vec<u32> =
            field("Uid:")?.split_whitespace().map_while(|user| user.parse().ok()).collect();
        let is_dead = field("State:").is_some_and(|state| state.trim_start().starts_with('Z'));
        let (name, _) = stat.split_once('(')?.1.rsplit_once(')')?;
        (!is_dead).then_some(Facts {
            started_ticks: fields(&stat)?.get(19)?.parse().ok()?,
            users: users.try_into().ok()?,
            // A process chooses its name; it shall not choose what a terminal does.
            command: name.chars().map(|char| if char.is_control() { '?' } else { char }).collect(),
            threads: field("Threads:")?.trim().parse().ok()?,
        })
    }
}

/// How many processes of a name run.
pub fn running(command: &str) -> usize {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| Facts::of(*pid).is_some_and(|facts| facts.command == command)).count()
}

/// The CPU that the busiest thread of a process was last seen on.
pub fn cpu_of(pid: u32) -> anyhow::Result<usize> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .with_context(|| format!("there is no process {pid}"))?;
    let stat = |task: std::io::Result<fs::DirEntry>| {
        fs::read_to_string(task.ok()?.path().join("stat")).ok().as_deref().and_then(place_and_time)
    };
    match tasks.filter_map(stat).max_by_key(|(_, time)| *time) {
        Some((cpu, _)) => Ok(cpu),
        None => bail!("process {pid} has ended"),
    }
}

/// The CPU and the ticks used, from a line of `/proc/PID/task/TID/stat`.
fn place_and_time(stat: &str) -> Option<(usize, u64)> {
    let fields = fields(stat)?;
    let time = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some((fields.get(36)?.parse().ok()?, time(11)? + time(12)?))
}

/// The fields of a `stat` line from the third on. The name before them may hold anything, so that
/// they count from behind its last parenthesis.
fn fields(stat: &str) -> Option<Vec<&str>> {
    Some(stat.rsplit_once(')')?.1.split_whitespace().collect())
}

#[cfg(test)]
mod tests {
    use widelane_meter::place;

    use super::*;

    #[test]
    fn a_thread_is_found_whatever_its_name() {
        let mut fields: Vec<String> = (0..50).map(|field| field.to_string()).collect();
        fields[0] = "S".to_owned();
        let stat = format!("77 (a) b (c) {}", fields.join(" "));
        assert_eq!(place_and_time(&stat), Some((36, 23)));
        assert_eq!(place_and_time("77 (a) S 1 2"), None);
    }

    #[test]
    fn this_process_is_somewhere_and_no_process_is_nowhere() {
        assert!(place::allowed().contains(&cpu_of(std::process::id()).unwrap()));
        assert!(cpu_of(u32::MAX).unwrap_err().to_string().contains("no process"));
    }

    #[test]
    fn this_process_is_known() {
        let facts = Facts::of(std::process::id()).unwrap();
        assert_eq!(facts.users[1], rustix::process::geteuid().as_raw());
        assert!(facts.started_ticks > 0 && facts.threads >= 1);
        assert!(Facts::of(u32::MAX).is_none());
    }
}
