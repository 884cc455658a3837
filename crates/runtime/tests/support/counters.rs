//! The counters that accelerated processes leave in a directory.

use std::path::Path;

use widelane_bridge::counters::{LANES_MAX, OperationKind};
use widelane_cpu::Room;
use widelane_host::counters::Counts;
use widelane_testkit::rooms::has_lanes;

/// Sums over all processes of a server, dead ones included.
#[derive(Debug, Default)]
pub struct Sums {
    pub processes: usize,
    pub lanes: usize,
    pub handshakes: u64,
    pub batches_by_fill: [u64; LANES_MAX + 1],
    /// Runs of kernels in rooms that multiply in wide registers.
    pub heavy_runs: u64,
    pub jobs_batched: u64,
    pub jobs_single: u64,
    pub jobs_synchronous: u64,
    pub jobs_delegated: u64,
    pub jobs_cancelled: u64,
    pub fallbacks: u64,
    pub closed_full: u64,
    pub closed_idle: u64,
    pub short_waits: u64,
    pub short_wait_company: u64,
    pub jobs_lent: u64,
    pub jobs_for_others: u64,
    pub jobs_taken_back: u64,
    pub jobs_refused: u64,
    pub lane_process_starts: u64,
    pub device_jobs: u64,
    pub device_full: u64,
    pub device_faults: u64,
    pub device_late: u64,
    /// By kind of operation: those that waited for others, and those that could not.
    kinds: [(u64, u64); OperationKind::ALL.len()],
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
            sums.lanes = sums.lanes.max(counters.lanes);
            for (sum, counter) in sums.batches_by_fill.iter_mut().zip(&counters.batches_by_fill) {
                *sum += counter;
            }
            let heavy = Room::ALL.into_iter().filter(|room| room.licence_class().heavy);
            sums.heavy_runs += heavy.map(|room| counters.runs_by_room[room as usize]).sum::<u64>();
            sums.handshakes += counters.handshakes;
            sums.jobs_batched += counters.jobs_batched;
            sums.jobs_single += counters.jobs_single;
            sums.jobs_synchronous += counters.jobs_synchronous;
            sums.jobs_delegated += counters.jobs_delegated;
            sums.jobs_cancelled += counters.jobs_cancelled;
            sums.fallbacks += counters.fallbacks;
            sums.closed_full += counters.closed_full;
            sums.closed_idle += counters.closed_idle;
            sums.short_waits += counters.short_waits;
            sums.short_wait_company += counters.short_wait_company;
            sums.jobs_lent += counters.jobs_lent;
            sums.jobs_for_others += counters.jobs_for_others;
            sums.jobs_taken_back += counters.jobs_taken_back;
            sums.jobs_refused += counters.jobs_refused;
            sums.device_jobs += counters.device_jobs;
            sums.device_full += counters.device_full;
            sums.device_faults += counters.device_faults;
            sums.device_late += counters.device_late;
            for ((parked, synchronous), kind) in sums.kinds.iter_mut().zip(&counters.by_kind) {
                *parked += kind.batched + kind.single;
                *synchronous += kind.synchronous;
            }
        }
        sums
    }

    /// Private-key operations that waited for others on an event loop.
    pub fn parked(&self) -> u64 {
        self.jobs_batched + self.jobs_single
    }

    /// Those of them that were signatures: one for each full handshake.
    pub fn signed(&self) -> u64 {
        SIGNATURES.iter().map(|kind| self.kinds[*kind as usize].0).sum()
    }

    /// RSA operations, those that could not wait included.
    pub fn rsa(&self) -> u64 {
        let kinds = [OperationKind::Rsa2048, OperationKind::Rsa3072, OperationKind::Rsa4096];
        kinds.map(|kind| self.kinds[kind as usize]).iter().map(|(one, other)| one + other).sum()
    }

    /// Operations of a kind that waited for others on an event loop.
    pub fn parked_of(&self, kind: OperationKind) -> u64 {
        self.kinds[kind as usize].0
    }

    /// Whether there are lanes to fill, as CPU and policy say too; without, every operation is
    /// left to OpenSSL.
    pub fn has_lanes(&self) -> bool {
        assert_eq!(self.lanes > 1, has_lanes(), "{self:?}");
        self.lanes > 1
    }

    /// Asserts that operations waited for others, so many if a number is given.
    pub fn assert_parked(&self, count: Option<u64>) {
        if !self.has_lanes() {
            return self.assert_delegated();
        }
        assert!(self.parked() > 0, "no operation was parked: {self:?}");
        assert!(count.is_none_or(|count| self.parked() == count), "not {count:?}: {self:?}");
    }

    /// Asserts that operations of this kind waited for others, and that none could not.
    pub fn assert_parked_kind(&self, kind: OperationKind) {
        if !self.has_lanes() {
            return self.assert_delegated();
        }
        let (parked, synchronous) = self.kinds[kind as usize];
        assert!(parked > 0, "no {} was parked: {self:?}", kind.name());
        assert_eq!(synchronous, 0, "{}: {self:?}", kind.name());
    }

    /// Asserts that so many signatures waited for others.
    pub fn assert_signed(&self, count: u64) {
        if !self.has_lanes() {
            return self.assert_delegated();
        }
        assert_eq!(self.signed(), count, "{self:?}");
    }

    /// Asserts that at least so many batches closed because nothing else was to come.
    pub fn assert_closed_idle(&self, count: u64) {
        if !self.has_lanes() {
            return self.assert_delegated();
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
            return self.assert_delegated();
        }
        assert!(self.parked() > before.parked(), "no operation was parked: {self:?}");
        assert!(self.closed_full > before.closed_full, "the lanes were never full: {self:?}");
        let full = |sums: &Self| sums.batches_by_fill[self.lanes];
        assert!(full(self) > full(before), "no full batch ran: {self:?}");
    }

    fn assert_delegated(&self) {
        assert!(self.jobs_delegated > 0, "there was nothing to do: {self:?}");
        assert_eq!((self.parked(), self.jobs_synchronous), (0, 0), "{self:?}");
    }
}
