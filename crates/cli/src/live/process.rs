//! What `/proc` knows of a process.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use widelane_host::process::Stat;

/// Who a process is.
#[derive(Debug)]
pub struct Facts {
    /// When it started, in clock ticks after boot.
    pub started_ticks: u64,
    /// The CPU time that its threads have used, those that have ended included.
    pub cpu: Duration,
    /// Real, effective, saved and filesystem user.
    pub users: [u32; 4],
    /// Its name, without control characters.
    pub command: String,
    /// Its threads.
    pub threads: usize,
}

/// Why nothing is known of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// There is none, or only its exit status is left.
    Ended,
    /// There is one, and `/proc` does not show it to this user.
    Hidden,
}

impl Facts {
    /// Looks at a process.
    pub fn of(pid: u32) -> Result<Self, Unknown> {
        let (Ok(stat), Ok(status)) = (Stat::of(pid), text(pid, "status")) else {
            return Err(if exists(pid) { Unknown::Hidden } else { Unknown::Ended });
        };
        Facts::from(&stat, &status).ok_or(Unknown::Ended)
    }

    fn from(stat: &Stat, status: &str) -> Option<Self> {
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let users: Vec<u32> =
            field("Uid:")?.split_whitespace().map_while(|user| user.parse().ok()).collect();
        let visible = |char: char| if char.is_control() { '?' } else { char };
        (!stat.has_ended()).then_some(Facts {
            started_ticks: stat.started_ticks,
            cpu: stat.used,
            users: users.try_into().ok()?,
            // A process chooses its name; it shall not choose what a terminal does.
            command: stat.name.chars().map(visible).collect(),
            threads: field("Threads:")?.trim().parse().ok()?,
        })
    }
}

/// One of the files that `/proc` has of a process. Programs name themselves, their files and their
/// control groups by any bytes.
fn text(pid: u32, file: &str) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/{file}"))?).into_owned())
}

