//! The queue of one event-loop thread.

use std::collections::VecDeque;

use crate::{Batch, Closed, Entry, Tick};

/// The queue of one event-loop thread: that thread submits, and that thread flushes.
///
/// More jobs than lanes may wait; they leave oldest first, one batch at a time.
#[derive(Debug)]
pub struct Lane<J> {
    lanes: usize,
    waiting: VecDeque<Entry<J>>,
}

impl<J> Lane<J> {
    /// An empty queue for batches of `lanes` jobs.
    ///
    /// # Panics
    ///
    /// If `lanes` is 0.
    pub fn new(lanes: usize) -> Self {
        assert!(lanes > 0, "a batch needs at least one lane");
        Lane { lanes, waiting: VecDeque::with_capacity(2 * lanes) }
    }

    /// Adds a job.
    pub fn submit(&mut self, job: J, now: Tick) {
        self.waiting.push_back(Entry { job, submitted: now });
    }

    /// Takes the oldest jobs, at most as many as there are lanes; none if none wait.
    pub fn flush(&mut self) -> Option<Batch<J>> {
        let fill = self.waiting.len().min(self.lanes);
        if fill == 0 {
            return None;
        }
        let closed = if fill == self.lanes { Closed::Full } else { Closed::Idle };
        Some(Batch { entries: self.waiting.drain(..fill).collect(), closed })
    }

    /// Takes all jobs, whatever their number.
    pub fn drain(&mut self) -> Vec<Entry<J>> {
        self.waiting.drain(..).collect()
    }

    /// Withdraws the oldest job for which `matches` returns true.
    pub fn remove(&mut self, mut matches: impl FnMut(&J) -> bool) -> Option<J> {
        let index = self.waiting.iter().position(|entry| matches(&entry.job))?;
        self.waiting.remove(index).map(|entry| entry.job)
    }

    /// Number of jobs that wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no job waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Number of jobs in a whole batch.
    pub fn lanes(&self) -> usize {
        self.lanes
    }
}
