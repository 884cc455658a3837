//! Whether a device is to be trusted with the next operation.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use widelane_batch::Tick;

/// What is known of a device: after a fault it rests, each time for longer, and is then tried with
/// one operation.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// Faults since the last right result.
    faults: AtomicU32,
    /// Until when it rests.
    rests_until: AtomicU64,
}

/// The rest after the first fault, and after any further one.
const REST_MIN_NS: u64 = 100_000_000;
const REST_MAX_NS: u64 = 10_000_000_000;

impl Health {
    /// Whether it may have another operation besides those that are under way.
    pub(super) fn admits(&self, now: Tick, under_way: impl FnOnce() -> usize) -> bool {
        !self.rests(now) && (!self.is_doubtful() || under_way() == 0)
    }

    /// Whether it has failed since its last right result.
    pub(super) fn is_doubtful(&self) -> bool {
        self.faults.load(Ordering::Relaxed) > 0
    }

    /// Whether it rests.
    pub(super) fn rests(&self, now: Tick) -> bool {
        Tick(self.rests_until.load(Ordering::Relaxed)).since(now) > 0
    }

    /// It has given a right result for an operation that was submitted at a time; one that it had
    /// before its last fault says nothing.
    pub(super) fn succeeds(&self, submitted: Tick) {
        // Most of the time nothing changes, and the line of the cache stays shared.
        if self.is_doubtful() && !self.rests(submitted) {
            self.faults.store(0, Ordering::Relaxed);
        }
    }

    /// It has given a wrong result, none, or an error, or says that it restarts.
    pub(super) fn fails(&self, now: Tick) {
        // What was under way together fails together, and counts once.
        if self.rests(now) {
            return;
        }
        let faults = self.faults.fetch_add(1, Ordering::Relaxed).min(16);
        let rest_ns = (REST_MIN_NS << faults).min(REST_MAX_NS);
        self.rests_until.store(now.after(rest_ns).0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn it_rests_after_a_fault_and_is_tried_with_one_operation() {
        let health = Health::default();
        assert!(health.admits(Tick(0), || 60));
        health.fails(Tick(0));
        health.fails(Tick(MS));
        assert!(!health.admits(Tick(99 * MS), || 0));
        assert!(health.admits(Tick(100 * MS), || 0));
        assert!(!health.admits(Tick(100 * MS), || 1));
        health.succeeds(Tick(99 * MS));
        assert!(!health.admits(Tick(100 * MS), || 1), "it had that one before the fault");
        health.succeeds(Tick(100 * MS));
        assert!(health.admits(Tick(100 * MS), || 60));
    }

    #[test]
    fn each_fault_in_a_row_makes_the_rest_longer_up_to_an_end() {
        let health = Health::default();
        let mut now = Tick(0);
        for rest_ms in [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000] {
            health.fails(now);
            assert!(health.rests(now.after(rest_ms * MS - 1)), "{rest_ms} ms");
            now = now.after(rest_ms * MS);
            assert!(!health.rests(now), "{rest_ms} ms");
        }
        for _ in 0..100 {
            health.fails(now);
            now = now.after(REST_MAX_NS);
        }
        assert!(!health.rests(now));
    }
}
