//! Leader and followers: batches of threads that block.

use std::collections::VecDeque;

use crate::sync::{Arc, Condvar, Mutex, lock, wait};
use crate::{Batch, Closed, Entry, Tick};

/// Leader and followers: batches of threads that block until their job is done.
///
/// A thread that arrives while fewer than `leaders_max` threads lead leads at once, so with
/// `leaders_max` equal to the CPUs no thread waits before every CPU is busy. The others wait; a
/// leader takes as many of them along as there are lanes, and hands its leadership to the oldest of
/// those left when it is done.
#[derive(Debug)]
pub struct Crew<J> {
    lanes: usize,
    leaders_max: usize,
    state: Mutex<State<J>>,
}

/// While followers wait, `leaders_max` threads lead.
#[derive(Debug)]
struct State<J> {
    leaders: usize,
    waiting: VecDeque<Follower<J>>,
}

#[derive(Debug)]
struct Follower<J> {
    entry: Entry<J>,
    seat: Arc<Seat<J>>,
}

/// Where one follower sleeps.
#[derive(Debug)]
struct Seat<J> {
    call: Mutex<Option<Call<J>>>,
    called: Condvar,
}

/// What wakes a follower.
#[derive(Debug)]
enum Call<J> {
    Done(J),
    Lead(Entry<J>),
}

impl<J> Crew<J> {
    /// A crew of at most `leaders_max` leaders at a time, for batches of `lanes` jobs.
    ///
    /// # Panics
    ///
    /// If `lanes` or `leaders_max` is 0.
    pub fn new(lanes: usize, leaders_max: usize) -> Self {
        assert!(lanes > 0, "a batch needs at least one lane");
        assert!(leaders_max > 0, "somebody has to lead");
        let state = State { leaders: 0, waiting: VecDeque::new() };
        Crew { lanes, leaders_max, state: Mutex::new(state) }
    }

    /// Returns `job` when it has been through `execute`: the caller's, or that of another thread
    /// whose batch it joined.
    ///
    /// `execute` gets the batch that the caller leads, its own job first.
    ///
    /// # Panics
    ///
    /// If the caller leads and `execute` panics. The others get their jobs back in the state that
    /// `execute` left them in, and leadership goes on: a job must itself know whether it is done.
    pub fn run(&self, job: J, now: Tick, execute: impl FnOnce(&mut Batch<J>)) -> J {
        match self.arrive(Entry { job, submitted: now }) {
            Call::Done(job) => job,
            Call::Lead(entry) => {
                let mut turn = Turn::begin(self, entry);
                execute(&mut turn.batch);
                turn.end()
            }
        }
    }

    /// Number of jobs that wait for a leader; for tests.
    #[doc(hidden)]
    pub fn waiting(&self) -> usize {
        lock(&self.state).waiting.len()
    }

    fn arrive(&self, entry: Entry<J>) -> Call<J> {
        let seat = {
            let mut state = lock(&self.state);
            if state.leaders < self.leaders_max {
                state.leaders += 1;
                return Call::Lead(entry);
            }
            let seat = Arc::new(Seat { call: Mutex::new(None), called: Condvar::new() });
            state.waiting.push_back(Follower { entry, seat: Arc::clone(&seat) });
            seat
        };
        let mut call = lock(&seat.call);
        loop {
            match call.take() {
                Some(call) => return call,
                None => call = wait(&seat.called, call),
            }
        }
    }
}

impl<J> Seat<J> {
    fn call(&self, call: Call<J>) {
        *lock(&self.call) = Some(call);
        self.called.notify_one();
    }
}

/// One leader's turn. Dropping it, as a panic does, still wakes the followers and hands over.
struct Turn<'a, J> {
    crew: &'a Crew<J>,
    batch: Batch<J>,
    /// Seats of all jobs but the leader's own, which is first.
    seats: Vec<Arc<Seat<J>>>,
}

