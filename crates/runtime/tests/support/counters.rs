//! The counters that accelerated processes leave in a directory.

use std::ops::Deref;
use std::path::Path;

use widelane_bridge::counters::OperationKind;
use widelane_cpu::Room;
use widelane_host::counters::Counts;
use widelane_testkit::rooms::{has_lanes, has_lanes_of_curves, has_rsa, has_x25519};

/// Sums over all processes of a server, dead ones included.
#[derive(Debug, Default)]
pub struct Sums {
    pub processes: usize,
    /// How often the lane process had been started.
    pub lane_process_starts: u64,
    /// Runs of kernels in rooms that multiply in wide registers.
    pub heavy_runs: u64,
    counts: Counts,
}

impl Deref for Sums {
    type Target = Counts;

    fn deref(&self) -> &Counts {
        &self.counts
    }
}

/// The kinds of operations that are signatures, or decryptions in place of one.
const SIGNATURES: [OperationKind; 6] = [
    OperationKind::Rsa2048,
    OperationKind::Rsa3072,
    OperationKind::Rsa4096,
    OperationKind::P256Sign,
    OperationKind::P384Sign,
    OperationKind::Ed25519Sign,
];

impl Sums {
    /// Reads every file of counters in `directory`.
    pub fn read(directory: &Path) -> Self {
        Self::of(directory, |_| true)
    }

    /// Reads those files of counters in `directory` that `is_one` says yes to, told how often the
    /// lane process had been started that it is of; 0 if it is of another process.
    pub fn of(directory: &Path, is_one: impl Fn(u64) -> bool) -> Self {
        let mut sums = Self::default();
        for counters in Counts::read_all(directory) {
            let starts = counters.lane_process_starts;
            if !is_one(starts) {
                continue;
            }
            sums.lane_process_starts = sums.lane_process_starts.max(starts);
            sums.processes += 1;
            let heavy = Room::ALL.into_iter().filter(|room| room.licence_class().heavy);
            sums.heavy_runs += heavy.map(|room| counters.runs_by_room[room as usize]).sum::<u64>();
            sums.counts.add(&counters);
        }
        sums
    }

    /// Private-key operations that waited for others on an event loop.
    pub fn parked(&self) -> u64 {
        self.jobs_batched + self.jobs_single
    }

    /// Those of them that were signatures: one for each full handshake.
    pub fn signed(&self) -> u64 {
        SIGNATURES.into_iter().map(|kind| self.parked_of(kind)).sum()
    }

    /// RSA operations, those that could not wait included.
    pub fn rsa(&self) -> u64 {
        let kinds = [OperationKind::Rsa2048, OperationKind::Rsa3072, OperationKind::Rsa4096];
        kinds.map(|kind| self.done_of(kind)).iter().sum()
    }

    /// Operations of a kind that waited for others on an event loop.
    pub fn parked_of(&self, kind: OperationKind) -> u64 {
        let kind = &self.by_kind[kind as usize];
        kind.batched + kind.single
    }

    /// Those of a kind that kernels did: those that waited, and those that could not.
    fn done_of(&self, kind: OperationKind) -> u64 {
        self.parked_of(kind) + self.by_kind[kind as usize].synchronous
    }

    /// Whether RSA has lanes to fill, as CPU and policy say too; without, its operations are done
    /// one at a time, by a kernel for one job or by OpenSSL.
    pub fn has_lanes(&self) -> bool {
        assert_eq!(self.lanes > 1, has_lanes(), "{self:?}");
        self.lanes > 1
    }

    /// Asserts that operations waited for others, so many if a number is given.
    pub fn assert_parked(&self, count: Option<u64>) {
        if !self.has_lanes() {
            return self.assert_one_by_one();
        }
        assert!(self.parked() > 0, "no operation was parked: {self:?}");
        assert!(count.is_none_or(|count| self.parked() == count), "not {count:?}: {self:?}");
    }

    /// Asserts that operations of this kind waited for others, and that none could not.
    pub fn assert_parked_kind(&self, kind: OperationKind) {
        if !has_lanes_of(kind) {
            return self.assert_one_by_one();
        }
        assert!(self.parked_of(kind) > 0, "no {} was parked: {self:?}", kind.name());
        assert_eq!(self.by_kind[kind as usize].synchronous, 0, "{}: {self:?}", kind.name());
    }

    /// Asserts that so many signatures waited for others.
    pub fn assert_signed(&self, count: u64) {
        if !self.has_lanes() {
            return self.assert_one_by_one();
        }
        assert_eq!(self.signed(), count, "{self:?}");
    }

    /// Asserts that at least so many batches closed because nothing else was to come.
    pub fn assert_closed_idle(&self, count: u64) {
        if !self.has_lanes() {
            return self.assert_one_by_one();
        }
        assert!(self.closed_idle >= count, "{self:?}");
    }

    /// Asserts that handshakes were driven and executed together, and nothing failed over.
    pub fn assert_batched(&self) {
        self.assert_batched_since(&Self::default());
    }

    /// The same of what came since `before`.
    pub fn assert_batched_since(&self, before: &Self) {
        assert!(self.handshakes > before.handshakes, "no handshake was driven: {self:?}");
        assert_eq!(self.fallbacks, 0, "{self:?}");
        if !self.has_lanes() {
            return self.assert_one_by_one();
        }
        assert!(self.parked() > before.parked(), "no operation was parked: {self:?}");
        assert!(self.closed_full > before.closed_full, "the lanes were never full: {self:?}");
        let full = |sums: &Self| sums.batches_by_fill[self.lanes];
        assert!(full(self) > full(before), "no full batch ran: {self:?}");
    }

    /// Asserts that the default provider did everything that has no kernel for one job.
    fn assert_one_by_one(&self) {
        let has_kernel = |kind: &OperationKind| match kind {
            OperationKind::X25519Derive => has_x25519(),
            OperationKind::Rsa2048 | OperationKind::Rsa3072 | OperationKind::Rsa4096 => has_rsa(),
            kind => has_lanes_of(*kind),
        };
        // The totals are without key generations.
        let counted = |kind: &OperationKind| !kind.is_generation();
        let (with_kernel, others): (Vec<_>, Vec<_>) =
            OperationKind::ALL.into_iter().filter(counted).partition(has_kernel);
        let ours: u64 = with_kernel.into_iter().map(|kind| self.done_of(kind)).sum();
        assert!(ours + self.jobs_delegated > 0, "there was nothing to do: {self:?}");
        assert_eq!(self.parked() + self.jobs_synchronous, ours, "{self:?}");
        let parked: u64 = others.into_iter().map(|kind| self.parked_of(kind)).sum();
        assert_eq!(parked, 0, "{self:?}");
    }
}

/// Whether operations of a kind can be batched, by CPU and policy.
fn has_lanes_of(kind: OperationKind) -> bool {
    let is_on_curve = !kind.name().contains("rsa") && !kind.name().contains("mlkem");
    if is_on_curve { has_lanes_of_curves() } else { has_lanes() }
}
