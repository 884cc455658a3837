//! Jobs that leave the queue together.

use crate::Tick;

/// Why a batch was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Closed {
    /// Every lane has a job.
    Full,
    /// The event loop had nothing else to do.
    Idle,
    /// The deadline passed.
    Deadline,
    /// A leading thread began its turn.
    Leader,
    /// Waiting has brought no other job of late.
    Sparse,
    /// The queue was shut down.
    Shutdown,
}

/// One job and the time it was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<J> {
    /// The job.
    pub job: J,
    /// When it was submitted.
    pub submitted: Tick,
}

/// Jobs that leave the queue together: at least one, at most as many as there are lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch<J> {
    pub(crate) entries: Vec<Entry<J>>,
    pub(crate) closed: Closed,
}

impl<J> Batch<J> {
    /// Number of jobs.
    pub fn fill(&self) -> usize {
        self.entries.len()
    }

    /// Why it was closed.
    pub fn closed(&self) -> Closed {
        self.closed
    }

    /// The jobs and the times they were submitted, oldest first.
    pub fn entries(&self) -> &[Entry<J>] {
        &self.entries
    }

    /// The jobs, oldest first.
    pub fn jobs_mut(&mut self) -> impl ExactSizeIterator<Item = &mut J> {
        self.entries.iter_mut().map(|entry| &mut entry.job)
    }

    /// The jobs, oldest first.
    pub fn into_jobs(self) -> impl ExactSizeIterator<Item = J> {
        self.entries.into_iter().map(|entry| entry.job)
    }

    /// How long each job has waited at `now`, in nanoseconds, oldest first.
    pub fn waits_ns(&self, now: Tick) -> impl ExactSizeIterator<Item = u64> {
        self.entries.iter().map(move |entry| now.since(entry.submitted))
    }
}
