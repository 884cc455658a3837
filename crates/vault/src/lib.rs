//! Boxes for keys that live long: in memory that the kernel neither swaps out (`mlock`) nor writes
//! into core files (`MADV_DONTDUMP`), as far as the system allows, and that is wiped when a box is
//! dropped.
//!
//! Keys lie close together in mappings of 64 KiB, each for values of one size: a mapping for each
//! of ten thousand keys would cost a page each, and run into the limit of mappings. How much may be
//! locked is limited too (`RLIMIT_MEMLOCK`); keys beyond that are in no core file all the same.
//! Keys that a forked child inherits are locked only by its parent, until the child makes a key
//! itself: then it locks the mapping where that lies (not on Linux before 4.14).
//!
//! **Invariant**: no lock is taken that a fork could leave taken; where the system gives no
//! mapping, the heap gives the memory.
#![doc = include_str!("../README.md")]
#![allow(unsafe_code, reason = "an allocator")]

mod chunk;
mod fork;

use std::alloc::{self, Layout};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};

use widelane_secret::wipe;

use self::chunk::{Chunk, PLACE_BYTES_MAX};
pub use self::fork::{fork_generation, process_number};

/// Whether some keys of this process, or of one that it was forked from, could not be locked.
pub fn has_unlocked_keys() -> bool {
    HAS_UNLOCKED.load(Ordering::Relaxed)
}

/// Set where the system refuses to lock memory, or gives no mapping to lock.
static HAS_UNLOCKED: AtomicBool = AtomicBool::new(false);

/// A value in a vault; dropped and then wiped. It cannot be cloned: the copy would be made on the
/// stack, and a caller that makes one has to wipe it.
pub struct Vault<T> {
    value: NonNull<T>,
    /// Where it lies; nothing if that is the heap.
    chunk: Option<&'static Chunk>,
}

// SAFETY: the value is owned, as by a `Box`.
unsafe impl<T: Send> Send for Vault<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Vault<T> {}

impl<T> Vault<T> {
    /// Moves a value into a vault. What the move leaves on the stack is the caller's to wipe.
    pub fn new(value: T) -> Self {
        const {
            assert!(size_of::<T>() != 0 && size_of::<T>() <= PLACE_BYTES_MAX);
            assert!(align_of::<T>() <= align_of::<Chunk>());
        }
        let (place, chunk) = match chunk::take(size_of::<T>()) {
            Some((place, chunk)) => (place.cast::<T>(), Some(chunk)),
            None => {
                HAS_UNLOCKED.store(true, Ordering::Relaxed);
                (on_heap(), None)
            }
        };
        // SAFETY: a place for such a value, which nobody else has.
        unsafe { place.write(value) };
        Vault { value: place, chunk }
    }
}

/// Memory of the heap for a value.
fn on_heap<T>() -> NonNull<T> {
    let layout = Layout::new::<T>();
    // SAFETY: no value of a vault is empty.
    let place = unsafe { alloc::alloc(layout) };
    NonNull::new(place.cast()).unwrap_or_else(|| alloc::handle_alloc_error(layout))
}

impl<T> Drop for Vault<T> {
    fn drop(&mut self) {
        // SAFETY: owned, and not used any more.
        unsafe { ptr::drop_in_place(self.value.as_ptr()) };
        let bytes: NonNull<u8> = self.value.cast();
        // SAFETY: as many bytes as the value had.
        wipe(unsafe { slice::from_raw_parts_mut(bytes.as_ptr(), size_of::<T>()) });
        match self.chunk {
            Some(chunk) => chunk.give_back(bytes),
            // SAFETY: allocated by `on_heap`, with this layout.
            None => unsafe { alloc::dealloc(bytes.as_ptr(), Layout::new::<T>()) },
        }
    }
}

impl<T> Deref for Vault<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: owned, and written by `new`.
        unsafe { self.value.as_ref() }
    }
}

impl<T> DerefMut for Vault<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and borrowed by nobody else.
        unsafe { self.value.as_mut() }
    }
}

impl<T> fmt::Debug for Vault<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Vault").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::thread;

    use rustix::process::{Resource, getrlimit};

    use super::fork::in_child;
    use super::*;

    /// The flags of the mapping in which an address lies, from `/proc/self/smaps`.
    fn flags(address: usize) -> String {
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let mut inside = false;
        for line in maps.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let number = |digits| usize::from_str_radix(digits, 16).ok();
            if let Some((start, end)) = range.and_then(|(a, b)| Some((number(a)?, number(b)?))) {
                inside = (start..end).contains(&address);
            } else if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| inside) {
                return format!("{flags} ");
            }
        }
        panic!("the address is in no mapping");
    }

    #[test]
    fn a_value_is_locked_and_in_no_core_file() {
        let value = Vault::new([7u64; 100]);
        let flags = flags(ptr::from_ref(&*value).addr());
        assert!(flags.contains(" dd "), "not left out of core files: {flags}");
        if !may_lock() {
            return eprintln!("skipped: too little may be locked here");
        }
        assert!(flags.contains(" lo "), "not locked, though so little may be: {flags}");
        assert!(!has_unlocked_keys());
    }

    /// Whether this process may lock what the tests want locked.
    fn may_lock() -> bool {
        getrlimit(Resource::Memlock).current.is_none_or(|bytes| bytes >= 4 << 20)
    }

    #[test]
    fn a_child_locks_the_values_that_it_makes() {
        // In a chunk with room for more.
        let inherited = Vault::new([7u64; 50]);
        let chunk = |value: &Vault<[u64; 50]>| value.chunk.map(ptr::from_ref);
        assert!(in_child(|| {
            let own = [8, 9].map(|byte| Vault::new([byte; 50]));
            let flags = flags(ptr::from_ref(&*own[0]).addr());
            chunk(&own[0]) == chunk(&inherited)
                && chunk(&own[0]) == chunk(&own[1])
                && flags.contains(" dd ")
                && (flags.contains(" lo ") || !may_lock())
        }));
    }

    #[test]
    fn values_are_apart_and_places_are_used_again() {
        let chunks = || {
            let values: Vec<Vault<[usize; 77]>> =
                (0..1000).map(|number| Vault::new([number; 77])).collect();
            for (number, value) in values.iter().enumerate() {
                assert_eq!(**value, [number; 77]);
            }
            let chunks = values.iter().map(|value| ptr::from_ref(value.chunk.unwrap()));
            chunks.collect::<BTreeSet<*const Chunk>>()
        };
        let first = chunks();
        assert_eq!(first.len(), 10, "102 places in each");
        assert_eq!(chunks(), first);
    }

    #[test]
    fn what_is_dropped_is_wiped() {
        let value = Vault::new([0x55u8; 3000]);
        let (place, chunk) = (value.value, value.chunk);
        assert!(chunk.is_some());
        drop(value);
        // SAFETY: no mapping goes before its process, and no other value here has this size.
        assert_eq!(unsafe { place.read() }, [0; 3000]);
    }

    #[test]
    fn threads_do_not_share_places() {
        let work = |thread: u64| {
            for round in 0..2000 {
                let number = thread << 32 | round;
                let values = [0, 1, 2].map(|more| Vault::new([number + more; 9]));
                for (more, value) in (0..).zip(&values) {
                    assert_eq!(**value, [number + more; 9]);
                }
            }
        };
        thread::scope(|scope| {
            (0..8).for_each(|thread| {
                scope.spawn(move || work(thread));
            });
        });
    }
}
