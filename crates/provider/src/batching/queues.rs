//! Where the operations of one kind meet, and what they cost.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use widelane_batch::{BreakEven, Crew, Shared};
use widelane_bridge::counters::OperationKind;

use crate::batching::native::{self, Waiting};
use crate::batching::request::Request;
use crate::config::config;

/// Where the operations of one kind meet, across the threads of a process.
pub(crate) struct Queues {
    /// What is done here.
    pub(super) kind: OperationKind,
    /// Jobs of ASYNC jobs that no runtime drives.
    pub(super) shared: Shared<Waiting>,
    /// Jobs of threads that wait.
    pub(super) crew: Crew<Request>,
    /// What they cost.
    pub(crate) costs: Costs,
    helper: Mutex<Option<JoinHandle<()>>>,
}

impl Queues {
    /// Empty queues for operations of a kind.
    pub(crate) fn new(kind: OperationKind) -> Self {
        let lanes = config().lanes(kind);
        Queues {
            kind,
            shared: Shared::new(lanes),
            crew: Crew::new(lanes, config().cpus),
            costs: Costs::new(lanes, Lone::of(kind)),
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

/// What a batch costs here, however full, and what a single operation costs by the default
/// provider: the shortest times seen, since a thread that was interrupted only takes longer.
pub(crate) struct Costs {
    lanes: usize,
    lone: Lone,
    batch_ns: AtomicU64,
    single_ns: AtomicU64,
    batches_measured: AtomicU32,
    singles_measured: AtomicU32,
    probes: AtomicU32,
}

/// What a lone operation may do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lone {
    /// It never runs as a batch: the default provider is faster on every machine we know.
    Single,
    /// Whichever is faster here: a batch with one lane in use, or the default provider.
    Faster,
}

impl Lone {
    fn of(kind: OperationKind) -> Self {
        match kind {
            OperationKind::Rsa2048 | OperationKind::Rsa3072 | OperationKind::Rsa4096 => {
                Lone::Single
            }
            _ => Lone::Faster,
        }
    }
}

impl Costs {
    const fn new(lanes: usize, lone: Lone) -> Self {
        Costs {
            lanes,
            lone,
            batch_ns: AtomicU64::new(u64::MAX),
            single_ns: AtomicU64::new(u64::MAX),
            batches_measured: AtomicU32::new(0),
            singles_measured: AtomicU32::new(0),
            probes: AtomicU32::new(0),
        }
    }

    /// A batch took so long.
    pub(crate) fn batch(&self, ns: u64) {
        self.batch_ns.fetch_min(ns, Ordering::Relaxed);
        self.batches_measured.fetch_add(1, Ordering::Relaxed);
    }

    /// A single operation took so long.
    pub(crate) fn single(&self, ns: u64) {
        self.single_ns.fetch_min(ns, Ordering::Relaxed);
        self.singles_measured.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether so many operations, at most as there are lanes, are worth a batch.
    ///
    /// The first lone ones try both ways. Later the answer is now and then against the measurement:
    /// if all times of one way were interrupted, that is how it is noticed.
    pub(crate) fn is_worth_a_batch(&self, jobs: usize) -> bool {
        let lone = jobs <= 1;
        if jobs == 0 || lone && self.lone == Lone::Single {
            return false;
        }
        let worth = |break_even: BreakEven| break_even.split(jobs).batched > 0;
        let assumed = worth(BreakEven::assumed(self.lanes, JOBS_MIN_ASSUMED));
        let measured = |count: &AtomicU32| count.load(Ordering::Relaxed) >= SAMPLES_TO_TRUST;
        match (measured(&self.singles_measured), measured(&self.batches_measured)) {
            (false, _) if lone => return false,
            (true, false) if lone => return true,
            (true, true) => {}
            _ => return assumed,
        }
        let single_ns = self.single_ns.load(Ordering::Relaxed);
        let batch_ns = self.batch_ns.load(Ordering::Relaxed);
        let answer = worth(BreakEven::measured(self.lanes, batch_ns, single_ns));
        // A lone operation is never far from break-even, so that a wrong answer costs little.
        let probe_every = if lone { LONE_PROBE_EVERY } else { PROBE_EVERY };
        let doubted = lone || assumed && !answer;
        let probe = || self.probes.fetch_add(1, Ordering::Relaxed).is_multiple_of(probe_every);
        if doubted && probe() { !answer } else { answer }
    }
}

/// Operations that are worth a batch on the machines we know, until this one is measured.
const JOBS_MIN_ASSUMED: usize = 3;

/// Measured times until the shortest is trusted to be one that was not interrupted.
const SAMPLES_TO_TRUST: u32 = 4;

/// One in so many batches that do not seem worth while runs all the same.
const PROBE_EVERY: u32 = 16;

/// One in so many lone operations takes the way that seems slower.
const LONE_PROBE_EVERY: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(batch_ns: u64, single_ns: u64, lone: Lone) -> Costs {
        let costs = Costs::new(8, lone);
        (0..SAMPLES_TO_TRUST).for_each(|_| costs.batch(batch_ns));
        (0..SAMPLES_TO_TRUST).for_each(|_| costs.single(single_ns));
        costs
    }

    #[test]
    fn three_jobs_are_worth_a_batch_until_it_is_measured() {
        let costs = Costs::new(8, Lone::Single);
        costs.single(1);
        assert!(!costs.is_worth_a_batch(2));
        assert!(costs.is_worth_a_batch(3));
    }

    #[test]
    fn a_slow_first_single_job_does_not_send_lone_jobs_to_the_kernel() {
        let costs = Costs::new(8, Lone::Single);
        (0..SAMPLES_TO_TRUST).for_each(|_| costs.batch(600_000));
        costs.single(3_000_000);
        assert!(!costs.is_worth_a_batch(2), "one sample proves nothing");
        (1..SAMPLES_TO_TRUST).for_each(|_| costs.single(3_000_000));
        assert!(!costs.is_worth_a_batch(1));
        assert!(costs.is_worth_a_batch(2));
    }

    #[test]
    fn lone_jobs_try_both_ways_and_then_take_the_faster() {
        for (batch_ns, single_ns) in [(480_000, 2_300_000), (96_000, 72_000)] {
            let costs = Costs::new(8, Lone::Faster);
            for _ in 0..SAMPLES_TO_TRUST {
                assert!(!costs.is_worth_a_batch(1));
                costs.single(single_ns);
            }
            for _ in 0..SAMPLES_TO_TRUST {
                assert!(costs.is_worth_a_batch(1));
                costs.batch(batch_ns);
            }
            let batches = (0..LONE_PROBE_EVERY).filter(|_| costs.is_worth_a_batch(1)).count();
            let probes =
                if batch_ns < single_ns { LONE_PROBE_EVERY as usize - batches } else { batches };
            assert_eq!(probes, 1);
        }
    }

    #[test]
    fn the_shortest_times_decide() {
        let costs = measured(900_000, 300_000, Lone::Single);
        costs.batch(600_000);
        costs.batch(5_000_000);
        assert!(!costs.is_worth_a_batch(2));
        assert!(costs.is_worth_a_batch(3));
    }

    #[test]
    fn a_measurement_that_was_interrupted_heals() {
        let costs = measured(90_000_000, 300_000, Lone::Single);
        let tried = (0..2 * PROBE_EVERY).filter(|_| costs.is_worth_a_batch(8)).count();
        assert_eq!(tried, 2);
        assert!((0..PROBE_EVERY).all(|_| !costs.is_worth_a_batch(2)), "too few even to try");
        costs.batch(600_000);
        assert!(costs.is_worth_a_batch(8));
    }
}
