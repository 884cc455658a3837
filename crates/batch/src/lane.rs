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

/// Where the batch stands after a submit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// So many jobs wait; lanes are free.
    Open(usize),
    /// A whole batch waits.
    Full,
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
    pub fn submit(&mut self, job: J, now: Tick) -> Progress {
        self.waiting.push_back(Entry { job, submitted: now });
        if self.is_full() { Progress::Full } else { Progress::Open(self.waiting.len()) }
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

    /// Like [`flush`](Self::flush), but leaves a partial batch open.
    pub fn flush_full(&mut self) -> Option<Batch<J>> {
        if self.is_full() { self.flush() } else { None }
    }

    /// Takes all jobs, whatever their number.
    pub fn drain(&mut self) -> Vec<Entry<J>> {
        self.waiting.drain(..).collect()
    }

    /// Withdraws the oldest job for which `matches` answers true.
    pub fn remove(&mut self, mut matches: impl FnMut(&J) -> bool) -> Option<J> {
        let index = self.waiting.iter().position(|entry| matches(&entry.job))?;
        self.waiting.remove(index).map(|entry| entry.job)
    }

    /// Whether a whole batch waits.
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= self.lanes
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
