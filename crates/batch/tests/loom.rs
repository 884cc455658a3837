//! Every interleaving of a few threads, explored by loom: no job lost, none executed twice, no
//! deadlock.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p widelane-batch --release --test loom`.

#![cfg(loom)]

use std::sync::atomic::Ordering;

use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;
use widelane_batch::{Batch, Closed, Crew, Shared, Submitted, Tick};

/// A job that counts its executions.
#[derive(Debug, PartialEq, Eq)]
struct Job {
    name: u8,
    executions: u8,
}

impl Job {
    fn new(name: u8) -> Self {
        Job { name, executions: 0 }
    }
}

/// Explores all interleavings with at most three preemptions: more finds no more in programs this
/// small, and takes hours.
fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// A crew gives every thread its own job back, executed once, whoever leads.
fn crew_completes(lanes: usize, leaders_max: usize, threads: u8) {
    explore(move || {
        let crew = Arc::new(Crew::new(lanes, leaders_max));
        let run = move |crew: &Crew<Job>, name| {
            let done = crew.run(Job::new(name), Tick(0), |batch| {
                assert!((1..=lanes).contains(&batch.fill()));
                batch.jobs_mut().for_each(|job| job.executions += 1);
            });
            assert_eq!(done, Job { name, executions: 1 });
        };
        let others: Vec<_> = (1..threads)
            .map(|name| {
                let crew = Arc::clone(&crew);
                thread::spawn(move || run(&crew, name))
            })
            .collect();
        run(&crew, 0);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(crew.waiting(), 0);
        assert_eq!(crew.run(Job::new(9), Tick(0), |batch| assert_eq!(batch.fill(), 1)).name, 9);
    });
}

#[test]
fn a_single_leader_serves_three_threads() {
    crew_completes(2, 1, 3);
}

#[test]
fn leadership_is_handed_over_where_batches_hold_one_job() {
    crew_completes(1, 1, 3);
}

#[test]
fn two_leaders_serve_three_threads() {
    crew_completes(2, 2, 3);
}

/// Marks the jobs of a batch as executed, one bit each.
fn execute(executed: &AtomicU64, batch: Batch<u8>) {
    for job in batch.into_jobs() {
        let before = executed.fetch_or(1 << job, Ordering::Relaxed);
        assert_eq!(before & (1 << job), 0, "job {job} was executed twice");
    }
}

/// Two submitters and a helper, with a deadline that may pass at any moment, then a shutdown.
fn shared_completes(lanes: usize, shut_early: bool) {
    explore(move || {
        let shared = Arc::new(Shared::new(lanes));
        let executed = Arc::new(AtomicU64::new(0));
        let time = Arc::new(AtomicU64::new(0));

        let helper = {
            let (shared, executed, time) =
                (Arc::clone(&shared), Arc::clone(&executed), Arc::clone(&time));
            thread::spawn(move || {
                // Every look at the clock is later by more than any deadline.
                let clock = || Tick(time.fetch_add(10_000_000, Ordering::Relaxed));
                while let Some(batch) = shared.wait_due(clock, |_| false) {
                    assert!(matches!(batch.closed(), Closed::Deadline | Closed::Shutdown));
                    execute(&executed, batch);
                }
            })
        };
        let submit = move |shared: &Shared<u8>, executed: &AtomicU64, job| {
            if let Submitted::Ready(batch) = shared.submit(job, Tick(u64::from(job))) {
                assert!(batch.fill() == lanes || batch.closed() == Closed::Shutdown);
                execute(executed, batch);
            }
        };
        let other = {
            let (shared, executed) = (Arc::clone(&shared), Arc::clone(&executed));
            thread::spawn(move || submit(&shared, &executed, 1))
        };
        submit(&shared, &executed, 0);
        if shut_early {
            shared.shut();
        }
        other.join().unwrap();
        shared.shut();
        helper.join().unwrap();
        assert_eq!(executed.load(Ordering::Relaxed), 0b11, "a job was lost");
    });
}

#[test]
fn a_full_batch_and_its_deadline_do_not_collide() {
    shared_completes(2, false);
}

#[test]
fn a_partial_batch_is_closed_by_the_helper() {
    shared_completes(3, false);
}

#[test]
fn shutdown_loses_nothing() {
    shared_completes(3, true);
}
