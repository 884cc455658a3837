//! The kernel's accounting: CPU time of process trees, and how busy the CPUs were.
//!
//! The CPU time of a process comes from its POSIX CPU-time clock: nanoseconds, all threads, no
//! privilege. Where that clock is refused, `/proc/PID/stat` answers in ticks of 10 ms.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::ops::Sub;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;
use thiserror::Error;
use widelane_cpu::topology;
use widelane_host::process::{Stat, ticks};

/// The processes that [`busiest`] names at most, and the CPU time that they use at least.
const BUSIEST_MAX: usize = 3;
const BUSY_CPUS_MIN: f64 = 0.05;

/// Why the CPU time of a process is not known.
#[derive(Debug, Error)]
pub enum AccountingError {
    /// The process is gone.
    #[error("process {0} is gone")]
    Gone(Pid),
    /// The kernel does not tell.
    #[error(
        "the CPU time of process {pid} cannot be read; \
         run as the user that owns the server or as root, and mount /proc without hidepid"
    )]
    Refused {
        /// The process.
        pid: Pid,
        /// What the kernel answered.
        source: io::Error,
    },
    /// A file of `/proc` is not as documented.
    #[error("{path} is not as documented")]
    Malformed {
        /// The file.
        path: String,
    },
    /// A file of `/proc` cannot be read.
    #[error("cannot read {path}; mount /proc")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
}

/// CPU time that process `pid` has used so far, with all its threads.
///
/// # Errors
///
/// See [`AccountingError`].
pub fn process_cpu(pid: Pid) -> Result<Duration, AccountingError> {
    if let Ok(time) = clock_getcpuclockid(pid).and_then(|clock| clock.now()) {
        return Ok(time.into());
    }
    let path = format!("/proc/{pid}/stat");
    match Stat::read(path.as_ref()) {
        Ok(stat) => Ok(stat.used),
        Err(source) if source.kind() == io::ErrorKind::NotFound => {
            Err(if Path::new("/proc/self").exists() {
                AccountingError::Gone(pid)
            } else {
                AccountingError::Unreadable { path, source }
            })
        }
        Err(source) if source.kind() == io::ErrorKind::InvalidData => {
            Err(AccountingError::Malformed { path })
        }
        Err(source) => Err(AccountingError::Refused { pid, source }),
    }
}

/// The CPUs that process `pid` may use; none where the kernel does not tell.
pub fn allowed_cpus(pid: Pid) -> Vec<usize> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.and_then(|list| topology::cpu_list(list.trim())).unwrap_or_default()
}

/// `root` and all its descendants that are alive.
///
/// # Errors
///
/// See [`AccountingError`].
pub fn process_tree(root: Pid) -> Result<BTreeSet<Pid>, AccountingError> {
    let alive = alive()?;
    if !alive.iter().any(|(pid, _)| *pid == root) {
        return Err(AccountingError::Gone(root));
    }
    Ok(descendants(root, &parents(&alive)))
}

/// All processes that are alive.
fn alive() -> Result<Vec<(Pid, Stat)>, AccountingError> {
    let unreadable = |source| AccountingError::Unreadable { path: "/proc".to_owned(), source };
    let mut alive = Vec::new();
    for entry in fs::read_dir("/proc").map_err(unreadable)? {
        let Ok(entry) = entry else { continue };
        let Some(Ok(pid)) = entry.file_name().to_str().map(str::parse::<i32>) else { continue };
        // One that ends meanwhile is not alive any more.
        if let Ok(stat) = Stat::read(&entry.path().join("stat"))
            && !stat.has_ended()
        {
            alive.push((Pid::from_raw(pid), stat));
        }
    }
    Ok(alive)
}

/// A process beside ours.
pub struct Busiest {
    /// Its number.
    pub pid: u32,
    /// Its name, at most 15 bytes.
    pub name: String,
    /// How many CPUs it uses.
    pub cpus: f64,
}

/// The processes that use most CPU time within `window`, which this takes, the busiest first: at
/// most three, and none that uses less than a twentieth of a CPU. Without this process and its
/// descendants, and without what the system does not show.
pub fn busiest(window: Duration) -> Vec<Busiest> {
    let began = Instant::now();
    let before = alive().unwrap_or_default();
    sleep(window);
    let after = alive().unwrap_or_default();
    let seconds = began.elapsed().as_secs_f64();
    let ours = descendants(Pid::this(), &parents(&after));
    let others = after.into_iter().filter(|(pid, _)| !ours.contains(pid));
    let mut busiest: Vec<Busiest> = others
        .map(|(pid, stat)| {
            let then = before.iter().find(|(other, _)| *other == pid);
            let used = stat.used.saturating_sub(then.map_or(stat.used, |(_, stat)| stat.used));
            let pid = pid.as_raw().unsigned_abs();
            Busiest { pid, name: stat.name, cpus: used.as_secs_f64() / seconds }
        })
        .filter(|process| process.cpus >= BUSY_CPUS_MIN)
        .collect();
    busiest.sort_by(|a, b| b.cpus.total_cmp(&a.cpus));
    busiest.truncate(BUSIEST_MAX);
    busiest
}

