//! What a forked child has of its parent: the memory, but of the threads only the one that forked.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;

use super::UpdateError;

/// Tells a process from those that it was forked from; always the same number where the system
/// does not tell.
pub(super) fn process() -> u64 {
    widelane_vault::fork_generation().unwrap_or(0)
}

/// A lock that is refused in a child if a thread of the parent held it at the fork: nobody would
/// ever unlock it.
#[derive(Debug)]
pub(super) struct ForkMutex<T> {
    value: Mutex<T>,
    /// A process, shifted by [`BITS`], and what the lock is there.
    state: AtomicU64,
}

const BITS: u32 = 2;
/// Threads lock it.
const USABLE: u64 = 0;
/// A thread is finding out.
const EXAMINED: u64 = 1;
/// It was locked at the fork.
const LOST: u64 = 2;

impl<T> ForkMutex<T> {
    pub fn new(value: T) -> Self {
        ForkMutex { value: Mutex::new(value), state: AtomicU64::new(process() << BITS | USABLE) }
    }

    /// A panic elsewhere does not poison it.
    pub fn lock(&self) -> Result<MutexGuard<'_, T>, UpdateError> {
        self.lock_in(process())
    }

    fn lock_in(&self, process: u64) -> Result<MutexGuard<'_, T>, UpdateError> {
        loop {
            let state = self.state.load(Ordering::Acquire);
            if state >> BITS != process {
                self.examine(state, process << BITS);
                continue;
            }
            match state % (1 << BITS) {
                USABLE => return Ok(self.value.lock().unwrap_or_else(PoisonError::into_inner)),
                LOST => return Err(UpdateError::Forked),
                _ => thread::yield_now(),
            }
        }
    }

    /// Finds out what the lock is in this process, unless another thread does.
    fn examine(&self, state: u64, here: u64) {
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        if self.state.compare_exchange(state, here | EXAMINED, acquire, relaxed).is_ok() {
            // No thread of this process has locked it yet.
            let is_lost = matches!(self.value.try_lock(), Err(TryLockError::WouldBlock));
            let found = if is_lost { LOST } else { USABLE };
            self.state.store(here | found, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_refuses_what_was_locked_at_the_fork() {
        let [parent, child, grandchild] = [0, 1, 2].map(|younger| process() + younger);
        let lock = ForkMutex::new(7);
        assert_eq!(lock.lock_in(parent).map(|value| *value), Ok(7));
        let held = lock.lock_in(parent);
        for _ in 0..2 {
            assert_eq!(lock.lock_in(child).map(drop), Err(UpdateError::Forked));
        }
        drop(held);
        assert_eq!(lock.lock_in(child).map(drop), Err(UpdateError::Forked), "it was lost for ever");
        assert_eq!(lock.lock_in(grandchild).map(|value| *value), Ok(7));
    }
}
