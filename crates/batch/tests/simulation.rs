//! A seeded simulator with a clock of its own drives the queues as servers would.

#![cfg(not(loom))]

use std::collections::VecDeque;

use proptest::prelude::*;
use widelane_batch::{
    Batch, Closed, Company, Due, Entry, Lane, Shared, Submitted, Tick, Way, least_costs,
};
use widelane_testkit::random::Random;

const LANES: usize = 8;
const WAIT_MAX_NS: u64 = 2_000_000;

/// An exponentially distributed gap, as between independent arrivals.
fn gap_ns(random: &mut Random, mean_ns: u64) -> u64 {
    let unit = ((random.next_u64() >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
    (-unit.ln() * mean_ns as f64) as u64
}

/// What became of the jobs `0..jobs`, in the order of arrival.
#[derive(Default)]
struct Outcome {
    executions: Vec<u32>,
    waits_ns: Vec<u64>,
    fills: [u64; LANES + 1],
    full: u64,
    deadline: u64,
    sparse: u64,
}

impl Outcome {
    fn record(&mut self, batch: Batch<usize>, now: Tick) {
        self.fills[batch.fill()] += 1;
        self.waits_ns.extend(batch.waits_ns(now));
        match batch.closed() {
            Closed::Full => self.full += 1,
            Closed::Deadline => self.deadline += 1,
            Closed::Sparse => self.sparse += 1,
            other => panic!("nothing closes a batch as {other:?} here"),
        }
        for job in batch.into_jobs() {
            self.executions[job] += 1;
        }
    }
}

/// Independent arrivals at one rate, and a helper that looks exactly when it is told to.
fn independent_arrivals(seed: u64, jobs: usize, gap_mean_ns: u64) -> Outcome {
    let shared = Shared::new(LANES);
    let mut random = Random::new(seed);
    let mut outcome = Outcome { executions: vec![0; jobs], ..Outcome::default() };
    let mut now = Tick(0);
    for job in 0..jobs {
        let next = now.after(gap_ns(&mut random, gap_mean_ns));
        while let Due::At(deadline) = shared.poll(now) {
            if deadline > next {
                break;
            }
            now = deadline;
            let Due::Ready(batch) = shared.poll(now) else { panic!("due at {now:?}") };
            outcome.record(batch, now);
        }
        now = next;
        match shared.submit(job, now) {
            Submitted::Ready(batch) => outcome.record(batch, now),
            Submitted::Open(deadline) => assert!(deadline > now),
        }
    }
    if let Due::At(deadline) = shared.poll(now) {
        let Due::Ready(batch) = shared.poll(deadline) else { panic!("due at {deadline:?}") };
        outcome.record(batch, deadline);
    }
    assert_eq!(shared.poll(now), Due::Idle);
    outcome
}

#[test]
fn dense_arrivals_fill_the_lanes() {
    let outcome = independent_arrivals(1, 80_000, 3_000);
    assert!(outcome.full * 10 > outcome.fills.iter().sum::<u64>() * 8, "{:?}", outcome.fills);
}

#[test]
fn sparse_arrivals_hardly_wait() {
    let jobs = 10_000;
    let outcome = independent_arrivals(2, jobs, 2_000_000);
    assert!(outcome.sparse * 10 > jobs as u64 * 9, "{} of {jobs}", outcome.sparse);
    let waited_ns: u64 = outcome.waits_ns.iter().sum();
    assert!(waited_ns / (jobs as u64) < 20_000, "{} ns on average", waited_ns / jobs as u64);
}

#[test]
fn a_rate_that_rises_again_is_noticed() {
    let shared = Shared::new(LANES);
    let mut now = Tick(0);
    let mut closed = VecDeque::new();
    let mut arrive = |gap_ns: u64| {
        now = now.after(gap_ns);
        while let Due::Ready(batch) = shared.poll(now) {
            closed.push_back(batch.closed());
        }
        if let Submitted::Ready(batch) = shared.submit(0, now) {
            closed.push_back(batch.closed());
        }
    };
    (0..100).for_each(|_| arrive(5_000_000));
    (0..400).for_each(|_| arrive(1_000));
    assert!(closed.contains(&Closed::Sparse));
    assert_eq!(closed.back(), Some(&Closed::Full));
}

#[test]
fn one_client_in_a_closed_loop_stops_waiting() {
    // `openssl speed -async_jobs 1`: the next job comes after the last was executed.
    let shared = Shared::new(LANES);
    let mut now = Tick(0);
    let mut waited = 0;
    for job in 0..320 {
        match shared.submit(job, now) {
            Submitted::Ready(batch) => assert_eq!(batch.fill(), 1),
            Submitted::Open(deadline) => {
                let Due::Ready(batch) = shared.poll(deadline) else { panic!("due") };
                assert_eq!(batch.fill(), 1);
                now = deadline;
                waited += 1;
            }
        }
        now = now.after(300_000);
    }
    assert!(waited < 40, "{waited} of 320 jobs waited");
}

#[test]
fn one_busy_thread_fills_the_lanes_again_after_a_pause() {
    // HAProxy's own asynchronous mode: each job follows 150 µs of other work, and whoever does not
    // wait is executed at once, in between.
    let shared = Shared::new(LANES);
    let mut now = Tick(0);
    let mut last = None;
    for job in 0..2_000 {
        now = now.after(if job < 200 { 5_000_000 } else { 150_000 });
        if let Due::Ready(batch) = shared.poll(now) {
            last = Some(batch.closed());
        }
        if let Submitted::Ready(batch) = shared.submit(job, now) {
            now = now.after(if batch.fill() == LANES { 600_000 } else { 300_000 });
            last = Some(batch.closed());
        }
    }
    assert_eq!(last, Some(Closed::Full));
}

#[test]
fn one_thread_with_many_jobs_fills_the_lanes() {
    // `openssl speed -async_jobs 16`: bursts of submits, then a pause while the batch executes.
    let shared = Shared::new(LANES);
    let mut now = Tick(0);
    for job in 0..800 {
        now = now.after(1_000);
        if let Submitted::Ready(batch) = shared.submit(job, now) {
            assert_eq!((batch.fill(), batch.closed()), (LANES, Closed::Full));
            now = now.after(800_000);
        } else {
            assert!(matches!(shared.poll(now), Due::At(_)));
        }
    }
}

/// What an event loop spent on kernels, for each job, and how long a job was there at most.
struct Spent {
    ns_per_job: u64,
    longest_ns: u64,
    waits: u64,
}

/// An event loop with RSA-2048 on a CPU with two 512-bit multipliers, 240 µs of other work for each
/// job, independent arrivals, and a budget for waits.
fn event_loop(gap_mean_ns: u64, budget_ns: u64) -> Spent {
    const JOBS: usize = 20_000;
    const OTHER_NS: u64 = 240_000;
    let ways = [(1, 190_000), (2, 260_000), (4, 360_000), (8, 560_000)];
    let costs = least_costs(&ways.map(|(lanes, cost_ns)| Way { lanes, cost_ns }));
    let mut random = Random::new(9);
    let mut arrivals: VecDeque<Tick> = (0..JOBS)
        .scan(Tick(0), |now, _| {
            *now = now.after(gap_ns(&mut random, gap_mean_ns));
            Some(*now)
        })
        .collect();
    let (mut company, mut lane) = (Company::new(budget_ns), Lane::new(LANES));
    let (mut now, mut spent, mut longest_ns, mut waits) = (Tick(0), 0, 0, 0);
    let mut left = JOBS;
    while left > 0 {
        let next = arrivals.front().copied();
        if let Some(arrival) = next.filter(|arrival| *arrival <= now && lane.len() < LANES) {
            arrivals.pop_front();
            now = now.after(OTHER_NS);
            lane.submit((), arrival);
            company.joined(now, lane.len(), None, || costs, || budget_ns, || true);
            continue;
        }
        let due = now.after(company.left_ns(now));
        match next {
            Some(arrival) if lane.is_empty() => now = arrival,
            Some(arrival) if lane.len() < LANES && arrival < due => {
                company.begin(now, lane.len());
                now = arrival;
            }
            _ => {
                if due > now {
                    company.begin(now, lane.len());
                    now = due;
                }
                let batch = lane.flush().expect("somebody waits");
                waits += u64::from(company.left(now, batch.fill()).is_some());
                spent += costs[batch.fill()];
                now = now.after(costs[batch.fill()]);
                longest_ns = batch.waits_ns(now).fold(longest_ns, u64::max);
                left -= batch.fill();
            }
        }
    }
    Spent { ns_per_job: spent / JOBS as u64, longest_ns, waits }
}

#[test]
fn company_is_waited_for_where_that_saves_time_and_not_elsewhere() {
    let idle = event_loop(10_000_000, 500_000);
    assert_eq!(idle.waits, 0);
    assert!(idle.ns_per_job > 185_000, "{}", idle.ns_per_job);
    // 44 % and 55 % of the loop's time.
    for (gap_mean_ns, gain) in [(900_000, 6), (700_000, 10)] {
        let (without, with) = (event_loop(gap_mean_ns, 0), event_loop(gap_mean_ns, 500_000));
        assert!(without.waits == 0 && with.waits > 1_000);
        let saved = 100 - 100 * with.ns_per_job / without.ns_per_job;
        assert!(saved >= gain, "{saved} % at {gap_mean_ns}");
        assert!(with.longest_ns < without.longest_ns + 3_000_000, "{}", with.longest_ns);
    }
}

proptest! {
    #[test]
    fn every_job_is_executed_once_and_in_time(
        seed: u64,
        jobs in 1_usize..300,
        gap_mean_ns in 1_u64..1_000_000,
    ) {
        let outcome = independent_arrivals(seed, jobs, gap_mean_ns);
        prop_assert!(outcome.executions.iter().all(|&executions| executions == 1));
        prop_assert!(outcome.waits_ns.iter().all(|&wait_ns| wait_ns <= WAIT_MAX_NS));
        let batches: u64 = outcome.fills.iter().sum();
        prop_assert_eq!(batches, outcome.full + outcome.deadline + outcome.sparse);
    }

    /// A lane behaves like a plain queue, whatever the order of calls.
    #[test]
    fn a_lane_is_a_queue(
        lanes in 1_usize..=16,
        calls in prop::collection::vec((0_u8..4, 0_u32..64), 0..200),
    ) {
        let mut lane = Lane::new(lanes);
        let mut model = VecDeque::new();
        let mut now = Tick(0);
        for (job, (call, argument)) in (0_u32..).zip(calls) {
            now = now.after(u64::from(argument));
            match call {
                0 | 1 => {
                    model.push_back((job, now));
                    lane.submit(job, now);
                }
                2 => {
                    let whole_only = argument % 2 == 0;
                    let is_full = lane.len() >= lane.lanes();
                    let batch = if whole_only && !is_full { None } else { lane.flush() };
                    let fill = match model.len() {
                        waiting if waiting < lanes && whole_only => 0,
                        waiting => waiting.min(lanes),
                    };
                    let expected: Vec<_> = model.drain(..fill).collect();
                    prop_assert_eq!(batch.is_some(), fill > 0);
                    if let Some(batch) = batch {
                        let closed = if fill == lanes { Closed::Full } else { Closed::Idle };
                        prop_assert_eq!(batch.closed(), closed);
                        let entry = |entry: &Entry<u32>| (entry.job, entry.submitted);
                        let got: Vec<_> = batch.entries().iter().map(entry).collect();
                        prop_assert_eq!(got, expected);
                    }
                }
                _ => {
                    let index = model.iter().position(|&(job, _)| job % 64 == argument);
                    let expected = index.and_then(|index| model.remove(index)).map(|(job, _)| job);
                    prop_assert_eq!(lane.remove(|job| job % 64 == argument), expected);
                }
            }
            prop_assert_eq!((lane.len(), lane.is_empty()), (model.len(), model.is_empty()));
            prop_assert_eq!(lane.lanes(), lanes);
        }
    }
}

#[test]
fn a_helper_thread_closes_what_nobody_fills() {
    let shared = Shared::new(LANES);
    // Every look at the clock is later by more than any deadline.
    let time = std::sync::atomic::AtomicU64::new(0);
    let clock = || Tick(time.fetch_add(10_000_000, std::sync::atomic::Ordering::Relaxed));
    std::thread::scope(|scope| {
        let helper = scope.spawn(|| {
            let mut jobs = Vec::new();
            while let Some(batch) = shared.wait_due(clock, |_| false) {
                jobs.extend(batch.into_jobs());
            }
            jobs
        });
        let mut jobs = Vec::new();
        for job in 0..100 {
            match shared.submit(job, clock()) {
                Submitted::Ready(batch) => jobs.extend(batch.into_jobs()),
                Submitted::Open(_) => {}
            }
        }
        shared.shut();
        jobs.extend(helper.join().unwrap());
        jobs.sort_unstable();
        assert_eq!(jobs, Vec::from_iter(0..100));
    });
    assert_eq!(shared.poll(Tick(0)), Due::Shut);
    let Submitted::Ready(batch) = shared.submit(100, Tick(0)) else {
        panic!("nobody helps any more")
    };
    assert_eq!((batch.fill(), batch.closed()), (1, Closed::Shutdown));
}