/// Each process with its parent.
fn parents(alive: &[(Pid, Stat)]) -> Vec<(Pid, Pid)> {
    alive.iter().map(|(pid, stat)| (*pid, Pid::from_raw(stat.parent.cast_signed()))).collect()
}

fn descendants(root: Pid, parents: &[(Pid, Pid)]) -> BTreeSet<Pid> {
    let mut tree = BTreeSet::from([root]);
    loop {
        let before = tree.len();
        tree.extend(
            parents
                .iter()
                .filter(|(_, parent)| tree.contains(parent))
                .map(|(pid, _)| *pid)
                .collect::<Vec<_>>(),
        );
        if tree.len() == before {
            return tree;
        }
    }
}

/// How long some CPUs were not idle since boot.
#[derive(Clone, Copy, Debug, Default)]
pub struct Busy {
    /// In all.
    pub all: Duration,
    /// The part of it in which the hypervisor did not run them.
    pub stolen: Duration,
}

impl Sub for Busy {
    type Output = Busy;

    fn sub(self, before: Busy) -> Busy {
        Busy {
            all: self.all.saturating_sub(before.all),
            stolen: self.stolen.saturating_sub(before.stolen),
        }
    }
}

/// How long the CPUs of each set were not idle since boot; nothing of a set with a CPU that is not
/// listed, as in containers whose `/proc/stat` has numbers of its own.
///
/// # Errors
///
/// See [`AccountingError`].
pub fn busy<const SETS: usize>(
    sets: [&BTreeSet<usize>; SETS],
) -> Result<[Option<Busy>; SETS], AccountingError> {
    let path = "/proc/stat".to_owned();
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(source) => return Err(AccountingError::Unreadable { path, source }),
    };
    let mut told = [None; SETS];
    for (cpus, told) in sets.into_iter().zip(&mut told) {
        match parse_busy(&text, cpus) {
            Some(busy) => {
                *told = busy.map(|[all, stolen]| Busy { all: ticks(all), stolen: ticks(stolen) });
            }
            None => return Err(AccountingError::Malformed { path }),
        }
    }
    Ok(told)
}

/// What is taken from this process on one CPU while it works there.
pub struct Taken {
    cpu: BTreeSet<usize>,
    stolen: Duration,
    throttled: Duration,
}

impl Taken {
    /// Begins to look, on `cpu`.
    pub fn since_now(cpu: usize) -> Self {
        let cpu = BTreeSet::from([cpu]);
        Taken { stolen: Self::stolen(&cpu), throttled: throttled(), cpu }
    }

    /// What the hypervisor has taken since, and CPU limits, each as far as that is told.
    pub fn until_now(&self) -> [Duration; 2] {
        let stolen = Self::stolen(&self.cpu).saturating_sub(self.stolen);
        [stolen, throttled().saturating_sub(self.throttled)]
    }

    fn stolen(cpu: &BTreeSet<usize>) -> Duration {
        busy([cpu]).ok().and_then(|[busy]| busy).map_or(Duration::ZERO, |busy| busy.stolen)
    }
}

/// CPU time of the calling thread.
pub fn thread_cpu() -> Duration {
    ClockId::CLOCK_THREAD_CPUTIME_ID.now().map_or(Duration::ZERO, Duration::from)
}

/// Time for which CPU limits of our control group, and of those around it, have stopped them so
/// far, summed over CPUs; none where the system does not tell.
pub fn throttled() -> Duration {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = groups.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let root = match controllers {
            "" => "/sys/fs/cgroup",
            old if old.split(',').any(|it| it == "cpu") => "/sys/fs/cgroup/cpu",
            _ => return None,
        };
        Some((root, path))
    });
    let of_group = |(root, path): (&str, &str)| -> Duration {
        let path = Path::new(root).join(path.trim_start_matches('/'));
        let around = path.ancestors().take_while(|group| group.starts_with(root));
        let told = around.filter_map(|group| fs::read_to_string(group.join("cpu.stat")).ok());
        told.map(|text| parse_throttled(&text)).sum()
    };
    own.map(of_group).sum()
}

