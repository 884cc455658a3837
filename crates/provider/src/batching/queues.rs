//! Where the jobs of one key size meet, and what they cost.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
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

/// What a batch and a single job cost here: the shortest times seen, since a thread that was
/// interrupted only takes longer.
pub(super) struct Costs {
    lanes: usize,
    batch_ns: AtomicU64,
    single_ns: AtomicU64,
    batches_measured: AtomicU32,
    singles_measured: AtomicU32,
    batches_refused: AtomicU32,
}

impl Costs {
    const fn new(lanes: usize) -> Self {
        Costs {
            lanes,
            batch_ns: AtomicU64::new(u64::MAX),
            single_ns: AtomicU64::new(u64::MAX),
            batches_measured: AtomicU32::new(0),
            singles_measured: AtomicU32::new(0),
            batches_refused: AtomicU32::new(0),
        }
    }

    /// A batch took so long.
    pub(super) fn batch(&self, ns: u64) {
        self.batch_ns.fetch_min(ns, Ordering::Relaxed);
        self.batches_measured.fetch_add(1, Ordering::Relaxed);
    }

    /// A single job took so long.
    pub(super) fn single(&self, ns: u64) {
        self.single_ns.fetch_min(ns, Ordering::Relaxed);
        self.singles_measured.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether so many jobs, at most as there are lanes, are worth a batch.
    ///
    /// One job never is: that keeps single ones measured, whatever the first of them, which sets up
    /// a key in the default provider, took. And now and then the answer is yes against the
    /// measurement: if all batches were interrupted when they were measured, that is how it is
    /// noticed.
    pub(super) fn is_worth_a_batch(&self, jobs: usize) -> bool {
        let worth = |break_even: BreakEven| jobs > 1 && break_even.split(jobs).batched > 0;
        let assumed = BreakEven::assumed(self.lanes, JOBS_MIN_ASSUMED);
        let samples = [&self.batches_measured, &self.singles_measured];
        if samples.iter().any(|count| count.load(Ordering::Relaxed) < SAMPLES_TO_TRUST) {
            return worth(assumed);
        }
        let single_ns = self.single_ns.load(Ordering::Relaxed);
        let batch_ns = self.batch_ns.load(Ordering::Relaxed);
        worth(BreakEven::measured(self.lanes, batch_ns, single_ns))
            || worth(assumed)
                && self.batches_refused.fetch_add(1, Ordering::Relaxed).is_multiple_of(PROBE_EVERY)
    }
}

/// Jobs that are worth a batch on the machines we know, until this one is measured.
const JOBS_MIN_ASSUMED: usize = 3;

/// Measured times until the shortest is trusted to be one that was not interrupted.
const SAMPLES_TO_TRUST: u32 = 4;

/// One in so many batches that do not seem worth while runs all the same.
const PROBE_EVERY: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(batch_ns: u64, single_ns: u64) -> Costs {
        let costs = Costs::new(8);
        (0..SAMPLES_TO_TRUST).for_each(|_| costs.batch(batch_ns));
        (0..SAMPLES_TO_TRUST).for_each(|_| costs.single(single_ns));
        costs
    }

    #[test]
    fn three_jobs_are_worth_a_batch_until_it_is_measured() {
        let costs = Costs::new(8);
        costs.single(1);
        assert!(!costs.is_worth_a_batch(2));
        assert!(costs.is_worth_a_batch(3));
    }

    #[test]
    fn a_slow_first_single_job_does_not_send_lone_jobs_to_the_kernel() {
        let costs = Costs::new(8);
        (0..SAMPLES_TO_TRUST).for_each(|_| costs.batch(600_000));
        costs.single(3_000_000);
        assert!(!costs.is_worth_a_batch(2), "one sample proves nothing");
        (1..SAMPLES_TO_TRUST).for_each(|_| costs.single(3_000_000));
        assert!(!costs.is_worth_a_batch(1));
        assert!(costs.is_worth_a_batch(2));
    }

    #[test]
    fn the_shortest_times_decide() {
        let costs = measured(900_000, 300_000);
        costs.batch(600_000);
        costs.batch(5_000_000);
        assert!(!costs.is_worth_a_batch(2));
        assert!(costs.is_worth_a_batch(3));
    }

    #[test]
    fn a_measurement_that_was_interrupted_heals() {
        let costs = measured(90_000_000, 300_000);
        let tried = (0..2 * PROBE_EVERY).filter(|_| costs.is_worth_a_batch(8)).count();
        assert_eq!(tried, 2);
        assert!((0..PROBE_EVERY).all(|_| !costs.is_worth_a_batch(2)), "too few even to try");
        costs.batch(600_000);
        assert!(costs.is_worth_a_batch(8));
    }
}
