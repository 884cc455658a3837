//! The one clock, and CPU times.

use rustix::time::{ClockId, clock_gettime};

/// Monotonic nanoseconds since the system started, the same for all processes
/// (`CLOCK_MONOTONIC`).
#[inline]
pub fn now_ns() -> u64 {
    ns(ClockId::Monotonic)
}

/// CPU time that this process has used, in nanoseconds.
pub fn process_ns() -> u64 {
    ns(ClockId::ProcessCPUTime)
}

/// CPU time that the calling thread has used, in nanoseconds.
pub fn thread_ns() -> u64 {
    ns(ClockId::ThreadCPUTime)
}

#[inline]
fn ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
