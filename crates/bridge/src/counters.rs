//! The counters of one accelerated process.
//!
//! With [`COUNTERS_DIRECTORY_VARIABLE`] set, the provider maps one file per process there, named
//! `<pid>.counters`, of [`COUNTERS_PAGES`] times [`Counters`]; without it counters live in plain
//! memory. Each thread counts on a page of its own, so that none waits for another one's cache
//! line; a page whose thread has ended goes to the next thread with all that stands on it, and
//! threads that find none left count on the first. What a process has done is the sum of its pages.
//! Those that no thread has had yet are holes in the file.
//!
//! Counts and sums only grow. What says how things stand goes up and down: [`ChoiceCounters`] but
//! for its counts, and [`Counters::off_until_ns`], which others write. Readers take a copy of the
//! file and need no lock. What a reader has to check before it uses a file is in
//! `docs/formats/status.md`.

use core::sync::atomic::{AtomicU32, AtomicU64};

pub use crate::kinds::{CipherKind, OperationKind};

/// First eight bytes of a counters file.
pub const COUNTERS_MAGIC: u64 = u64::from_le_bytes(*b"WIDELANE");

/// Version of the layout below.
pub const COUNTERS_VERSION: u32 = 15;

/// Pages of a process, two of the machine's each: more than most servers have threads.
pub const COUNTERS_PAGES: usize = 64;

/// Size of a counters file.
pub const COUNTERS_FILE_BYTES: usize = COUNTERS_PAGES * size_of::<Counters>();

/// Environment variable that names the directory of the files.
pub const COUNTERS_DIRECTORY_VARIABLE: &str = "WIDELANE_COUNTERS_DIR";

/// [`Counters::off_until_ns`] of a process that is not switched off.
pub const ON: u64 = 0;

/// [`Counters::off_until_ns`] of a process that stays switched off until somebody switches it on.
pub const OFF_FOR_GOOD: u64 = u64::MAX;

/// Extension of the files' names.
pub const COUNTERS_EXTENSION: &str = "counters";

/// Widest batch that the histograms can hold.
pub const LANES_MAX: usize = 16;

/// Buckets of the wait histogram: bucket `i` counts waits below `2^i` microseconds, the last one
/// the rest.
pub const WAIT_BUCKETS: usize = 24;

/// Places for rooms: more than there are in `widelane_cpu::Room`.
pub const ROOMS_MAX: usize = 16;

/// Room for kinds of operations: more than there are in [`OperationKind`], so that others can be
/// added without another layout.
pub const KINDS_MAX: usize = 48;

/// Places for ciphers: as many as there are in [`CipherKind`], or more.
pub const CIPHERS_MAX: usize = 8;

/// Policies that a process chooses from, at most: as many as `widelane_cpu::policy` has.
pub const ALTERNATIVES_MAX: usize = 4;

/// Counters of one cipher. Connections bring what they have counted every now and then, and when
/// they end, not with each message.
#[repr(C)]
pub struct CipherCounters {
    /// Messages, such as records of TLS, that were sealed or opened, by room, as `runs_by_room`.
    pub messages_by_room: [AtomicU64; ROOMS_MAX],
    /// Bytes of text in them.
    pub bytes: AtomicU64,
}

/// Counters of one kind of operation.
#[repr(C)]
pub struct KindCounters {
    /// Operations that waited for others and were done by a kernel, together or alone.
    pub batched: AtomicU64,
    /// Operations done one by one by the default provider, where that costs less than a kernel.
    pub single: AtomicU64,
    /// Operations run at once because their caller could not park.
    pub synchronous: AtomicU64,
    /// Operations handed to the default provider.
    pub delegated: AtomicU64,
    /// Key pairs taken out of a pool.
    pub pooled: AtomicU64,
    /// Key pairs made for pools.
    pub pool_made: AtomicU64,
    /// Key pairs of pools that were wiped unused, because they were too old.
    pub pool_expired: AtomicU64,
    /// Runs of the multi-buffer kernel.
    pub runs: AtomicU64,
    /// Groups of operations that were executed together, by one run or divided among several.
    pub meetings: AtomicU64,
    /// Operations that one batch holds at most, on the first page only; 1 where there is nothing to
    /// batch.
    pub lanes: AtomicU64,
}

