//! What distinguishes a forked child from its parent: memory that the kernel empties in the child,
//! whatever call forked it. The number of a process does not: in a PID namespace of its own, a
//! child may have the same as its parent.
#![allow(unsafe_code, reason = "memory from the kernel")]

#[cfg(test)]
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::process;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use rustix::mm::{self, Advice, MapFlags, ProtFlags};

/// A number above zero that stays the same in this process and is another one in each child that is
/// forked from it, and in theirs; nothing, and never anything from then on, where there is no such
/// memory (Linux before 4.14).
///
/// What a process keeps with this number it made itself if the number is still the same.
pub fn fork_generation() -> Option<u64> {
    let generation = generation()?;
    match generation.load(Ordering::Acquire) {
        0 => {
            let next = NEWEST.fetch_add(1, Ordering::Relaxed) + 1;
            let put = generation.compare_exchange(0, next, Ordering::AcqRel, Ordering::Acquire);
            // Where another thread was faster, its number counts.
            Some(put.map_or_else(|earlier| earlier, |_| next))
        }
        known => Some(known),
    }
}

/// A number above zero that no process has from which this one was forked: as [`fork_generation`],
/// and where that says nothing, by the numbers that the system gives to processes. There only a
/// child that has its parent's, in a PID namespace of its own, is not told from it.
pub fn process_number() -> u64 {
    fork_generation().unwrap_or_else(number_by_pid)
}

fn number_by_pid() -> u64 {
    let pid = u64::from(process::id()) << 32;
    let number = |known| known & u64::from(u32::MAX);
    let known = BY_PID.load(Ordering::Acquire);
    if known != 0 && known - number(known) == pid {
        return number(known);
    }
    let next = NEWEST.fetch_add(1, Ordering::Relaxed) + 1;
    let put = BY_PID.compare_exchange(known, pid | next, Ordering::AcqRel, Ordering::Acquire);
    // As above.
    put.map_or_else(number, |_| next)
}

/// The PID of a process and the number that it has drawn; zero at first.
static BY_PID: AtomicU64 = AtomicU64::new(0);

/// The newest number that this process or one of its ancestors has drawn: a child goes on from it.
static NEWEST: AtomicU64 = AtomicU64::new(0);

/// Where the number of this process lies; it is zero in a child that has drawn none yet.
static GENERATION: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());

/// In place of a mapping where there was none when it was first asked for.
const NONE: *mut AtomicU64 = ptr::dangling_mut();

/// Bytes of the mapping: a page.
const BYTES: usize = 4096;

fn generation() -> Option<&'static AtomicU64> {
    let mut mapped = GENERATION.load(Ordering::Acquire);
    if mapped.is_null() {
        let new = map().unwrap_or(NONE);
        let put = GENERATION.compare_exchange(mapped, new, Ordering::AcqRel, Ordering::Acquire);
        mapped = match put {
            Ok(_) => new,
            Err(earlier) => {
                if new != NONE {
                    unmap(new);
                }
                earlier
            }
        };
    }
    if mapped == NONE {
        return None;
    }
    // SAFETY: the mapping stays until the process ends, and zeroes are a number.
    unsafe { mapped.as_ref() }
}

/// A page of zeroes that is one of zeroes in a child.
fn map() -> Option<*mut AtomicU64> {
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new mapping, where the kernel likes.
    let mapped = unsafe { mm::mmap_anonymous(ptr::null_mut(), BYTES, protection, flags) }.ok()?;
    // SAFETY: the mapping, which nothing uses yet.
    if unsafe { mm::madvise(mapped, BYTES, Advice::LinuxWipeOnFork) }.is_err() {
        unmap(mapped.cast());
        return None;
    }
    Some(mapped.cast())
}

/// Gives back a mapping that nobody else has seen.
fn unmap(mapped: *mut AtomicU64) {
    // SAFETY: mapped by `map`. Error: memory that stays mapped is harmless.
    let _ = unsafe { mm::munmap(mapped.cast(), BYTES) };
}

/// What `check` says in a forked child, which has no thread but this one.
#[cfg(test)]
pub(crate) fn in_child(check: impl FnOnce() -> bool) -> bool {
    // SAFETY: the checks of our tests wait for no other thread.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // The hook of the tests takes locks that another thread may have held.
        panic::set_hook(Box::new(|_| ()));
        let is_right = catch_unwind(AssertUnwindSafe(check)).unwrap_or(false);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!is_right)) };
    }
    let mut status = -1;
    // SAFETY: the child made above, and room for its status.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    status == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a forked child has a number that `known` does not have, and so has a child of its.
    fn is_new_in_children(number: fn() -> u64, known: &[u64], depth: usize) -> bool {
        in_child(|| {
            let own = number();
            let is_new = !known.contains(&own) && number() == own;
            let known = [known, &[own]].concat();
            is_new && (depth == 0 || is_new_in_children(number, &known, depth - 1))
        })
    }

    #[test]
    fn each_forked_process_has_a_number_of_its_own() {
        assert_eq!(fork_generation(), Some(process_number()), "this kernel tells");
        for number in [process_number, number_by_pid] {
            let own = number();
            assert!(own > 0 && is_new_in_children(number, &[own], 1));
            assert_eq!(number(), own);
        }
    }
}
