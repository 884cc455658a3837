//! Whether the process is switched off (`widelane off`): then it leaves to OpenSSL what it would
//! do itself.
//!
//! What begins or is executed next does so: nothing waits for the change, and nothing that waits is
//! lost. Contexts of ciphers and key derivations stay what they were when they began. What only we
//! have, ML-KEM with OpenSSL 3.0 to 3.4, is still done here, one by one.
#![allow(unsafe_code, reason = "a pointer to the counters of this process or its parent")]

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Whether it is switched off now.
#[inline]
pub(crate) fn is_off() -> bool {
    let until_ns = word().map_or(0, |word| word.load(Ordering::Relaxed));
    until_ns != 0 && is_before(until_ns)
}

/// Has the process obey `off_until_ns` of its own counters from now on. It begins with `former_ns`,
/// or as its parent is switched, whose counters it has obeyed until now.
pub(crate) fn obey(off_until_ns: &'static AtomicU64, former_ns: u64) {
    let of_parent = word().map_or(0, |word| word.load(Ordering::Relaxed));
    off_until_ns.fetch_max(former_ns.max(of_parent), Ordering::Relaxed);
    WORD.store(std::ptr::from_ref(off_until_ns).cast_mut(), Ordering::Release);
}

fn word() -> Option<&'static AtomicU64> {
    // SAFETY: null, or a counter of a process, which is never unmapped; a child has it as well.
    unsafe { WORD.load(Ordering::Acquire).as_ref() }
}

#[cold]
fn is_before(until_ns: u64) -> bool {
    if until_ns == u64::MAX {
        return true;
    }
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for the time.
    let is_told = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) } == 0;
    let now_ns = now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs();
    is_told && now_ns < until_ns
}

/// `off_until_ns` of the counters that are obeyed; null until there are some.
static WORD: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_has_passed_switches_nothing_off() {
        assert!(!is_before(1) && is_before(u64::MAX) && is_before(u64::MAX - 1));
    }
}
