//! How long a partial batch is worth waiting for, learnt from the gaps between arrivals.

use crate::Tick;

/// How long a partial batch is worth waiting for, learnt from the gaps between arrivals.
///
/// A batch waits for as long as jobs keep coming: it closes after a silence of four mean gaps (the
/// chance of one by accident is e⁻⁴ where arrivals are independent), or when its oldest job has
/// waited for [`WAIT_MAX_NS`]. Where the mean gap is so long that not even [`JOBS_WORTH`] jobs
/// would come in that time, nothing waits, except one batch in [`PROBE_EVERY`], to find out whether
/// that is still so.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    gap_ns: u64,
    last: Option<Tick>,
    sparse_run: u32,
}

impl Pace {
    pub(crate) const fn new() -> Self {
        Pace { gap_ns: GAP_START_NS, last: None, sparse_run: 0 }
    }

    /// Learns from an arrival, and says how long a silence from now on closes the batch; none if
    /// the batch is not worth any wait. `opens` says whether nobody else waited.
    ///
    /// The gap before an opening arrival may hold the execution of the last batch, so it only
    /// counts if it is shorter than any silence.
    pub(crate) fn arrived(&mut self, now: Tick, opens: bool) -> Option<u64> {
        if let Some(last) = self.last {
            let gap_ns = now.since(last);
            if !opens || gap_ns < self.gap_ns.min(SILENCE_MIN_NS) {
                self.learn(gap_ns);
            }
        }
        self.last = Some(now);
        if self.gap_ns * (JOBS_WORTH - 1) <= WAIT_MAX_NS {
            self.sparse_run = 0;
            return Some((SILENCE_GAPS * self.gap_ns).max(SILENCE_MIN_NS));
        }
        self.sparse_run = self.sparse_run.wrapping_add(u32::from(opens));
        self.sparse_run.is_multiple_of(PROBE_EVERY).then_some(SILENCE_MIN_NS)
    }

    /// Learns from a deadline: nobody has come since the last arrival, so the gap is longer. A
    /// short silence says nothing against a long gap.
    pub(crate) fn missed(&mut self, now: Tick) {
        if let Some(last) = self.last {
            self.learn((2 * now.since(last)).max(self.gap_ns));
        }
    }

    /// Moves the mean an eighth of the way; one long pause says no more than "too long".
    fn learn(&mut self, gap_ns: u64) {
        self.gap_ns = (7 * self.gap_ns + gap_ns.min(WAIT_MAX_NS)) / 8;
    }
}

/// The longest that any job waits.
pub(crate) const WAIT_MAX_NS: u64 = 200_000;

/// The shortest silence that closes a batch: less is lost in the wake-up of the helper.
const SILENCE_MIN_NS: u64 = 10_000;

/// Mean gaps of silence after which nobody else is expected.
const SILENCE_GAPS: u64 = 4;

/// Jobs that make waiting worth while: about the break-even of all our batches.
const JOBS_WORTH: u64 = 3;

/// While arrivals are sparse, one batch in so many waits all the same.
const PROBE_EVERY: u32 = 16;

/// What is believed before anybody has come.
const GAP_START_NS: u64 = 10_000;