/// One of the policies that a process chooses from.
#[repr(C)]
pub struct AlternativeCounters {
    /// The rooms that it leaves open: a bit for each, by `widelane_cpu::Room as u32`.
    pub rooms: AtomicU32,
    /// Slices of time in which it held in the last comparison that ended.
    pub slices: AtomicU32,
    /// What it cost there: thousandths of what the cheapest one did; 0 if nothing is known.
    pub relative_cost: AtomicU32,
    /// The core clock there in MHz; 0 if it is not known.
    pub clock_mhz: AtomicU32,
}

/// What a process chose that compares policies while it runs.
#[repr(C)]
pub struct ChoiceCounters {
    /// How many policies it chooses from; 0 where it has but one.
    pub alternatives: AtomicU32,
    /// The place of that which holds now.
    pub current: AtomicU32,
    /// 1 while policies are being compared, 0 between comparisons.
    pub is_comparing: AtomicU32,
    /// Why they are or were compared, as `widelane_cpu::policy::trial::Cause as u32`.
    pub cause: AtomicU32,
    /// Why the policy was chosen that holds between comparisons, as
    /// `widelane_cpu::policy::trial::Verdict as u32`.
    pub verdict: AtomicU32,
    /// Comparisons that have ended.
    pub comparisons: AtomicU32,
    /// How often another policy came to hold.
    pub switches: AtomicU64,
    /// Each of the policies.
    pub each: [AlternativeCounters; ALTERNATIVES_MAX],
}

