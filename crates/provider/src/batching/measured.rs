//! How long operations have been seen to take, in memory that a process shares with those that it
//! forks: what one of them has measured, all know. Workers begin with it after a reload, and a
//! process that is forked for a single connection would else never know.
//!
//! A process that can write here can make others choose a slow way to execute operations, no more.
#![allow(unsafe_code, reason = "zeroed memory that is numbers")]

use std::mem;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use widelane_bridge::counters::OperationKind;

/// Kernels of one kind of operation, at most.
pub(super) const KERNELS_MAX: usize = 8;

/// Measured times until the shortest is trusted to be one that was not interrupted.
pub(super) const SAMPLES_TO_TRUST: u32 = 4;

/// The shortest time of some runs; zeroes are none.
pub(super) struct Measured {
    /// Taken from the largest number, so that it only grows.
    shortest_ns: AtomicU64,
    runs: AtomicU32,
}

/// What is measured of one kind of operation; zeroes are nothing.
pub(super) struct Times {
    /// One operation of the default provider's.
    pub(super) default_provider: Measured,
    /// What one operation of a device's costs this CPU.
    pub(super) device: Measured,
    /// One run of each kernel.
    pub(super) kernels: [Measured; KERNELS_MAX],
    /// How often it was decided what to do here.
    pub(super) decisions: AtomicU32,
    /// How often it was decided whether a device is to do it.
    pub(super) device_decisions: AtomicU32,
}

/// What is measured of all kinds of operations, by kind.
struct Table([Times; OperationKind::ALL.len()]);

impl Times {
    /// What is measured of a kind of operation, by this process and all that were forked from the
    /// one that began.
    pub(super) fn of(kind: OperationKind) -> &'static Self {
        static TABLE: OnceLock<&'static Table> = OnceLock::new();
        let table = TABLE.get_or_init(|| {
            // SAFETY: atomic numbers.
            unsafe { widelane_reserve::shared() }.unwrap_or_else(|_| Box::leak(Table::boxed()))
        });
        &table.0[kind as usize]
    }

    /// Times that no other process or test shares.
    #[cfg(test)]
    pub(super) fn new() -> &'static Self {
        &Box::leak(Table::boxed()).0[0]
    }
}

impl Table {
    fn boxed() -> Box<Self> {
        // SAFETY: numbers, for which all zeroes is valid.
        Box::new(unsafe { mem::zeroed() })
    }
}

impl Measured {
    pub(super) fn record(&self, ns: u64) {
        self.shortest_ns.fetch_max(u64::MAX - ns, Ordering::Relaxed);
        self.runs.fetch_add(1, Ordering::Relaxed);
    }

    /// Nothing before enough runs were seen to trust that one was not interrupted.
    pub(super) fn trusted(&self) -> Option<u64> {
        let enough = self.runs.load(Ordering::Relaxed) >= SAMPLES_TO_TRUST;
        enough.then(|| u64::MAX - self.shortest_ns.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;

    #[test]
    fn what_a_child_has_measured_its_parent_and_their_other_children_know() {
        let times = Times::of(OperationKind::Other);
        assert_eq!(times.kernels[3].trusted(), None);
        for ns in [7_000, 5_000, 6_000, 9_000] {
            // SAFETY: the child does nothing but to count and to end.
            match unsafe { libc::fork() } {
                0 => {
                    times.kernels[3].record(ns);
                    // SAFETY: ends the child.
                    unsafe { libc::_exit(0) }
                }
                child => {
                    // SAFETY: the child above, and no status.
                    assert_eq!(unsafe { libc::waitpid(child, ptr::null_mut(), 0) }, child);
                }
            }
        }
        assert_eq!(times.kernels[3].trusted(), Some(5_000));
    }
}