/// Whether there is a process, whoever may look at it.
fn exists(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// The name of a living process's program, without control characters.
pub fn command_of(pid: u32) -> Option<String> {
    Facts::of(pid).ok().map(|facts| facts.command)
}

/// The control groups of a process, as `/proc` tells them.
pub fn control_group(pid: u32) -> Option<String> {
    text(pid, "cgroup").ok()
}

/// Whether `/proc` shows this user no processes of others.
pub fn are_others_hidden() -> bool {
    Facts::of(1).err() == Some(Unknown::Hidden)
}

/// The processes of a service of systemd: those in its control group. Where systemd does not run,
/// those of its program's name.
pub fn of_service(service: &str, program: Option<&OsStr>) -> Vec<u32> {
    let is_of_it = |pid: &u32| match Path::new("/run/systemd/system").exists() {
        true => text(*pid, "cgroup").is_ok_and(|groups| is_in_unit(&groups, service)),
        false => program.is_some_and(|program| is_named(*pid, program)),
    };
    all().filter(is_of_it).collect()
}

/// The processes that `/proc` shows.
pub fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Bytes of a program's name that the kernel keeps.
pub const NAME_BYTES: usize = 15;

/// Whether a living process has the name of a program.
fn is_named(pid: u32, program: &OsStr) -> bool {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    let program = program.as_bytes();
    name.strip_suffix(b"\n") == Some(&program[..program.len().min(NAME_BYTES)])
        && Facts::of(pid).is_ok()
}

/// Whether a process is in the control group of a service, by its file `cgroup`. A template stands
/// for all its instances. The units of a container lie below a group that is no slice: the unit or
/// the name that the container has for us.
pub fn is_in_unit(groups: &str, service: &str) -> bool {
    let is_of_it = |part: &str| match part.strip_suffix(".service") {
        Some(unit) if service.ends_with('@') => unit.starts_with(service),
        unit => unit == Some(service),
    };
    // Whoever has another root of control groups sees those of others by `..`.
    let is_above_units = |part: &str| part.is_empty() || part == ".." || part.ends_with(".slice");
    let units = groups
        .lines()
        // Names of units may have colons.
        .filter_map(|line| {
            line.splitn(3, ':').nth(2)?.split('/').find(|part| !is_above_units(part))
        });
    units.into_iter().any(is_of_it)
}

/// Whether a process has loaded a library of this file name; nothing if we may not know.
pub fn has_loaded(pid: u32, library: &str) -> Option<bool> {
    Some(mapped_files(pid)?.iter().any(|path| path.file_name() == Some(OsStr::new(library))))
}

/// The files that a process has mapped; nothing if we may not know.
pub fn mapped_files(pid: u32) -> Option<BTreeSet<PathBuf>> {
    let maps = text(pid, "maps").ok()?;
    // The kernel adds a word where the file was replaced or removed meanwhile.
    let path = |line: &str| {
        line.find('/').map(|at| PathBuf::from(line[at..].trim_end_matches(" (deleted)")))
    };
    Some(maps.lines().filter_map(path).collect())
}

/// The CPU that the busiest thread of a process was last seen on; nothing where there is no such
/// process, or it has ended.
///
/// # Errors
///
/// Where the process is hidden from this user.
pub fn cpu_of(pid: u32) -> anyhow::Result<Option<usize>> {
    let tasks = match fs::read_dir(format!("/proc/{pid}/task")) {
        Ok(tasks) => tasks,
        Err(_) if !exists(pid) => return Ok(None),
        Err(error) => {
            let hidden = "is hidden from this user (hidepid); run this as root";
            return Err(error).with_context(|| format!("process {pid} {hidden}"));
        }
    };
    let stat = |task: io::Result<fs::DirEntry>| Stat::read(&task.ok()?.path().join("stat")).ok();
    Ok(busiest(tasks.filter_map(stat)).map(|thread| thread.cpu))
}

/// The thread that has used the most CPU time of those that have not ended.
fn busiest(threads: impl Iterator<Item = Stat>) -> Option<Stat> {
    threads.filter(|thread| !thread.has_ended()).max_by_key(|thread| thread.used)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use widelane_meter::place;
    use widelane_testkit::program::install;

    use super::*;

    #[test]
    fn a_thread_that_has_ended_is_not_the_busiest() {
        let of = |state, ticks| Stat {
            name: "nginx".to_owned(),
            state,
            parent: 1,
            started_ticks: 0,
            used: Duration::from_millis(ticks),
            cpu: 3,
        };
        let found = busiest([of('S', 2), of('Z', 9), of('S', 1)].into_iter());
        assert_eq!(found, Some(of('S', 2)));
        assert_eq!(busiest([of('X', 9)].into_iter()), None);
    }

    #[test]
    fn this_process_is_somewhere_and_no_process_is_nowhere() {
        assert!(place::allowed().contains(&cpu_of(std::process::id()).unwrap().unwrap()));
        assert_eq!(cpu_of(u32::MAX).unwrap(), None);
    }

    #[test]
    fn a_process_of_a_service_is_told_by_its_control_group() {
        let unit = "apache2";
        assert!(is_in_unit("0::/system.slice/apache2.service\n", unit));
        assert!(is_in_unit("0::/../../system.slice/apache2.service\n", unit));
        assert!(is_in_unit("1:name=systemd:/system.slice/apache2.service/sub\n0::/\n", unit));
        assert!(is_in_unit("0::/system.slice/web:1.service\n", "web:1"));
        for other in ["", "0::/", "0::/system.slice/xapache2.service", "0::/apache2.service.d"] {
            assert!(!is_in_unit(other, unit), "{other}");
        }
        for contained in ["docker.service/1f", "docker-1f.scope", "systemd-nspawn@a.service"] {
            let groups = format!("0::/system.slice/{contained}/system.slice/apache2.service\n");
            assert!(!is_in_unit(&groups, unit), "{groups}");
        }
        // Those of LXC, and of Docker without systemd, are named otherwise.
        for contained in ["lxc.payload.web", "docker/1f"] {
            let groups = format!("0::/{contained}/system.slice/apache2.service\n");
            assert!(!is_in_unit(&groups, unit), "{groups}");
        }
        let instance = "0::/system.slice/system-haproxy.slice/haproxy@web.service\n";
        assert!(is_in_unit(instance, "haproxy@") && is_in_unit(instance, "haproxy@web"));
        assert!(!is_in_unit(instance, "haproxy") && !is_in_unit(instance, "haproxy@we"));
    }

    #[test]
    fn a_process_is_known_by_what_the_kernel_keeps_of_its_name() {
        let place = tempfile::tempdir().unwrap();
        let own_name = OsStr::from_bytes(b"\xff-with-a-long-name");
        for (name, other) in
            [(own_name, "\u{fffd}-with-a-long-name"), ("sleeper".as_ref(), "sleep")]
        {
            let program = place.path().join(name);
            install(Path::new("/bin/sleep"), &program);
            let mut child = Command::new(&program).arg0("sleep").arg("60").spawn().unwrap();
            let (pid, facts) = (child.id(), Facts::of(child.id()));
            let found = (is_named(pid, name), is_named(pid, other.as_ref()));
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(found, (true, false), "{name:?}");
            assert!(facts.is_ok(), "{name:?}");
            assert_eq!(Facts::of(pid).unwrap_err(), Unknown::Ended);
        }
    }

    #[test]
    fn a_process_that_cannot_be_looked_at_still_exists() {
        assert!(exists(std::process::id()) && exists(1));
        assert!(!exists(u32::MAX) && !exists(4_194_305));
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
        assert_eq!(Facts::of(u32::MAX).unwrap_err(), Unknown::Ended);
    }
}
