//! What else happened to the thread while it metered: kernel and hypervisor tell, if asked.

use std::fs;

use nix::sys::resource::{UsageWho, getrusage};
use serde::Serialize;

/// Counts that grow while a thread is kept from running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    involuntary_switches: Option<u64>,
    run_delay_ns: Option<u64>,
    steal_ticks: Option<u64>,
}

/// What happened between two marks; nothing where the kernel does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Interference {
    /// Times that another thread was given the CPU.
    pub preemptions: Option<u64>,
    /// Nanoseconds spent runnable but not running.
    pub waited_ns: Option<u64>,
    /// Whether the hypervisor gave time of this CPU to another machine; how much is not known, as
    /// the kernel counts in steps of 10 ms.
    pub is_stolen_from: Option<bool>,
}

impl Marks {
    /// The counts of this thread and of `cpu` now.
    pub fn now(cpu: usize) -> Self {
        let usage = getrusage(UsageWho::RUSAGE_THREAD).ok();
        let text = |path: &str| fs::read_to_string(path).ok();
        Marks {
            involuntary_switches: usage
                .and_then(|usage| usage.involuntary_context_switches().try_into().ok()),
            run_delay_ns: text("/proc/thread-self/schedstat").as_deref().and_then(run_delay_ns),
            steal_ticks: text("/proc/stat").as_deref().and_then(|stat| steal_ticks(stat, cpu)),
        }
    }

    /// What happened since then, on the same CPU.
    pub fn since(self, cpu: usize) -> Interference {
        let now = Marks::now(cpu);
        let grown = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        Interference {
            preemptions: grown(now.involuntary_switches, self.involuntary_switches),
            waited_ns: grown(now.run_delay_ns, self.run_delay_ns),
            is_stolen_from: grown(now.steal_ticks, self.steal_ticks).map(|ticks| ticks > 0),
        }
    }
}

/// The second number of a `schedstat`: time runnable but not running.
fn run_delay_ns(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().nth(1)?.parse().ok()
}

/// The eighth number of a CPU's line in `/proc/stat`: time stolen by the hypervisor.
fn steal_ticks(stat: &str, cpu: usize) -> Option<u64> {
    let name = format!("cpu{cpu}");
    let mut lines = stat.lines().map(str::split_whitespace);
    lines.find_map(|mut fields| (fields.next()? == name).then_some(fields))?.nth(7)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_understood() {
        assert_eq!(run_delay_ns("690790 79378 1\n"), Some(79378));
        let stat = "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 80 9 10\ncpu1 1 2 3\nintr 5\n";
        assert_eq!(steal_ticks(stat, 0), Some(80));
        assert_eq!(steal_ticks(stat, 1), None);
        assert_eq!(steal_ticks(stat, 7), None);
    }

    #[test]
    fn giving_way_is_seen_as_such() {
        let marks = Marks::now(0);
        let since = marks.since(0);
        assert!(since.preemptions.is_some_and(|count| count < 1000), "{since:?}");
    }
}