impl<'a, J> Turn<'a, J> {
    fn begin(crew: &'a Crew<J>, own: Entry<J>) -> Self {
        let mut entries = Vec::with_capacity(crew.lanes);
        let mut seats = Vec::with_capacity(crew.lanes - 1);
        entries.push(own);
        let mut state = lock(&crew.state);
        while entries.len() < crew.lanes
            && let Some(follower) = state.waiting.pop_front()
        {
            entries.push(follower.entry);
            seats.push(follower.seat);
        }
        drop(state);
        let closed = if entries.len() == crew.lanes { Closed::Full } else { Closed::Leader };
        Turn { crew, batch: Batch { entries, closed }, seats }
    }

    fn end(mut self) -> J {
        self.hand_back().expect("a turn ends once, and began with the leader's own job")
    }

    /// Gives the followers their jobs, and the caller its own; nothing the second time.
    fn hand_back(&mut self) -> Option<J> {
        let mut jobs = std::mem::take(&mut self.batch.entries).into_iter().map(|entry| entry.job);
        let own = jobs.next();
        for (seat, job) in self.seats.drain(..).zip(jobs) {
            seat.call(Call::Done(job));
        }
        own
    }

    fn hand_over(&self) {
        let next = {
            let mut state = lock(&self.crew.state);
            let next = state.waiting.pop_front();
            if next.is_none() {
                state.leaders -= 1;
            }
            next
        };
        if let Some(next) = next {
            next.seat.call(Call::Lead(next.entry));
        }
    }
}

impl<J> Drop for Turn<'_, J> {
    fn drop(&mut self) {
        self.hand_back();
        self.hand_over();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    #[test]
    fn nobody_waits_while_leaders_are_free() {
        let crew = Crew::new(8, 2);
        let both_lead = Barrier::new(2);
        thread::scope(|scope| {
            for job in 0..2 {
                let (crew, both_lead) = (&crew, &both_lead);
                scope.spawn(move || {
                    crew.run(job, Tick(0), |batch| {
                        assert_eq!(batch.fill(), 1);
                        both_lead.wait();
                    })
                });
            }
        });
    }

    #[test]
    fn those_who_arrive_meanwhile_share_the_next_batches() {
        let crew = Crew::new(4, 1);
        let fills = Mutex::new(Vec::new());
        let started = Barrier::new(2);
        thread::scope(|scope| {
            let (crew, fills, started) = (&crew, &fills, &started);
            scope.spawn(move || {
                crew.run(0, Tick(0), |_| {
                    started.wait();
                    while crew.waiting() < 6 {
                        thread::yield_now();
                    }
                })
            });
            started.wait();
            for job in 1..=6 {
                scope.spawn(move || {
                    let done = crew.run(job, Tick(0), |batch| {
                        lock(fills).push((batch.fill(), batch.closed()));
                        batch.jobs_mut().for_each(|job| *job *= 10);
                    });
                    assert_eq!(done, 10 * job);
                });
            }
        });
        assert_eq!(*lock(&fills), [(4, Closed::Full), (2, Closed::Leader)]);
    }

    #[test]
    fn a_panic_of_the_leader_strands_nobody() {
        let crew = Crew::new(4, 1);
        let started = Barrier::new(2);
        thread::scope(|scope| {
            let (crew, started) = (&crew, &started);
            scope.spawn(move || {
                crew.run((0, false), Tick(0), |_| {
                    started.wait();
                    while crew.waiting() < 2 {
                        thread::yield_now();
                    }
                })
            });
            started.wait();
            let followers: Vec<_> = (1..=2)
                .map(|name| {
                    scope.spawn(move || {
                        let run = || crew.run((name, false), Tick(0), |_| panic!("on purpose"));
                        catch_unwind(AssertUnwindSafe(run)).ok()
                    })
                })
                .collect();
            let mut back: Vec<_> =
                followers.into_iter().map(|follower| follower.join().unwrap()).collect();
            back.sort();
            assert!(matches!(back[..], [None, Some((_, false))]), "{back:?}");
        });
        assert_eq!(crew.run((3, true), Tick(0), |batch| assert_eq!(batch.fill(), 1)), (3, true));
    }
}
