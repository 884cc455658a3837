//! Where the jobs of one key size meet, and what they cost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use widelane_batch::{BreakEven, Crew, Shared};

use crate::batching::native::{self, Waiting};
use crate::batching::request::Request;
use crate::config::config;

/// Where the jobs of one key size meet, across the threads of a process.
pub(crate) struct Queues {
    /// Jobs of ASYNC jobs that no runtime drives.
    pub(super) shared: Shared<Waiting>,
    /// Jobs of threads that wait.
    pub(super) crew: Crew<Request>,
    /// What they cost.
    pub(super) costs: Costs,
    helper: Mutex<Option<JoinHandle<()>>>,
}

impl Queues {
    /// Empty queues for batches of `lanes` jobs.
    pub(crate) fn new(lanes: usize) -> Self {
        Queues {
            shared: Shared::new(lanes),
            crew: Crew::new(lanes, config().cpus),
            costs: Costs::new(lanes),
            helper: Mutex::new(None),
        }
    }

    /// Makes sure that partial batches are closed in time.
    pub(super) fn ensure_helper(&'static self) {
        let mut helper = self.helper.lock().unwrap_or_else(PoisonError::into_inner);
        if helper.is_none() {
            *helper = native::spawn_helper(self);
            if helper.is_none() {
                // Nobody would close partial batches, so from now on nobody waits.
                self.shared.shut();
            }
        }
    }

    /// Ends the helper, after what still waits.
    pub(crate) fn shut(&self) {
        self.shared.shut();
        let helper = self.helper.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(helper) = helper {
            // Error: the helper has panicked, which its panic has said already.
            let _ = helper.join();
        }
    }
}

/// What a batch and a single job cost here: the shortest times seen, since a thread that was interrupted
/// only takes longer.
pub(super) struct Costs {
    lanes: usize,
    batch_ns: AtomicU64,
    single_ns: AtomicU64,
}

impl Costs {
    const fn new(lanes: usize) -> Self {
        Costs { lanes, batch_ns: AtomicU64::new(UNKNOWN), single_ns: AtomicU64::new(UNKNOWN) }
    }

    /// A batch took so long.
    pub(super) fn batch(&self, ns: u64) {
        self.batch_ns.fetch_min(ns, Ordering::Relaxed);
    }

    /// A single job took so long.
    pub(super) fn single(&self, ns: u64) {
        self.single_ns.fetch_min(ns, Ordering::Relaxed);
    }

    /// How many jobs are worth a batch.
    pub(super) fn break_even(&self) -> BreakEven {
        let (batch_ns, single_ns) =
            (self.batch_ns.load(Ordering::Relaxed), self.single_ns.load(Ordering::Relaxed));
        if batch_ns == UNKNOWN || single_ns == UNKNOWN {
            return BreakEven::assumed(self.lanes, JOBS_MIN_ASSUMED);
        }
        BreakEven::measured(self.lanes, batch_ns, single_ns)
    }
}

const UNKNOWN: u64 = u64::MAX;

/// Jobs that are worth a batch on the machines we know, until this one is measured.
const JOBS_MIN_ASSUMED: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_decide_once_both_are_known() {
        let costs = Costs::new(8);
        assert_eq!(costs.break_even().jobs_min(), JOBS_MIN_ASSUMED);
        costs.batch(900_000);
        assert_eq!(costs.break_even().jobs_min(), JOBS_MIN_ASSUMED);
        costs.single(100_000);
        assert_eq!(costs.break_even().split(8).single, 8);
        costs.batch(600_000);
        assert_eq!(costs.break_even().jobs_min(), 7);
        costs.batch(700_000);
        assert_eq!(costs.break_even().jobs_min(), 7, "the shortest time counts");
    }
}
