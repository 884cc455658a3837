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

/// The processes of a service of systemd: those in its control group, or those of its program's
/// name where it has none, as without systemd.
pub fn of_service(service: &str, program: Option<&str>) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let unit = format!("{service}.service");
    let groups = |pid: u32| fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let in_unit: Vec<u32> =
        pids.iter().copied().filter(|pid| is_in_unit(&groups(*pid), &unit)).collect();
    if !in_unit.is_empty() {
        return in_unit;
    }
    let is_named = |pid: &u32| Facts::of(*pid).is_some_and(|it| Some(&*it.command) == program);
    pids.into_iter().filter(is_named).collect()
}

/// Whether a process is in the control group of a unit, by its file `cgroup`.
fn is_in_unit(groups: &str, unit: &str) -> bool {
    groups.lines().any(|line| {
        line.rsplit(':').next().is_some_and(|it| it.split('/').any(|part| part == unit))
    })
}

/// Whether a process has loaded a library of this file name; nothing if we may not know.
pub fn has_loaded(pid: u32, library: &str) -> Option<bool> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    // The kernel adds a word where the file was replaced or removed meanwhile.
    let is_it = |line: &str| {
        let path = line.trim_end_matches(" (deleted)");
        path.rsplit_once('/').is_some_and(|(_, name)| name == library)
    };
    Some(maps.lines().any(is_it))
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
    fn a_process_of_a_service_is_told_by_its_control_group() {
        let unit = "apache2.service";
        assert!(is_in_unit("0::/system.slice/apache2.service\n", unit));
        assert!(is_in_unit("1:name=systemd:/system.slice/apache2.service/sub\n0::/\n", unit));
        for other in ["", "0::/", "0::/system.slice/xapache2.service", "0::/apache2.service.d"] {
            assert!(!is_in_unit(other, unit), "{other}");
        }
    }

    #[test]
    fn what_this_process_has_loaded_is_known() {
        let own = std::env::current_exe().unwrap();
        let name = own.file_name().unwrap().to_str().unwrap();
        assert_eq!(has_loaded(std::process::id(), name), Some(true));
        assert_eq!(has_loaded(std::process::id(), "no-such-library.so"), Some(false));
        assert_eq!(has_loaded(u32::MAX, name), None);
    }

    #[test]
    fn this_process_is_known() {
        let facts = Facts::of(std::process::id()).unwrap();
        assert_eq!(facts.users[1], rustix::process::geteuid().as_raw());
        assert!(facts.started_ticks > 0 && facts.threads >= 1);
        assert!(Facts::of(u32::MAX).is_none());
    }
}
