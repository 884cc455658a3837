//! Whether the process is switched off (`widelane off`): then it leaves to OpenSSL what it would
//! do itself.
//!
//! What begins or is executed next does so: nothing waits for the change, and nothing that waits is
//! lost. Contexts of ciphers and key derivations stay what they were when they began. What only we
//! have, ML-KEM with OpenSSL 3.0 to 3.4, is still done here, one by one.
#![allow(unsafe_code, reason = "a pointer to the counters of this process or its parent")]

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use widelane_bridge::counters::{OFF_FOR_GOOD, ON};
use widelane_cpu::clock;

/// Whether it is switched off now.
#[inline]
pub(crate) fn is_off() -> bool {
    let until_ns = word().map_or(ON, |word| word.load(Ordering::Relaxed));
    until_ns != ON && is_before(until_ns)
}

/// Has a process that obeys none yet begin as `former_ns` says.
pub(crate) fn begin(former_ns: impl FnOnce() -> u64) {
    if word().is_none() {
        FORMER_NS.store(former_ns(), Ordering::Relaxed);
        WORD.store(ptr::from_ref(&FORMER_NS).cast_mut(), Ordering::Release);
    }
}

/// Has the process obey `off_until_ns` of its own counters from now on. It goes on as what it has
/// obeyed until now says: that of its parent, or what it began with.
pub(crate) fn obey(off_until_ns: &'static AtomicU64) {
    if word().is_some_and(|word| ptr::eq(word, &NEVER)) {
        return;
    }
    let former_ns = word().map_or(ON, |word| word.load(Ordering::Relaxed));
    off_until_ns.fetch_max(former_ns, Ordering::Relaxed);
    WORD.store(ptr::from_ref(off_until_ns).cast_mut(), Ordering::Release);
}

/// Has this process, the lane process, never be off: it does what workers leave to it, and those
/// that are off leave it nothing.
pub(crate) fn begin_lane_process() {
    WORD.store(ptr::from_ref(&NEVER).cast_mut(), Ordering::Release);
}

fn word() -> Option<&'static AtomicU64> {
    // SAFETY: null, or a counter of a process, which is never unmapped; a child has it as well.
    unsafe { WORD.load(Ordering::Acquire).as_ref() }
}

#[cold]
fn is_before(until_ns: u64) -> bool {
    until_ns == OFF_FOR_GOOD || clock::now_ns() < until_ns
}

/// `off_until_ns` of the counters that are obeyed, or what stands for it; null at the beginning.
static WORD: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());
static FORMER_NS: AtomicU64 = AtomicU64::new(ON);
static NEVER: AtomicU64 = AtomicU64::new(ON);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_has_passed_switches_nothing_off() {
        assert!(!is_before(1) && is_before(u64::MAX) && is_before(u64::MAX - 1));
    }
}
