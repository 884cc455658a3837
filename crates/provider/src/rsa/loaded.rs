//! The RSA keys that a program has loaded: made ready before it forks, and known to its lane
//! process.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError, Weak};

use super::key::Key;
use crate::batching::combining;
use crate::config::config;

/// Keys that were loaded in this process, or in a process that it was forked from.
static LOADED: Mutex<Vec<Weak<Key>>> = Mutex::new(Vec::new());

/// Keys that were imported before their first signature, and how many are at most: 30 ms.
static IMPORTED_AT_ONCE: AtomicUsize = AtomicUsize::new(0);
const IMPORTED_AT_ONCE_MAX: usize = 128;

/// Keys at which those that were freed are forgotten.
const KEYS_TO_TIDY: usize = 64;

/// The keys with which a lane process signs, by address: processes forked from one have them at
/// the same. That a key is known here keeps its address from being given to another.
pub(crate) struct LaneKeys(HashMap<usize, Weak<Key>>);

/// Whether the keys that are loaded are to be known to a lane process.
pub(crate) fn are_lent() -> bool {
    config().lane_cpus.is_some()
}

/// Whether a key that is loaded now is imported at once, and not by the process that first signs:
/// one that is forked for each connection would do so for each. Programs that load more keys than
/// this are not kept waiting for all of them.
pub(crate) fn is_imported_at_once() -> bool {
    are_lent() || IMPORTED_AT_ONCE.fetch_add(1, Ordering::Relaxed) < IMPORTED_AT_ONCE_MAX
}

/// Nothing while another thread has them, which at a fork may be for ever in the child: a key that
/// is missed is imported by the first signature with it.
fn loaded_keys() -> Option<MutexGuard<'static, Vec<Weak<Key>>>> {
    match LOADED.try_lock() {
        Ok(loaded) => Some(loaded),
        Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// A key was loaded.
pub(super) fn add(key: &Arc<Key>) {
    let Some(mut loaded) = loaded_keys() else { return };
    if loaded.len() >= KEYS_TO_TIDY && loaded.len().is_power_of_two() {
        loaded.retain(|key| key.strong_count() > 0);
    }
    if are_lent() || loaded.len() < IMPORTED_AT_ONCE_MAX {
        loaded.push(Arc::downgrade(key));
    }
    drop(loaded);
    if are_lent() {
        // Workers that are forked from now on have one key more to lend.
        combining::configures();
    }
}

/// Before a fork: makes what each child would have to make of its keys.
pub(crate) fn before_fork() {
    let Some(loaded) = loaded_keys() else { return };
    let first: Vec<_> =
        loaded.iter().take(IMPORTED_AT_ONCE_MAX).filter_map(Weak::upgrade).collect();
    drop(loaded);
    for key in first {
        key.accelerated();
    }
}

impl LaneKeys {
    /// All that are loaded now and still in use, if there is to be a lane process.
    pub(crate) fn now() -> Self {
        if !are_lent() {
            return LaneKeys::none();
        }
        let Some(loaded) = loaded_keys() else { return LaneKeys::none() };
        let living = loaded.iter().filter(|key| key.strong_count() > 0);
        LaneKeys(living.map(|key| (key.as_ptr().addr(), Weak::clone(key))).collect())
    }

    /// None.
    pub(crate) fn none() -> Self {
        LaneKeys(HashMap::new())
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a key is one of them.
    pub(crate) fn has(&self, key: &Arc<Key>) -> bool {
        self.0.contains_key(&Arc::as_ptr(key).addr())
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = Arc<Key>> {
        self.0.values().filter_map(Weak::upgrade)
    }
}
