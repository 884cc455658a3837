//! Counting: what has been done in this process, for readers in other processes.

mod file;
mod pages;

use std::sync::atomic::{AtomicU64, Ordering};

use widelane_bridge::counters::{Counters, KindCounters, OperationKind, WAIT_BUCKETS};

use crate::process;
pub(crate) use file::{are_there, former_off_until_ns};
pub(crate) use pages::{Pages, begin_thread};

/// Counts one.
pub(crate) fn count(counter: &AtomicU64) {
    add(counter, 1);
}

/// Counts `number`.
pub(crate) fn add(counter: &AtomicU64, number: usize) {
    counter.fetch_add(number as u64, Ordering::Relaxed);
}

/// How an operation was done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// By a kernel, after it waited for others, together with them or alone.
    Batched,
    /// One by one by the default provider, where that costs less than a kernel.
    Single,
    /// At once, because its caller could not wait.
    Synchronous,
    /// By the default provider, because we do not accelerate it.
    Delegated,
}

/// Counts an operation under its kind and, but for key generation, in the totals.
pub(crate) fn count_job(counters: &Counters, kind: OperationKind, how: How) {
    let of_kind = of_kind(counters, kind);
    let (part, total) = match how {
        How::Batched => (&of_kind.batched, &counters.jobs_batched),
        How::Single => (&of_kind.single, &counters.jobs_single),
        How::Synchronous => (&of_kind.synchronous, &counters.jobs_synchronous),
        How::Delegated => (&of_kind.delegated, &counters.jobs_delegated),
    };
    count(part);
    if !kind.is_generation() {
        count(total);
    }
}

/// Counts an operation that is left to the default provider.
pub(crate) fn count_delegated(kind: OperationKind) {
    count_job(process::current().counters(), kind, How::Delegated);
}

/// The counters of one kind.
pub(crate) fn of_kind(counters: &Counters, kind: OperationKind) -> &KindCounters {
    &counters.kinds[kind as usize]
}

/// Counts how long a job waited.
pub(crate) fn count_wait(counters: &Counters, wait_ns: u64) {
    let bucket = (u64::BITS - (wait_ns / 1000).leading_zeros()) as usize;
    count(&counters.waits_by_bucket[bucket.min(WAIT_BUCKETS - 1)]);
    counters.wait_ns_total.fetch_add(wait_ns, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_leave_key_generation_out() {
        let pages = Pages::of_nobody();
        let counters = pages.first();
        for kind in OperationKind::ALL {
            count_job(counters, kind, How::Single);
            assert_eq!(of_kind(counters, kind).single.load(Ordering::Relaxed), 1);
        }
        let others = OperationKind::ALL.iter().filter(|kind| !kind.name().ends_with("-generate"));
        assert_eq!(counters.jobs_single.load(Ordering::Relaxed), others.count() as u64);
    }

    #[test]
    fn waits_fall_below_the_powers_of_two() {
        let pages = Pages::of_nobody();
        let counters = pages.first();
        for (wait_ns, bucket) in [(0, 0), (999, 0), (1_000, 1), (1_999, 1), (2_000, 2), (7_999, 3)]
        {
            let before = counters.waits_by_bucket[bucket].load(Ordering::Relaxed);
            count_wait(counters, wait_ns);
            assert_eq!(counters.waits_by_bucket[bucket].load(Ordering::Relaxed), before + 1);
        }
        count_wait(counters, u64::MAX);
        assert_eq!(counters.waits_by_bucket[WAIT_BUCKETS - 1].load(Ordering::Relaxed), 1);
    }
}
