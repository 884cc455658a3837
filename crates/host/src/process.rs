//! What the kernel tells of a process, or of one of its threads, in the file `stat`.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::param::clock_ticks_per_second;

/// A process, or a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its name, which it chooses: it may hold anything.
    pub name: String,
    /// What it does, by the kernel's letter: `R` for running, `S` for sleeping.
    pub state: char,
    /// The number of its parent.
    pub parent: u32,
    /// When it started, in clock ticks after boot.
    pub started_ticks: u64,
    /// The CPU time that it has used; of a process with that of its threads, those that have ended
    /// included.
    pub used: Duration,
    /// The CPU that it was last seen on.
    pub cpu: usize,
}

impl Stat {
    /// Reads the file `stat` of the process `pid`.
    ///
    /// # Errors
    ///
    /// There is no such process, or `/proc` does not show it to this user.
    pub fn of(pid: u32) -> io::Result<Self> {
        Self::read(format!("/proc/{pid}/stat").as_ref())
    }

    /// Reads a file in the format of `/proc/PID/stat`.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is of another form.
    pub fn read(path: &Path) -> io::Result<Self> {
        let text = fs::read(path)?;
        let malformed = || io::Error::new(io::ErrorKind::InvalidData, "not as documented");
        Self::parse(&String::from_utf8_lossy(&text)).ok_or_else(malformed)
    }

    fn parse(text: &str) -> Option<Self> {
        let (name, rest) = text.split_once('(')?.1.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        Some(Stat {
            name: name.to_owned(),
            state: fields.first()?.chars().next()?,
            parent: number(1)?.try_into().ok()?,
            started_ticks: number(19)?,
            used: ticks(number(11)?.checked_add(number(12)?)?),
            cpu: number(36)?.try_into().ok()?,
        })
    }

    /// Whether it has ended, and only waits for its parent to ask for its exit status.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// The time of so many of the kernel's clock ticks.
pub fn ticks(count: u64) -> Duration {
    Duration::from_secs_f64(count as f64 / clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "4242 (nginx: (worker) 1) S 4200 4242 4200 0 -1 4194624 500 0 0 0 \
                        130 45 0 0 20 0 1 0 100 1000 200 18446744073709551615 0 0 0 \
                        0 0 0 0 0 0 0 0 0 17 3 0 0 0 0 0\n";

    #[test]
    fn a_process_is_known_whatever_its_name() {
        let stat = Stat::parse(STAT).unwrap();
        let expected = Stat {
            name: "nginx: (worker) 1".to_owned(),
            state: 'S',
            parent: 4200,
            started_ticks: 100,
            used: ticks(175),
            cpu: 3,
        };
        assert_eq!(stat, expected);
        assert!(!stat.has_ended());
        assert!(Stat::parse(&STAT.replace(") S ", ") Z ")).unwrap().has_ended());
    }

    #[test]
    fn what_ends_early_says_nothing() {
        for text in ["", "4242", "4242 (nginx", "4242 (nginx)", "4242 (nginx) S 1"] {
            assert_eq!(Stat::parse(text), None, "{text}");
        }
    }

    #[test]
    fn this_process_runs() {
        let stat = Stat::of(std::process::id()).unwrap();
        assert_eq!(stat.parent, std::os::unix::process::parent_id());
        assert!(stat.started_ticks > 0 && !stat.has_ended());
        assert_eq!(Stat::of(u32::MAX).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
