//! What the fuzz target `batch_schedules` does with any bytes; `tests/fuzzed.rs` does it without a
//! fuzzer.

use std::collections::VecDeque;

use widelane_batch::{
    Batch, Closed, Company, Due, Lane, Shared, Submitted, Tick, Way, least_costs,
};

/// No job of [`Shared`] waits longer, as long as somebody looks when told to.
const WAIT_MAX_NS: u64 = 2_000_000;

/// Each byte is an event: time passes, a job comes, somebody looks, is withdrawn, shuts.
pub fn batch_schedules(bytes: &[u8]) {
    let Some((&first, events)) = bytes.split_first() else { return };
    let lanes = 1 + usize::from(first % 16);
    lane(lanes, events);
    shared(lanes, events);
    company(lanes, events);
}

/// Time that passes before an event: nothing, or up to some milliseconds.
fn later(now: Tick, event: u8) -> Tick {
    now.after(1_u64 << (event >> 3 & 15) << (event >> 7 << 3))
}

fn lane(lanes: usize, events: &[u8]) {
    let mut lane = Lane::new(lanes);
    let mut model: VecDeque<(usize, Tick)> = VecDeque::new();
    let mut now = Tick(0);
    for (job, &event) in events.iter().enumerate() {
        now = later(now, event);
        match event % 8 {
            0..4 => {
                model.push_back((job, now));
                lane.submit(job, now);
            }
            kind @ 4..6 => {
                let whole_only = kind == 4;
                let is_full = lane.len() >= lane.lanes();
                let batch = if whole_only && !is_full { None } else { lane.flush() };
                let is_due = model.len() >= lanes || !whole_only && !model.is_empty();
                assert_eq!(batch.is_some(), is_due);
                let Some(batch) = batch else { continue };
                let oldest = model.drain(..model.len().min(lanes));
                assert!(
                    oldest.eq(batch.entries().iter().map(|entry| (entry.job, entry.submitted)))
                );
            }
            _ => {
                let odd = |job: &usize| job % 2 == 1;
                let place = model.iter().position(|(job, _)| odd(job));
                let expected = place.and_then(|place| model.remove(place)).map(|(job, _)| job);
                assert_eq!(lane.remove(odd), expected);
            }
        }
        assert_eq!(lane.len(), model.len());
    }
}

/// The longest wait for company here.
const BUDGET_NS: u64 = 500_000;

/// An event loop that waits as it is told to: no batch is kept longer than the budget, no job waits
/// that may not or longer than its limit, and company is counted.
fn company(lanes: usize, events: &[u8]) {
    let mut company = Company::new(BUDGET_NS);
    let ways = [(1, 200_000), (lanes, 300_000)].map(|(lanes, cost_ns)| Way { lanes, cost_ns });
    let costs = || least_costs(&ways);
    let (mut now, mut opened, mut waiting) = (Tick(0), Tick(0), 0);
    let mut waited_for: Option<(Tick, usize)> = None;
    for &event in events {
        let next = later(now, event);
        if waiting > 0 {
            let due = now.after(company.left_ns(now));
            assert!(due <= opened.after(BUDGET_NS).max(now));
            if due > now {
                company.begin(now, waiting);
                waited_for.get_or_insert((now, waiting));
            }
            // Full lanes, a program that asks, and the end of the wait.
            if waiting >= lanes || event % 8 == 7 || due <= next {
                let end = if due <= next { due } else { now };
                let waited = company.left(end, waiting);
                let expected = waited_for.take();
                assert_eq!(waited.map(|waited| waited.ns), expected.map(|(at, _)| end.since(at)));
                let joined = expected.map(|(_, before)| waiting - before);
                assert_eq!(waited.map(|waited| waited.company), joined);
                waiting = 0;
            }
        }
        now = next;
        if event % 8 < 6 {
            waiting += 1;
            opened = if waiting == 1 { now } else { opened };
            let may_wait = event % 8 != 5;
            let limit_ns = BUDGET_NS / (1 + u64::from(event / 64));
            company.joined(now, waiting, None, costs, || limit_ns, || may_wait);
            assert!(company.left_ns(now) <= if may_wait { limit_ns } else { 0 });
        }
    }
}

fn shared(lanes: usize, events: &[u8]) {
    let shared = Shared::new(lanes);
    let mut waiting: VecDeque<(usize, Tick)> = VecDeque::new();
    let mut now = Tick(0);
    let mut is_shut = false;
    for (job, &event) in events.iter().enumerate() {
        let next = later(now, event);
        // A helper looks whenever it was told to.
        while let Due::At(due) = shared.poll(now) {
            if due > next {
                break;
            }
            now = now.max(due);
            let Due::Ready(batch) = shared.poll(now) else { panic!("not due at {due:?}") };
            leaves(&mut waiting, batch, lanes, now);
        }
        now = next;
        match event % 8 {
            0..6 => {
                waiting.push_back((job, now));
                match shared.submit(job, now) {
                    Submitted::Ready(batch) => leaves(&mut waiting, batch, lanes, now),
                    Submitted::Open(due) => {
                        assert!(!is_shut && due > now && waiting.len() < lanes);
                    }
                }
            }
            6 => match shared.poll(now) {
                Due::Ready(batch) => leaves(&mut waiting, batch, lanes, now),
                Due::At(due) => assert!(due > now && !waiting.is_empty()),
                Due::Idle => assert!(waiting.is_empty() && !is_shut),
                Due::Shut => assert!(waiting.is_empty() && is_shut),
            },
            _ if event == 0xff => {
                shared.shut();
                is_shut = true;
                while let Due::Ready(batch) = shared.poll(now) {
                    leaves(&mut waiting, batch, lanes, now);
                }
                assert!(waiting.is_empty(), "whoever shuts the room leaves nobody in it");
            }
            _ => {}
        }
    }
}

/// A batch is the oldest that wait, in their order, and none of them waited too long.
fn leaves(waiting: &mut VecDeque<(usize, Tick)>, batch: Batch<usize>, lanes: usize, now: Tick) {
    assert!(batch.fill() > 0 && batch.fill() <= lanes);
    assert_eq!(batch.closed() == Closed::Full, batch.fill() == lanes);
    assert!(batch.waits_ns(now).all(|wait_ns| wait_ns <= WAIT_MAX_NS));
    let oldest = waiting.drain(..batch.fill()).map(|(job, _)| job);
    assert!(oldest.eq(batch.into_jobs()));
    assert!(waiting.is_empty(), "a batch takes all that wait");
}
