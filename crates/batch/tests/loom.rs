//! Every interleaving of a few threads, explored by loom: no job lost, none executed twice, no
//! deadlock.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p widelane-batch --release --test loom`.

#![cfg(loom)]

use std::sync::atomic::Ordering;

use loom::sync::atomic::AtomicU64;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use widelane_batch::{
    Batch, Choice, Claim, Closed, Crew, Finished, Offer, Seeker, Shared, Slots, Stage, Submitted,
    Tick,
};

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

/// A table of two places with one slot each, for jobs of eight bytes.
type Table = Slots<2, 1, 1>;

const KIND: u8 = 3;
const OWNER: u32 = 5;
const OTHER: u32 = 6;
/// The claimer.
const SEEKER: Seeker = Seeker { worker: OTHER, place: 1, first: 0 };

/// A table that owner and claimer have entered, at places 0 and 1.
fn table() -> Arc<Table> {
    let slots = Table::new();
    assert_eq!(
        [OWNER, OTHER].map(|worker| slots.enter(usize::MAX, worker, |_| false)),
        [Some(0), Some(1)]
    );
    Arc::new(slots)
}

fn offer(slots: &Table, input: u8) -> Option<Offer> {
    slots.offer(0, KIND, &[u64::from(input); 4], &[input; 8], |_| false)
}

/// Claims a job; its input is what belongs to its key.
fn claim(slots: &Table) -> Option<(Claim, u8)> {
    let mut claimed = slots.claim(SEEKER, KIND, 1, |key, bytes| {
        assert_eq!(bytes, 8);
        Choice::Accept(key[0] as u8)
    });
    let (claim, key, input) = claimed.jobs.pop()?;
    assert_eq!(input, [key; 8], "the input of another job");
    Some((claim, key))
}

/// The result of a job, if it was done by the other worker; nothing if it was taken back.
fn collect_or_take_back(slots: &Table, offer: Offer) -> Option<Vec<u8>> {
    let result = match slots.stage(&offer) {
        Stage::Done => slots.result(&offer, 8),
        Stage::Open if slots.withdraw(&offer) => return None,
        _ => None,
    };
    slots.abandon(offer);
    result
}

#[test]
fn a_late_result_never_lands_in_a_slot_that_was_opened_again() {
    explore(|| {
        let slots = table();
        let claimer = {
            let slots = Arc::clone(&slots);
            thread::spawn(move || {
                for _ in 0..2 {
                    if let Some((claim, input)) = claim(&slots) {
                        slots.finish(claim, Some(&[input + 100; 8]));
                    }
                }
            })
        };
        for input in [1, 2] {
            if let Some(offer) = offer(&slots, input)
                && let Some(result) = collect_or_take_back(&slots, offer)
            {
                assert_eq!(result, [input + 100; 8], "the result of another job");
            }
        }
        claimer.join().unwrap();
        assert!(offer(&slots, 3).is_some(), "the slot is out of use");
    });
}

#[test]
fn an_owner_that_sleeps_is_woken() {
    explore(|| {
        let slots = table();
        let event = Arc::new((Mutex::new(false), Condvar::new()));
        let offer = offer(&slots, 1).unwrap();
        let claimer = {
            let (slots, event) = (Arc::clone(&slots), Arc::clone(&event));
            thread::spawn(move || {
                let (claim, _) = claim(&slots).unwrap();
                if slots.finish(claim, Some(&[101; 8])) == Finished::Wake(0) {
                    *event.0.lock().unwrap() = true;
                    event.1.notify_one();
                }
            })
        };
        slots.begin_sleep(0);
        if slots.stage(&offer) != Stage::Done {
            let mut raised = event.0.lock().unwrap();
            while !*raised {
                raised = event.1.wait(raised).unwrap();
            }
        }
        assert_eq!(slots.result(&offer, 8), Some(vec![101; 8]));
        claimer.join().unwrap();
    });
}

#[test]
fn a_worker_that_waits_for_jobs_is_roused() {
    explore(|| {
        let slots = table();
        let event = Arc::new((Mutex::new(false), Condvar::new()));
        let claimer = {
            let (slots, event) = (Arc::clone(&slots), Arc::clone(&event));
            thread::spawn(move || {
                slots.begin_sleep(1);
                if slots.open(SEEKER, KIND, 1, |_| true) == 0 {
                    let mut raised = event.0.lock().unwrap();
                    while !*raised {
                        raised = event.1.wait(raised).unwrap();
                    }
                }
                assert!(claim(&slots).is_some(), "there is a job");
            })
        };
        let _offer = offer(&slots, 1).unwrap();
        if slots.rouse(1) {
            *event.0.lock().unwrap() = true;
            event.1.notify_one();
        }
        claimer.join().unwrap();
    });
}

#[test]
fn two_workers_never_claim_the_same_job() {
    explore(|| {
        let slots = Arc::new(Slots::<3, 1, 1>::new());
        for worker in 1..=3 {
            slots.enter(usize::MAX, worker, |_| false).unwrap();
        }
        let offer = slots.offer(0, KIND, &[7; 4], &[7; 8], |_| false).unwrap();
        let claims = |slots: &Slots<3, 1, 1>, place: usize| {
            let seeker = Seeker { worker: place as u32 + 1, place, first: 0 };
            let claimed = slots.claim(seeker, KIND, 1, |_, _| Choice::Accept(()));
            claimed.jobs.into_iter().map(|(claim, ..)| slots.finish(claim, None)).count()
        };
        let other = {
            let slots = Arc::clone(&slots);
            thread::spawn(move || claims(&slots, 1))
        };
        let own = claims(&slots, 2);
        assert_eq!(own + other.join().unwrap(), 1);
        assert_eq!(slots.stage(&offer), Stage::Refused);
    });
}

#[test]
fn a_place_that_is_taken_over_has_no_jobs_left() {
    explore(|| {
        let slots = table();
        let _lost = offer(&slots, 1).unwrap();
        let claimer = {
            let slots = Arc::clone(&slots);
            thread::spawn(move || {
                if let Some((claim, input)) = claim(&slots) {
                    slots.finish(claim, Some(&[input + 100; 8]));
                }
            })
        };
        assert_eq!(slots.enter(usize::MAX, 7, |worker| worker == OWNER), Some(0));
        if let Some(offer) = offer(&slots, 2) {
            let result = collect_or_take_back(&slots, offer);
            assert!(result.is_none_or(|result| result == [102; 8]), "of the lost job");
        }
        claimer.join().unwrap();
        assert!(offer(&slots, 3).is_some(), "the slot is out of use");
    });
}
