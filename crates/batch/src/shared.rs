//! The queue of threads that do other work until their jobs are done.

use crate::pace::{HOLD_MAX_NS, HOLD_STEP_NS, Pace, WAIT_MAX_NS};
use crate::sync::{Condvar, Mutex, lock, wait, wait_at_most};
use crate::{Batch, Closed, Entry, Tick};

/// The queue of threads that do other work until their jobs are done.
///
/// The thread that submits the job that fills the lanes gets the batch and executes it. A partial
/// batch is closed by a helper thread, which spends its life in [`wait_due`](Self::wait_due), after
/// a deadline that follows the rate of arrivals. Where waiting brings no other job, the submitter
/// gets its job straight back.
#[derive(Debug)]
pub struct Shared<J> {
    lanes: usize,
    state: Mutex<State<J>>,
    /// Notified when the helper has to look again earlier than it planned.
    changed: Condvar,
}

/// There is a deadline exactly while a job waits.
#[derive(Debug)]
struct State<J> {
    waiting: Vec<Entry<J>>,
    deadline: Option<Tick>,
    pace: Pace,
    /// When helpers will next look by themselves; none if they sleep until notified.
    helper_wakes: Option<Tick>,
    shut: bool,
}

/// What became of a submitted job.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a batch that is handed out must be executed"]
pub enum Submitted<J> {
    /// It waits; the helper must look at this time or earlier, see [`Shared::wait_due`].
    Open(Tick),
    /// The caller executes this batch; the job is in it.
    Ready(Batch<J>),
}

/// What a helper has to do.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a batch that is handed out must be executed"]
pub enum Due<J> {
    /// Execute this batch.
    Ready(Batch<J>),
    /// Look again at this time.
    At(Tick),
    /// No job waits.
    Idle,
    /// No job waits, and none will as long as the queue is shut.
    Shut,
}

