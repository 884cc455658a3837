//! Where the operations of one kind meet, and what they cost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use widelane_batch::{Crew, JOBS_MAX, SLEEP_COST_NS, Shared, Way, cheapest, least_costs};
use widelane_bridge::counters::OperationKind;
use widelane_cpu::Room;
use widelane_reserve::uncancelled;

use crate::batching::kinds;
use crate::batching::measured::{KERNELS_MAX, Measured, Times};
use crate::batching::native::{self, AsyncJobWaiting};
use crate::batching::request::Request;
use crate::choosing;
use crate::config::config;

/// Where the operations of one kind meet, across the threads of a process.
pub(crate) struct Queues {
    /// What is done here.
    pub(super) kind: OperationKind,
    /// Jobs of ASYNC jobs that no runtime drives.
    pub(super) shared: Shared<AsyncJobWaiting>,
    /// Jobs of threads that wait.
    pub(super) crew: Crew<Request>,
    /// What they cost.
    pub(crate) costs: Costs,
    /// How many a device has done.
    pub(crate) by_device: AtomicU64,
    helper: Mutex<Option<JoinHandle<()>>>,
}

impl Queues {
    /// Empty queues for operations of a kind.
    pub(crate) fn new(kind: OperationKind) -> Self {
        let lanes = kinds::lanes(kind);
        Queues {
            kind,
            shared: Shared::new(lanes),
            crew: Crew::new(lanes, config().cpus),
            costs: Costs::new(&kinds::kernels(kind), Times::of(kind)),
            by_device: AtomicU64::new(0),
            helper: Mutex::new(None),
        }
    }

    /// Makes sure that partial batches are closed in time: by a helper thread, or, if none can be
    /// started, at once by the next caller; false then.
    pub(super) fn ensure_helper(&'static self) -> bool {
        let mut helper = self.helper.lock().unwrap_or_else(PoisonError::into_inner);
        if helper.is_none() {
            *helper = native::spawn_helper(self);
            if helper.is_none() {
                // Without a helper nothing would close partial batches, so no job waits any more.
                self.shared.shut();
            }
        }
        helper.is_some()
    }

    /// Lets jobs wait for each other, or ends the helper, after what still waits.
    pub(crate) fn open_or_shut(&self, is_open: impl Fn() -> bool) {
        let mut helper = self.helper.lock().unwrap_or_else(PoisonError::into_inner);
        if is_open() {
            return self.shared.open();
        }
        self.shared.shut();
        if let Some(helper) = helper.take() {
            // Error: the helper has panicked, which its panic has said already.
            let _ = uncancelled(|| helper.join());
        }
    }
}

/// How operations of one kind can be executed here, and the shortest time that each way has been
/// seen to take: a thread that was interrupted only takes longer.
pub(crate) struct Costs {
    /// Lanes and rooms of the kernels of [`kinds`], in its order.
    kernels: Box<[(usize, Room)]>,
    times: &'static Times,
}

/// How to execute the next operations of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// One operation, by the default provider.
    DefaultProvider,
    /// As many as it has lanes, by the kernel that has this place in [`kinds`].
    Kernel(usize),
}

/// The ways to execute operations that are open now, and what each is.
struct Ways {
    ways: [Way; 1 + KERNELS_MAX],
    methods: [Method; 1 + KERNELS_MAX],
    count: usize,
}

impl Ways {
    fn known(&self) -> &[Way] {
        &self.ways[..self.count]
    }
}

impl Costs {
    /// Costs of the default provider and of kernels by lanes and room, as far as they are known.
    fn new(kernels: &[(usize, Room)], times: &'static Times) -> Self {
        // The widest would be missing, and yet be waited for.
        assert!(kernels.len() <= KERNELS_MAX, "KERNELS_MAX is too small: {kernels:?}");
        Costs { kernels: kernels.into(), times }
    }

    /// How many operations a run of a kernel takes, and in which room.
    pub(crate) fn lanes_and_room(&self, index: usize) -> (usize, Room) {
        self.kernels[index]
    }

    /// A run took so long: one operation of the default provider's, or one run of a kernel.
    pub(crate) fn record(&self, method: Method, ns: u64) {
        match method {
            Method::DefaultProvider => self.times.default_provider.record(ns),
            Method::Kernel(index) => self.times.kernels[index].record(ns),
        }
    }

