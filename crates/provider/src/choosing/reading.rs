//! What the machine says at the beginning and the end of a slice.

use std::fs;

use rustix::thread::{Pid, gettid, sched_getcpu};
use widelane_cpu::chain::{CYCLES_PER_TURN, Chain, time_stamp};
use widelane_cpu::clock;
use widelane_cpu::policy::trial::Slice;

/// One moment.
pub(super) struct Reading {
    wall_ns: u64,
    stamp: u64,
    /// CPU time of the process, and of the calling thread.
    process_ns: f64,
    thread_ns: f64,
    /// What the process has done.
    work_ns: f64,
    /// The CPU that the thread is on, and how long that has been busy, if it was asked.
    busy: Option<(usize, f64)>,
    thread: Pid,
}

impl Reading {
    /// A reading now, when `work_ns` of work has been done; `with_others` also reads how much CPU
    /// time other processes use, which comparisons of policies need.
    pub(super) fn take(work_ns: f64, with_others: bool) -> Self {
        Reading {
            wall_ns: clock::now_ns(),
            stamp: time_stamp(),
            process_ns: clock::process_ns() as f64,
            thread_ns: clock::thread_ns() as f64,
            work_ns,
            busy: with_others.then(busy).flatten(),
            thread: gettid(),
        }
    }

    /// What happened from here to `end`, but for the clock.
    pub(super) fn until(&self, end: &Reading) -> Slice {
        let wall_ns = end.wall_ns.saturating_sub(self.wall_ns) as f64;
        Slice {
            wall_ns,
            cpu_ns: end.process_ns - self.process_ns,
            work_ns: end.work_ns - self.work_ns,
            others_ns: self.others_ns(end).unwrap_or(0.0),
            clock_mhz: None,
        }
    }

    /// CPU time that others had beside the calling thread, if it stayed on its CPU. Other threads
    /// of the process are taken to have such neighbours, too.
    fn others_ns(&self, end: &Reading) -> Option<f64> {
        let ((cpu, begin_ns), (end_cpu, end_ns)) = (self.busy?, end.busy?);
        let thread_ns = end.thread_ns - self.thread_ns;
        if cpu != end_cpu || self.thread != end.thread || thread_ns <= 0.0 {
            return None;
        }
        let threads = ((end.process_ns - self.process_ns) / thread_ns).max(1.0);
        let others_ns = end_ns - begin_ns - thread_ns;
        // A container's /proc may number its CPUs in its own way (lxcfs): that was another one.
        (others_ns > -2.0 * TICK_NS).then(|| others_ns.max(0.0) * threads)
    }

    /// The core clock now, as far as a short chain of multiplications can measure it.
    pub(super) fn clock_mhz(&self, end: &Reading) -> Option<f64> {
        let us = end.wall_ns.saturating_sub(self.wall_ns) as f64 / 1e3;
        let stamps_per_us = end.stamp.saturating_sub(self.stamp) as f64 / us;
        let mut windows = [0; WINDOWS].map(|_| Chain::Multiplication.window(TURNS).ticks());
        windows.sort_unstable();
        let cycles = (TURNS * CYCLES_PER_TURN) as f64;
        let mhz = cycles / windows[WINDOWS / 2] as f64 * stamps_per_us;
        mhz.is_finite().then_some(mhz)
    }
}

/// How long the CPU that the caller is on has been busy, by the system's ticks of 10 ms.
fn busy() -> Option<(usize, f64)> {
    let cpu = sched_getcpu();
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let name = format!("cpu{cpu} ");
    let times = stat.lines().find_map(|line| line.strip_prefix(&name))?;
    let times: Vec<f64> = times.split_whitespace().map_while(|time| time.parse().ok()).collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, ..] = times[..] else { return None };
    Some((cpu, (user + nice + system + irq + softirq) * TICK_NS))
}

/// A tick of `/proc/stat`: Linux has 100 a second there on x86.
const TICK_NS: f64 = 1e7;

/// Windows of one reading of the clock, and turns of the chain in each: about 2 µs.
const WINDOWS: usize = 15;
const TURNS: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_between_two_readings_and_the_clock_ticks() {
        let begin = Reading::take(5.0, true);
        let mut mhz = None;
        // CPU times of some systems advance in steps.
        while Reading::take(0.0, false).process_ns - begin.process_ns < 20e6 {
            mhz = begin.clock_mhz(&Reading::take(7.0, true));
        }
        let slice = begin.until(&Reading::take(7.0, true));
        assert_eq!(slice.work_ns, 2.0);
        assert!(slice.wall_ns > 0.0 && slice.cpu_ns >= 20e6, "{slice:?}");
        assert!(mhz.is_some_and(|mhz| mhz > 100.0), "{mhz:?}");
    }
}