/// Counters of one thread of a process; see the module for where they live.
///
/// The totals (`jobs_batched` to `jobs_delegated`) are the sums over all kinds that are no key
/// generation; the histograms count their batches only.
///
/// What concerns the process, `magic` to `pages_used` and from `choice` on, stands on its first
/// page only.
#[repr(C, align(4096))]
pub struct Counters {
    /// [`COUNTERS_MAGIC`].
    pub magic: AtomicU64,
    /// [`COUNTERS_VERSION`].
    pub version: AtomicU32,
    /// Process that writes here.
    pub pid: AtomicU32,
    /// Lanes of the batch kernel for RSA; 1 where there is nothing to batch.
    pub lanes: AtomicU32,
    /// When the process started, in clock ticks after boot: field 22 of `/proc/<pid>/stat`. It
    /// distinguishes the process from a later one of the same number; 0 if it could not be read.
    pub started_ticks: AtomicU64,
    /// Pages that threads have had: no others have figures.
    pub pages_used: AtomicU64,
    /// Batches executed by the multi-buffer kernel, by number of jobs in them (index 0 unused).
    pub batches_by_fill: [AtomicU64; LANES_MAX + 1],
    /// Kernel executions by room, indexed by `widelane_cpu::Room as u32`.
    pub runs_by_room: [AtomicU64; ROOMS_MAX],
    /// Operations that waited for others and were done by a kernel, together or alone.
    pub jobs_batched: AtomicU64,
    /// Operations done one by one by the default provider, where that costs less than a kernel.
    pub jobs_single: AtomicU64,
    /// Operations run at once because their caller could not park.
    pub jobs_synchronous: AtomicU64,
    /// Operations handed to the default provider: key, curve or padding not accelerated.
    pub jobs_delegated: AtomicU64,
    /// Operations of freed connections, withdrawn before they ran.
    pub jobs_cancelled: AtomicU64,
    /// Results that failed their check and were made again.
    pub faults_detected: AtomicU64,
    /// Internal failures that were answered by the default provider instead.
    pub fallbacks: AtomicU64,
    /// Batches closed because the lanes were full.
    pub closed_full: AtomicU64,
    /// Batches closed because the event loop was about to sleep.
    pub closed_idle: AtomicU64,
    /// Batches closed by the deadline of the helper thread.
    pub closed_deadline: AtomicU64,
    /// Batches closed by a leading blocking thread.
    pub closed_leader: AtomicU64,
    /// Times a parked job waited, by power of two of microseconds.
    pub waits_by_bucket: [AtomicU64; WAIT_BUCKETS],
    /// Sum of all waits, ns.
    pub wait_ns_total: AtomicU64,
    /// Partial batches that waited for company though their event loop had nothing else to do.
    pub short_waits: AtomicU64,
    /// How long they waited for it, ns.
    pub short_wait_ns_total: AtomicU64,
    /// Operations that joined them meanwhile.
    pub short_wait_company: AtomicU64,
    /// Operations that another worker has done.
    pub jobs_lent: AtomicU64,
    /// Operations done for other workers. They are counted among the others here, and not by those.
    pub jobs_for_others: AtomicU64,
    /// Operations that another worker had claimed and not finished in time.
    pub jobs_taken_back: AtomicU64,
    /// Operations in shared memory that made no sense, or results that were wrong.
    pub jobs_refused: AtomicU64,
    /// How often the lane process of the service had been started when this one was, which is it;
    /// 0 in all other processes.
    pub lane_process_starts: AtomicU64,
    /// Operations that a device has done.
    pub device_jobs: AtomicU64,
    /// Operations that it had no room for.
    pub device_full: AtomicU64,
    /// Operations that it does not do: of a key that it does not take, or without a result.
    pub device_refused: AtomicU64,
    /// Operations that it could have done, which cost less in lanes.
    pub device_dearer: AtomicU64,
    /// Wrong results of the device, and errors in place of one; the CPU has done those operations.
    pub device_faults: AtomicU64,
    /// Operations that were taken back from the device after some time.
    pub device_late: AtomicU64,
    /// Handshakes of event loops that the runtime began to drive, failed ones included: none where
    /// threads block in them.
    pub handshakes: AtomicU64,
    /// What each kind has its part in, indexed by `OperationKind as u32`.
    pub kinds: [KindCounters; KINDS_MAX],
    /// Ciphers, indexed by `CipherKind as u32`.
    pub ciphers: [CipherCounters; CIPHERS_MAX],
    /// Which policy the process chose.
    pub choice: ChoiceCounters,
    /// 1 if the policy was refused, so that nothing is accelerated.
    pub policy_refused: AtomicU64,
    /// The process leaves all operations to OpenSSL until `CLOCK_MONOTONIC` shows this: [`ON`] for
    /// not at all, [`OFF_FOR_GOOD`]. Who may write the file sets it (`widelane off`); the process
    /// itself only reads it, and has its children begin with it.
    pub off_until_ns: AtomicU64,
}

const _: () = assert!(OperationKind::ALL.len() <= KINDS_MAX);
const _: () = assert!(CipherKind::ALL.len() <= CIPHERS_MAX);
const _: () = assert!(size_of::<Counters>() == 8192);

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    /// Files outlive the program that wrote them, and other programs read them: a change of layout
    /// needs a new version.
    #[test]
    fn the_layout_is_that_of_its_version() {
        assert_eq!(COUNTERS_VERSION, 15);
        assert_eq!((size_of::<Counters>(), COUNTERS_FILE_BYTES), (8192, 512 << 10));
        assert_eq!(offset_of!(Counters, version), 8);
        assert_eq!(offset_of!(Counters, handshakes), 704);
        assert_eq!((offset_of!(Counters, kinds), size_of::<KindCounters>()), (712, 80));
        assert_eq!((offset_of!(Counters, ciphers), size_of::<CipherCounters>()), (4552, 136));
        assert_eq!((offset_of!(Counters, choice), size_of::<ChoiceCounters>()), (5640, 96));
        assert_eq!(offset_of!(Counters, policy_refused), 5736);
        assert_eq!(offset_of!(Counters, off_until_ns), 5744);
    }

    #[test]
    fn there_is_room_for_more_kinds() {
        assert!(OperationKind::ALL.len() + 8 <= KINDS_MAX, "make the page larger in time");
    }
}
