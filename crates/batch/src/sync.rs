//! Locks, condition variables and atomics: those of std, or loom's models of them.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, fence};
#[cfg(loom)]
pub(crate) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use std::sync::PoisonError;
pub(crate) use std::sync::atomic::Ordering;

/// Locks `mutex`. A panic elsewhere does not poison it: of callers' code only what
/// [`Shared::wait_due`](crate::Shared::wait_due) is given as `may_bring_more` runs under our locks,
/// and that must not panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits on `condvar` until notified, possibly less.
pub(crate) fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// Waits on `condvar` for at most `ns` nanoseconds, possibly less.
#[cfg(not(loom))]
pub(crate) fn wait_at_most<'a, T>(
    condvar: &Condvar,
    _mutex: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
    ns: u64,
) -> MutexGuard<'a, T> {
    let timeout = std::time::Duration::from_nanos(ns);
    condvar.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner).0
}

/// Loom knows no time: any moment may be the one at which the wait ends.
#[cfg(loom)]
pub(crate) fn wait_at_most<'a, T>(
    _condvar: &Condvar,
    mutex: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
    _ns: u64,
) -> MutexGuard<'a, T> {
    drop(guard);
    loom::thread::yield_now();
    lock(mutex)
}