/// The time in a `cpu.stat`: microseconds, or nanoseconds in the first version of control groups.
fn parse_throttled(text: &str) -> Duration {
    let count = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.strip_prefix(' ')?.parse().ok()
    };
    let in_first = count("throttled_time").map(Duration::from_nanos);
    count("throttled_usec").map(Duration::from_micros).or(in_first).unwrap_or_default()
}

/// The resolution of what the kernel counts in ticks.
pub fn tick() -> Duration {
    ticks(1)
}

/// Sums the ticks of `/proc/stat` that are neither idle nor waiting for input, for the given CPUs,
/// and those of them that were stolen; nothing where a CPU is not listed.
fn parse_busy(text: &str, cpus: &BTreeSet<usize>) -> Option<Option<[u64; 2]>> {
    let [mut total, mut stolen] = [0; 2];
    for cpu in cpus {
        let name = format!("cpu{cpu}");
        let Some(line) = text.lines().find(|line| line.split(' ').next() == Some(&name)) else {
            return Some(None);
        };
        let fields: Vec<u64> =
            line.split(' ').skip(1).map(str::parse).collect::<Result<_, _>>().ok()?;
        // user nice system idle iowait irq softirq steal; guest time is part of user.
        let [user, nice, system, _idle, _iowait, irq, softirq, steal] =
            fields.first_chunk::<8>()?;
        total += user + nice + system + irq + softirq + steal;
        stolen += steal;
    }
    Some(Some([total, stolen]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_what_is_not_idle_on_the_cpus_asked_for() {
        let text = "cpu  1 2 3 4 5 6 7 8 0 0\n\
                    cpu0 10 20 30 4000 500 1 2 3 7 0\n\
                    cpu1 100 0 0 4000 500 0 0 0 0 0\n\
                    cpu10 1000 0 0 0 0 0 0 0 0 0\nintr 1 2\n";
        let of = |cpus: &[usize]| parse_busy(text, &cpus.iter().copied().collect());
        assert_eq!(of(&[0]), Some(Some([66, 3])));
        assert_eq!(of(&[0, 1]), Some(Some([166, 3])));
        assert_eq!(of(&[0, 2]), Some(None), "a container lists other numbers");
        assert_eq!(parse_busy("cpu0 1 2\n", &[0].into()), None);
    }

    #[test]
    fn both_versions_of_control_groups_tell_for_how_long_they_were_stopped() {
        let second = "usage_usec 9\nnr_throttled 3\nthrottled_usec 2500\nburst_usec 0\n";
        let first = "nr_periods 7\nnr_throttled 3\nthrottled_time 2500000\n";
        for text in [second, first] {
            assert_eq!(parse_throttled(text), Duration::from_micros(2500), "{text}");
        }
        assert_eq!(parse_throttled("usage_usec 9\n"), Duration::ZERO);
    }

    #[test]
    fn finds_descendants_at_any_depth() {
        let pid = Pid::from_raw;
        let parents = [(pid(9), pid(7)), (pid(7), pid(5)), (pid(5), pid(1)), (pid(6), pid(1))];
        assert_eq!(descendants(pid(5), &parents), BTreeSet::from([pid(5), pid(7), pid(9)]));
    }

    #[test]
    fn knows_this_process() {
        let pid = Pid::this();
        assert!(!process_cpu(pid).unwrap().is_zero());
        assert!(process_tree(pid).unwrap().contains(&pid));
    }

    #[test]
    fn the_busiest_are_not_our_own() {
        let mut own = std::process::Command::new("sh");
        let mut own = own.args(["-c", "while :; do :; done"]).spawn().unwrap();
        let busiest = busiest(Duration::from_millis(200));
        own.kill().unwrap();
        own.wait().unwrap();
        let pids: Vec<u32> = busiest.iter().map(|process| process.pid).collect();
        assert!(!pids.contains(&own.id()) && !pids.contains(&std::process::id()), "{pids:?}");
        assert!(busiest.len() <= BUSIEST_MAX);
        assert!(busiest.iter().all(|process| process.cpus >= BUSY_CPUS_MIN));
        assert!(busiest.is_sorted_by(|a, b| a.cpus >= b.cpus));
    }

    #[test]
    fn names_a_process_that_is_gone() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = Pid::from_raw(child.id() as i32);
        child.wait().unwrap();
        assert!(matches!(process_cpu(pid), Err(AccountingError::Gone(_))));
        assert!(matches!(process_tree(pid), Err(AccountingError::Gone(_))));
    }
}
