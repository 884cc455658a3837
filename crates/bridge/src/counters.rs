//! The counters of one accelerated process.
//!
//! With `WIDELANE_COUNTERS_DIR` set, the provider maps one file per process there, named
//! `<pid>.counters`, that holds exactly one [`Counters`]; without it the counters live in plain
//! memory. All values only grow. Readers take a copy of the file and need no lock.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// First eight bytes of a counters file.
pub const COUNTERS_MAGIC: u64 = u64::from_le_bytes(*b"WIDELANE");

/// Version of the layout below.
pub const COUNTERS_VERSION: u32 = 1;

/// Widest batch that the histograms can hold.
pub const LANES_MAX: usize = 16;

/// Buckets of the wait histogram: bucket `i` counts waits below `2^i` microseconds, the last one
/// the rest.
pub const WAIT_BUCKETS: usize = 24;

/// Counters of one process; see the module for where they live.
#[repr(C)]
pub struct Counters {
    /// [`COUNTERS_MAGIC`].
    pub magic: AtomicU64,
    /// [`COUNTERS_VERSION`].
    pub version: AtomicU32,
    /// Process that writes here.
    pub pid: AtomicU32,
    /// Room of the batch kernel, as `widelane_cpu::Room as u32`.
    pub room: AtomicU32,
    /// Lanes of the batch kernel; 1 where there is nothing to batch.
    pub lanes: AtomicU32,
    /// Batches executed by the multi-buffer kernel, by number of jobs in them (index 0 unused).
    pub batches_by_fill: [AtomicU64; LANES_MAX + 1],
    /// Kernel executions by room, indexed by `widelane_cpu::Room as u32`.
    pub runs_by_room: [AtomicU64; 8],
    /// Private-key operations finished in a batch.
    pub jobs_batched: AtomicU64,
    /// Operations that took the single-job path because too few waited to break even.
    pub jobs_single: AtomicU64,
    /// Operations run at once because their caller could not park.
    pub jobs_synchronous: AtomicU64,
    /// Operations handed to the default provider: size, padding or key not accelerated.
    pub jobs_delegated: AtomicU64,
    /// Operations of freed connections, withdrawn before they ran.
    pub jobs_cancelled: AtomicU64,
    /// CRT results that failed the check with the public key and were made again.
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
    /// Handshakes that the runtime drove.
    pub handshakes: AtomicU64,
    /// Calls by the server for a handshake whose job was still parked.
    pub resumes_early: AtomicU64,
}