    /// An operation of a device's has cost this CPU so much, from being handed over to its
    /// confirmation.
    pub(crate) fn record_device(&self, ns: u64) {
        self.times.device.record(ns);
    }

    /// Whether a device is to do the next operation: if that costs this CPU less, `beside_ns`
    /// included, than lanes do for each of `jobs` operations.
    ///
    /// What has not been measured is taken to cost nothing, as in [`choose`](Self::choose), the
    /// device first; now and then it is tried again.
    pub(super) fn prefer_device(&self, jobs: usize, beside_ns: u64) -> bool {
        let Some(device_ns) = self.times.device.trusted() else { return true };
        let decision = self.times.device_decisions.fetch_add(1, Ordering::Relaxed) as usize;
        let jobs = jobs.clamp(1, JOBS_MAX);
        let lanes_ns = self.by_jobs()[jobs] / jobs as u64;
        device_ns.saturating_add(beside_ns) < lanes_ns || decision % DOUBT_EVERY == DOUBT_EVERY - 1
    }

    /// How the next of `jobs` waiting operations are executed, so that all of them cost least.
    ///
    /// A kernel that has not been measured is taken to cost as little as it possibly can: as much
    /// as one with fewer lanes, at first nothing. So every kernel that might be the best is tried,
    /// and none that cannot be. Now and then, if the run `is_timed`, one is taken to be unmeasured:
    /// if all its runs were interrupted, that is how it is noticed.
    pub(crate) fn choose(&self, jobs: usize, is_timed: bool) -> Method {
        let doubted = is_timed.then(|| self.doubted()).flatten();
        let ways = self.ways(doubted);
        cheapest(ways.known(), jobs).map_or(Method::DefaultProvider, |place| ways.methods[place])
    }

    /// What each number of operations costs.
    pub(crate) fn by_jobs(&self) -> [u64; JOBS_MAX + 1] {
        least_costs(self.ways(None).known())
    }

    /// Whether an operation saves more in a full batch, as far as is known, than a thread spends
    /// that sleeps until it is done.
    pub(super) fn repay_a_sleep(&self) -> bool {
        let costs = self.by_jobs();
        costs[1].saturating_sub(costs[JOBS_MAX] / JOBS_MAX as u64) > SLEEP_COST_NS
    }

    /// All ways to execute operations now, the default provider's first. One of the ways that there
    /// are, open or not, may be taken to be unmeasured.
    fn ways(&self, doubted: Option<usize>) -> Ways {
        let trusted =
            |way: usize, measured: &Measured| measured.trusted().filter(|_| doubted != Some(way));
        let cost_ns = trusted(0, &self.times.default_provider)
            .map_or(0, |ns| ns.saturating_mul(DEFAULT_PROVIDER_FACTOR));
        let mut ways = Ways {
            ways: [Way { lanes: 1, cost_ns }; 1 + KERNELS_MAX],
            methods: [Method::DefaultProvider; 1 + KERNELS_MAX],
            count: 1,
        };
        for (index, &(lanes, room)) in self.kernels.iter().enumerate() {
            if !choosing::is_open(room) {
                continue;
            }
            let smaller = ways.known()[1..].iter().filter(|way| way.lanes < lanes);
            let cost_min = smaller.map(|way| way.cost_ns).max().unwrap_or(0);
            let cost_ns = trusted(1 + index, &self.times.kernels[index]).unwrap_or(cost_min);
            ways.ways[ways.count] = Way { lanes, cost_ns };
            ways.methods[ways.count] = Method::Kernel(index);
            ways.count += 1;
        }
        ways
    }

    /// The way that this decision takes to be unmeasured, if it is one of those that doubt. Some
    /// in a row doubt the same way: its first run in a while is slow, since its code has left the
    /// caches.
    fn doubted(&self) -> Option<usize> {
        let decision = self.times.decisions.fetch_add(1, Ordering::Relaxed) as usize;
        let (round, place) = (decision / DOUBT_ROUND, decision % DOUBT_ROUND);
        let doubts = place >= DOUBT_ROUND - DOUBTS_IN_A_ROW;
        doubts.then(|| round % (1 + self.kernels.len()))
    }
}

/// What the default provider's times are multiplied by: 1 but in what `cargo xtask asan` builds.
/// AddressSanitizer and assertions have our kernels take seven times as long (RSA-2048 on a Zen 5),
/// and libcrypto's code is as it always is: lanes would never pay, and hardly be tested.
const DEFAULT_PROVIDER_FACTOR: u64 = if cfg!(widelane_instrumented) { 8 } else { 1 };

