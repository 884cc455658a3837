//! Where a thread runs: the CPUs it may use, and staying on one of them.

use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;
use thiserror::Error;
use widelane_cpu::topology;

/// A CPU that cannot be used.
#[derive(Clone, Debug, PartialEq, Error)]
#[error(
    "this process may not run on CPU {cpu}: {reason}; it may use {}",
    allowed.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
)]
pub struct NoSuchPlace {
    cpu: usize,
    reason: String,
    allowed: Vec<usize>,
}

/// The CPUs on line that this thread may use, lowest first; none where the system does not tell.
pub fn allowed() -> Vec<usize> {
    // The system call refuses sets that are smaller than the kernel's, which may be larger than
    // libc's.
    topology::allowed().unwrap_or_else(|| {
        let set = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
        (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect()
    })
}

/// Keeps this thread on `cpu`.
///
/// # Errors
///
/// Where the CPU is not there, was hot-plugged away, or is not allowed.
pub fn stay_on(cpu: usize) -> Result<(), NoSuchPlace> {
    let mut set = CpuSet::new();
    set.set(cpu)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set))
        .map_err(|error| NoSuchPlace { cpu, reason: error.desc().to_owned(), allowed: allowed() })
}

/// Keeps this thread on `cpus`; where there are none, or the kernel refuses, it stays where it is.
pub fn roam(cpus: &[usize]) {
    let mut set = CpuSet::new();
    if !cpus.is_empty() && cpus.iter().all(|cpu| set.set(*cpu).is_ok()) {
        // Refused only if all of them went off line, and then the kernel moves the thread itself.
        let _ = sched_setaffinity(Pid::from_raw(0), &set);
    }
}

/// The CPU this thread is on.
pub fn here() -> usize {
    sched_getcpu().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_where_it_was_put() {
        std::thread::spawn(|| {
            let all = allowed();
            for &cpu in &all {
                stay_on(cpu).unwrap();
                assert_eq!((allowed(), here()), (vec![cpu], cpu));
            }
            roam(&all);
            assert_eq!(allowed(), all);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn both_sources_tell_the_same_cpus() {
        let set = sched_getaffinity(Pid::from_raw(0)).unwrap();
        let by_call: Vec<usize> =
            (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap()).collect();
        assert_eq!(topology::allowed(), Some(by_call));
    }

    #[test]
    fn a_cpu_that_is_not_there_is_named() {
        let error = stay_on(1000).unwrap_err().to_string();
        assert!(error.contains("CPU 1000") && error.contains("it may use"), "{error}");
    }
}
