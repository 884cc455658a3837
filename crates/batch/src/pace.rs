//! How long a partial batch is worth waiting for, learnt from what waiting has brought.

use crate::Tick;

/// How long a partial batch is worth waiting for, learnt from what waiting has brought.
///
/// A batch waits for as long as jobs keep coming: it closes after a silence of four mean gaps (the
/// chance of one by accident is e⁻⁴ where arrivals are independent), or when its oldest job has
/// waited for [`WAIT_MAX_NS`]; later only while the helper learns that more may come. Only gaps
/// between jobs that wait together count: others may contain the execution of a batch, and be
/// caused by it.
///
/// One busy thread needs some hundred microseconds from one job to the next, and then waiting pays
/// off; so it does not follow from the gaps alone whether it will. Where [`STRIKES_MAX`] batches in
/// a row have brought fewer than [`JOBS_WORTH`] jobs, nothing waits any more, except one batch in
/// [`PROBE_EVERY`], to find out whether that is still so.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    gap_ns: u64,
    last: Option<Tick>,
    strikes: u32,
    sparse_run: u32,
}

impl Pace {
    pub(crate) const fn new() -> Self {
        Pace { gap_ns: GAP_START_NS, last: None, strikes: 0, sparse_run: 0 }
    }

    /// Learns from an arrival, and says how long a silence from now on closes the batch; none if
    /// the batch is not worth any wait. `opens` says whether it is the only job.
    pub(crate) fn arrived(&mut self, now: Tick, opens: bool) -> Option<u64> {
        if let Some(last) = self.last
            && !opens
        {
            self.learn(now.since(last));
        }
        self.last = Some(now);
        if self.strikes < STRIKES_MAX {
            let silence_ns = SILENCE_GAPS * self.gap_ns;
            return Some(silence_ns.clamp(SILENCE_MIN_NS, SILENCE_MAX_NS));
        }
        self.sparse_run = self.sparse_run.wrapping_add(u32::from(opens));
        self.sparse_run.is_multiple_of(PROBE_EVERY).then_some(SILENCE_MAX_NS)
    }

    /// Learns from a batch that was waited for, and closed with `jobs` jobs.
    pub(crate) fn closed(&mut self, jobs: usize) {
        if jobs >= JOBS_WORTH {
            self.strikes = 0;
        } else {
            self.strikes = (self.strikes + 1).min(STRIKES_MAX);
        }
    }

    /// Learns from a deadline: no job has come since the last arrival, so the gap is longer. A
    /// silence shorter than the gap says nothing.
    pub(crate) fn missed(&mut self, now: Tick) {
        if let Some(last) = self.last {
            self.learn((2 * now.since(last)).max(self.gap_ns));
        }
    }

    /// Moves the mean an eighth of the way; one long pause says no more than "too long".
    fn learn(&mut self, gap_ns: u64) {
        self.gap_ns = (7 * self.gap_ns + gap_ns.min(SILENCE_MAX_NS)) / 8;
    }
}

/// The longest that a job waits for company that nothing announces.
pub(crate) const WAIT_MAX_NS: u64 = 2_000_000;

/// The longest that a job waits while its thread is at work: time for eight handshakes of a slow
/// CPU.
pub(crate) const HOLD_MAX_NS: u64 = 6_000_000;

/// How soon to look again whether it still is.
pub(crate) const HOLD_STEP_NS: u64 = 250_000;

/// The shortest silence that closes a batch: less is lost in the wake-up of the helper.
const SILENCE_MIN_NS: u64 = 10_000;

/// The longest silence that leaves a batch open: a busy thread brings its next job within it.
const SILENCE_MAX_NS: u64 = 500_000;

/// Mean gaps of silence after which no other job is expected.
const SILENCE_GAPS: u64 = 4;

/// Jobs that make waiting worth while: three in a batch cost less than three alone nearly
/// everywhere.
const JOBS_WORTH: usize = 3;

/// Batches in a row that were not worth the wait, after which nothing waits.
const STRIKES_MAX: u32 = 4;

/// While no batch waits, one in this many does all the same.
const PROBE_EVERY: u32 = 64;

/// The gap that is assumed before any job has come.
const GAP_START_NS: u64 = 10_000;