/// One decision in this many doubts what was measured.
const DOUBT_EVERY: usize = 256;

/// Decisions in a row that doubt one way, each way in its turn.
const DOUBTS_IN_A_ROW: usize = 4;

/// Decisions until the next way is doubted.
const DOUBT_ROUND: usize = DOUBT_EVERY * DOUBTS_IN_A_ROW;

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::batching::measured::SAMPLES_TO_TRUST;

    /// Kernels for one operation, four and eight, and their places; of the room that is open on
    /// every machine and under every policy.
    const KERNELS: [(usize, Room); 3] =
        [(1, Room::Portable), (4, Room::Portable), (8, Room::Portable)];
    const ONE: Method = Method::Kernel(0);
    const FOUR: Method = Method::Kernel(1);
    const EIGHT: Method = Method::Kernel(2);

    /// Executes operations as they come, `jobs` at a time, on a machine where a method costs what
    /// `cost` says, and returns what was chosen first each time, which is what is timed.
    fn run(costs: &Costs, jobs: usize, times: usize, cost: impl Fn(Method) -> u64) -> Vec<Method> {
        let mut chosen = Vec::new();
        for _ in 0..times {
            let mut left = jobs;
            while left > 0 {
                let method = costs.choose(left, left == jobs);
                if left == jobs {
                    costs.record(method, cost(method));
                    chosen.push(method);
                }
                left = left.saturating_sub(match method {
                    Method::DefaultProvider => 1,
                    Method::Kernel(index) => costs.lanes_and_room(index).0,
                });
            }
        }
        chosen
    }

    /// RSA-2048 on a Zen 4.
    fn rsa_2048(method: Method) -> u64 {
        match method {
            Method::DefaultProvider => 242_000,
            ONE => 205_000,
            FOUR => 509_000,
            _ => 992_000,
        }
    }

    /// Signatures on P-256 on a Granite Rapids.
    fn p256_sign(method: Method) -> u64 {
        match method {
            Method::DefaultProvider => 19_000,
            ONE => 9_400,
            FOUR => 15_000,
            _ => 17_000,
        }
    }

    #[test]
    fn without_kernels_the_default_provider_does_all() {
        let costs = Costs::new(&[], Times::new());
        assert_eq!(run(&costs, 3, 1_000, |_| 5), vec![Method::DefaultProvider; 1_000]);
    }

    #[test]
    fn the_cheapest_is_found_for_each_number_of_jobs() {
        let costs = Costs::new(&KERNELS, Times::new());
        for (jobs, best) in [(1, ONE), (3, FOUR), (4, FOUR), (8, EIGHT)] {
            run(&costs, jobs, 40, rsa_2048);
            let later = run(&costs, jobs, 40, rsa_2048);
            let right = later.iter().filter(|method| **method == best).count();
            assert!(right >= 40 - DOUBTS_IN_A_ROW, "{jobs} jobs, {later:?}");
        }
    }

    #[test]
    fn what_cannot_be_the_best_is_never_tried() {
        let costs = Costs::new(&KERNELS, Times::new());
        let chosen = run(&costs, 1, 200, rsa_2048);
        assert!(chosen.iter().all(|method| *method != FOUR));
        assert!(chosen.iter().all(|method| *method != EIGHT));
        let singles = chosen.iter().filter(|method| **method == Method::DefaultProvider).count();
        assert_eq!(singles, SAMPLES_TO_TRUST as usize);
    }

    #[test]
    fn nobody_sleeps_for_what_is_done_sooner_than_one_wakes_up() {
        check(p256_sign, false);
        check(rsa_2048, true);

        fn check(cost: fn(Method) -> u64, repays: bool) {
            let costs = Costs::new(&KERNELS, Times::new());
            assert!(!costs.repay_a_sleep(), "nothing is known yet");
            for jobs in [1, 8] {
                run(&costs, jobs, 40, cost);
                assert_eq!(costs.repay_a_sleep(), repays, "{jobs} at a time");
            }
        }
    }

    #[test]
    fn a_lone_operation_goes_to_lanes_where_these_are_faster() {
        let costs = Costs::new(&KERNELS[1..], Times::new());
        let p384 = |method| match method {
            Method::DefaultProvider => 610_000,
            Method::Kernel(0) => 80_000,
            Method::Kernel(_) => 140_000,
        };
        let chosen = run(&costs, 1, 100, p384);
        assert_eq!(chosen[20..], vec![Method::Kernel(0); 80]);
    }

    #[test]
    fn of_kernels_with_as_many_lanes_each_is_tried() {
        let kernels = [(1, Room::Portable), (1, Room::Portable), (4, Room::Portable)];
        let costs = Costs::new(&kernels, Times::new());
        let chosen = run(&costs, 1, 100, |method| match method {
            Method::DefaultProvider => 242_000,
            Method::Kernel(0) => 165_000,
            Method::Kernel(_) => 122_000,
        });
        assert_eq!(chosen[50..], vec![Method::Kernel(1); 50]);
    }

    #[test]
    fn each_number_of_operations_has_a_cost() {
        let costs = Costs::new(&KERNELS, Times::new());
        for jobs in [1, 4, 8] {
            run(&costs, jobs, 40, rsa_2048);
        }
        let expected = [0, 205_000, 410_000, 509_000, 509_000, 714_000, 919_000, 992_000, 992_000];
        assert_eq!(costs.by_jobs()[..9], expected);
    }

    /// Does operations as they come, eight at a time, by a device that costs so much or in lanes;
    /// returns how many of the last hundred times it was the device.
    fn times_of_device(costs: &Costs, device_ns: u64, beside_ns: u64) -> usize {
        let by_device = (0..200).map(|_| {
            let by_device = costs.prefer_device(8, beside_ns);
            if by_device {
                costs.record_device(device_ns);
            } else {
                run(costs, 8, 1, rsa_2048);
            }
            by_device
        });
        by_device.skip(100).filter(|by_device| *by_device).count()
    }

    #[test]
    fn a_device_gets_what_it_does_for_less_than_lanes() {
        // Eight operations in lanes cost 992 µs.
        for (device_ns, beside_ns, least) in
            [(20_000, 0, 99), (123_000, 0, 99), (125_000, 0, 0), (20_000, 110_000, 0)]
        {
            let costs = Costs::new(&KERNELS, Times::new());
            let times = times_of_device(&costs, device_ns, beside_ns);
            assert!((least..=least + 1).contains(&times), "{device_ns} + {beside_ns}: {times}");
        }
    }

    #[test]
    fn a_device_is_first_where_nothing_is_measured_and_is_tried_again() {
        let costs = Costs::new(&KERNELS, Times::new());
        assert!((0..4).all(|_| costs.prefer_device(1, 0)));
        run(&costs, 1, 40, rsa_2048);
        (0..SAMPLES_TO_TRUST).for_each(|_| costs.record_device(90_000_000));
        let again = (0..2 * DOUBT_EVERY).filter(|_| costs.prefer_device(1, 0)).count();
        assert_eq!(again, 2);
    }

    #[test]
    fn one_slow_sample_proves_nothing() {
        let costs = Costs::new(&KERNELS[..1], Times::new());
        costs.record(ONE, 3_000_000);
        let chosen = run(&costs, 1, 50, rsa_2048);
        assert_eq!(chosen[20..], vec![ONE; 30]);
    }

    #[test]
    fn a_measurement_that_was_interrupted_heals() {
        let costs = Costs::new(&KERNELS[..1], Times::new());
        for _ in 0..SAMPLES_TO_TRUST {
            costs.record(ONE, 90_000_000);
        }
        let chosen = run(&costs, 1, 2 * DOUBT_ROUND + 1, rsa_2048);
        assert_eq!(chosen[0], Method::DefaultProvider);
        assert_eq!(chosen.last(), Some(&ONE));
    }

    #[test]
    fn a_kernel_whose_first_run_is_slow_each_time_is_found() {
        let costs = Costs::new(&KERNELS, Times::new());
        for _ in 0..SAMPLES_TO_TRUST {
            costs.record(EIGHT, 45_000);
        }
        let last = Cell::new(EIGHT);
        let chosen = run(&costs, 8, 4 * DOUBT_ROUND + 1, |method| {
            let is_cold = last.replace(method) != method;
            if method == EIGHT && is_cold { 45_000 } else { p256_sign(method) }
        });
        assert_eq!(chosen[DOUBT_ROUND / 4], FOUR);
        assert_eq!(chosen.last(), Some(&EIGHT));
    }
}