impl<J> Shared<J> {
    /// An empty queue for batches of `lanes` jobs.
    ///
    /// # Panics
    ///
    /// If `lanes` is 0.
    pub fn new(lanes: usize) -> Self {
        assert!(lanes > 0, "a batch needs at least one lane");
        let state = State {
            waiting: Vec::with_capacity(lanes),
            deadline: None,
            pace: Pace::new(),
            helper_wakes: None,
            shut: false,
        };
        Shared { lanes, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Adds a job.
    pub fn submit(&self, job: J, now: Tick) -> Submitted<J> {
        let mut state = lock(&self.state);
        let opens = state.waiting.is_empty();
        let silence_ns = state.pace.arrived(now, opens);
        state.waiting.push(Entry { job, submitted: now });
        if state.waiting.len() == self.lanes {
            state.pace.closed(self.lanes);
            return Submitted::Ready(state.close(Closed::Full));
        }
        if state.shut {
            return Submitted::Ready(state.close(Closed::Shutdown));
        }
        let Some(silence_ns) = silence_ns else {
            return Submitted::Ready(state.close(Closed::Sparse));
        };
        let latest = state.waiting[0].submitted.after(WAIT_MAX_NS);
        let deadline = match state.deadline {
            Some(held) if latest <= now => held,
            _ => latest.min(now.after(silence_ns)),
        };
        state.deadline = Some(deadline);
        if state.helper_wakes.is_none_or(|wakes| deadline < wakes) {
            self.changed.notify_one();
        }
        Submitted::Open(deadline)
    }

    /// Closes the batch if its deadline has passed, without waiting.
    pub fn poll(&self, now: Tick) -> Due<J> {
        lock(&self.state).poll(now, |_| false)
    }

    /// Waits for the next batch whose deadline passes; none after [`shut`](Self::shut).
    ///
    /// `clock` reads the clock whose time the submitters pass. When the deadline has passed,
    /// `may_bring_more` says of the youngest job whether the thread that submitted it is still at
    /// work and likely to submit another one: then the batch is held open a little longer, but no
    /// job waits for more than 6 ms in all. It runs under our lock, so it must neither block nor
    /// panic.
    pub fn wait_due(
        &self,
        clock: impl Fn() -> Tick,
        may_bring_more: impl Fn(&J) -> bool,
    ) -> Option<Batch<J>> {
        let mut state = lock(&self.state);
        loop {
            let now = clock();
            match state.poll(now, &may_bring_more) {
                Due::Ready(batch) => {
                    state.helper_wakes = None;
                    return Some(batch);
                }
                Due::Shut => return None,
                Due::Idle => {
                    state.helper_wakes = None;
                    state = wait(&self.changed, state);
                }
                Due::At(deadline) => {
                    state.helper_wakes = Some(deadline);
                    let ns = deadline.since(now);
                    state = wait_at_most(&self.changed, &self.state, state, ns);
                }
            }
        }
    }

    /// Ends the helpers: they get what still waits, then [`wait_due`](Self::wait_due) returns none.
    /// From now on every submitter gets its job straight back.
    pub fn shut(&self) {
        lock(&self.state).shut = true;
        self.changed.notify_all();
    }

    /// Lets jobs wait again after [`shut`](Self::shut), whose helpers have ended.
    pub fn open(&self) {
        lock(&self.state).shut = false;
    }
}

impl<J> State<J> {
    fn poll(&mut self, now: Tick, may_bring_more: impl Fn(&J) -> bool) -> Due<J> {
        match self.deadline {
            Some(_) if self.shut => Due::Ready(self.close(Closed::Shutdown)),
            Some(deadline) if now < deadline => Due::At(deadline),
            Some(_) if self.is_held(now, may_bring_more) => {
                let deadline = now.after(HOLD_STEP_NS);
                self.deadline = Some(deadline);
                Due::At(deadline)
            }
            Some(_) => {
                self.pace.missed(now);
                self.pace.closed(self.waiting.len());
                Due::Ready(self.close(Closed::Deadline))
            }
            None if self.shut => Due::Shut,
            None => Due::Idle,
        }
    }

    fn is_held(&self, now: Tick, may_bring_more: impl Fn(&J) -> bool) -> bool {
        let (Some(oldest), Some(youngest)) = (self.waiting.first(), self.waiting.last()) else {
            return false;
        };
        now.after(HOLD_STEP_NS) <= oldest.submitted.after(HOLD_MAX_NS)
            && may_bring_more(&youngest.job)
    }

    fn close(&mut self, closed: Closed) -> Batch<J> {
        self.deadline = None;
        let capacity = self.waiting.capacity();
        let entries = std::mem::replace(&mut self.waiting, Vec::with_capacity(capacity));
        Batch { entries, closed }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_held_open_for_a_thread_at_work_but_not_for_ever() {
        let shared = Shared::new(8);
        let Submitted::Open(mut deadline) = shared.submit((), Tick(0)) else { panic!("not full") };
        while let Due::At(next) = lock(&shared.state).poll(deadline, |()| true) {
            deadline = next;
        }
        assert!(deadline > Tick(HOLD_MAX_NS - HOLD_STEP_NS) && deadline <= Tick(HOLD_MAX_NS));
    }

    #[test]
    fn a_queue_that_was_shut_may_be_opened_again() {
        let shared = Shared::new(8);
        shared.shut();
        assert!(matches!(shared.submit((), Tick(0)), Submitted::Ready(_)));
        shared.open();
        assert!(matches!(shared.submit((), Tick(1)), Submitted::Open(_)));
    }

    #[test]
    fn a_batch_is_not_held_open_for_a_thread_that_sleeps() {
        let shared = Shared::new(8);
        let Submitted::Open(deadline) = shared.submit((), Tick(0)) else { panic!("not full") };
        assert!(matches!(lock(&shared.state).poll(deadline, |()| false), Due::Ready(_)));
    }
}
