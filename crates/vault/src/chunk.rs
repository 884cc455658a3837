//! Mappings, divided into places of one size.
#![allow(unsafe_code, reason = "memory from the kernel")]

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use rustix::mm::{self, Advice, MapFlags, MlockFlags, ProtFlags};

use super::{HAS_UNLOCKED, fork_generation};

/// Bytes of a mapping.
const CHUNK_BYTES: usize = 64 << 10;

/// What the size of a place is a multiple of: a cache line.
const LINE_BYTES: usize = 64;

/// Bytes of the largest place.
pub(crate) const PLACE_BYTES_MAX: usize = 17 << 10;

/// Words with a bit for each place of a chunk.
const WORDS: usize = CHUNK_BYTES / LINE_BYTES / 64;

/// A mapping; its places lie behind this. It stays until the process ends.
#[repr(C, align(64))]
pub(crate) struct Chunk {
    /// The chunk for the same size that was there before.
    next: *const Chunk,
    /// Bytes of a place.
    place_bytes: usize,
    /// The process that has locked it last, by its [`fork_generation`]: children inherit the
    /// mapping, but not its lock.
    locked_by: AtomicU64,
    /// A bit for each place that is given out.
    taken: [AtomicU64; WORDS],
}

// SAFETY: `next` and `place_bytes` do not change once other threads see the chunk, and a place
// belongs to the `Vault` for which its bit was set.
unsafe impl Sync for Chunk {}

/// The newest chunk of each size, in lines.
static NEWEST: [AtomicPtr<Chunk>; PLACE_BYTES_MAX / LINE_BYTES + 1] =
    [const { AtomicPtr::new(ptr::null_mut()) }; PLACE_BYTES_MAX / LINE_BYTES + 1];

/// Takes a place of `bytes` bytes, aligned as a chunk is; nothing if the system gives no memory.
pub(crate) fn take(bytes: usize) -> Option<(NonNull<u8>, &'static Chunk)> {
    let lines = bytes.div_ceil(LINE_BYTES);
    let newest = &NEWEST[lines];
    loop {
        let seen = newest.load(Ordering::Acquire);
        let mut next = seen.cast_const();
        // SAFETY: chunks stay, and what is in the list was written before it came there.
        while let Some(chunk) = unsafe { next.as_ref() } {
            if let Some(place) = chunk.take() {
                chunk.lock_if_inherited();
                return Some((place, chunk));
            }
            next = chunk.next;
        }
        let chunk = Chunk::map(seen, lines * LINE_BYTES)?;
        // Where another thread was faster, its chunk has places, and this one is not needed.
        let put =
            newest.compare_exchange(seen, chunk.as_ptr(), Ordering::AcqRel, Ordering::Relaxed);
        if put.is_err() {
            // SAFETY: mapped above, and not published.
            unsafe { unmap(chunk) };
        }
    }
}

impl Chunk {
    /// A new chunk without values in it. Where locking is refused, or leaving it out of core files,
    /// it does without: the keys of others in this process do so too.
    fn map(next: *const Chunk, place_bytes: usize) -> Option<NonNull<Chunk>> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping, where the kernel likes.
        let mapped = unsafe { mm::mmap_anonymous(ptr::null_mut(), CHUNK_BYTES, protection, flags) };
        let mapped = mapped.ok()?;
        // SAFETY: the mapping, which nothing uses yet.
        let _ = unsafe { mm::madvise(mapped, CHUNK_BYTES, Advice::LinuxDontDump) };
        // SAFETY: as above.
        if unsafe { mm::mlock(mapped, CHUNK_BYTES) }.is_err() {
            HAS_UNLOCKED.store(true, Ordering::Relaxed);
        }
        let chunk: NonNull<Chunk> = NonNull::new(mapped.cast())?;
        let taken = [const { AtomicU64::new(0) }; WORDS];
        // SAFETY: aligned to a page, large enough, and not published yet.
        unsafe {
            chunk.write(Chunk {
                next,
                place_bytes,
                locked_by: AtomicU64::new(this_process()),
                taken,
            })
        };
        Some(chunk)
    }

    /// Locks it in a process that has inherited it: each page as the process writes to it, so that
    /// pages which it shares with its parent are not copied for that.
    fn lock_if_inherited(&self) {
        let this = this_process();
        if self.locked_by.load(Ordering::Relaxed) == this {
            return;
        }
        self.locked_by.store(this, Ordering::Relaxed);
        let chunk = ptr::from_ref(self).cast_mut().cast();
        // SAFETY: a mapping that stays.
        let locked = unsafe { mm::mlock_with(chunk, CHUNK_BYTES, MlockFlags::ONFAULT) };
        if locked.is_err() {
            HAS_UNLOCKED.store(true, Ordering::Relaxed);
        }
    }

    /// How many places there are.
    fn places(&self) -> usize {
        (CHUNK_BYTES - size_of::<Chunk>()) / self.place_bytes
    }

    /// The first place.
    fn first(&self) -> *mut u8 {
        ptr::from_ref(self).cast_mut().cast::<u8>().wrapping_add(size_of::<Chunk>())
    }

    /// Takes the first place that is free.
    fn take(&self) -> Option<NonNull<u8>> {
        for (word, first) in self.taken.iter().zip((0..self.places()).step_by(64)) {
            let free = |taken: u64| first + (taken.trailing_ones() as usize) < self.places();
            let taken = word.fetch_update(Ordering::Acquire, Ordering::Relaxed, |taken| {
                (taken != u64::MAX && free(taken)).then(|| taken | (taken + 1))
            });
            if let Ok(before) = taken {
                let index = first + before.trailing_ones() as usize;
                return NonNull::new(self.first().wrapping_add(index * self.place_bytes));
            }
        }
        None
    }

    /// Takes a place of this chunk back.
    pub(crate) fn give_back(&self, place: NonNull<u8>) {
        let index = (place.addr().get() - self.first().addr()) / self.place_bytes;
        self.taken[index / 64].fetch_and(!(1 << (index % 64)), Ordering::Release);
    }
}

/// The calling process; 0 where nothing tells it from its parent.
fn this_process() -> u64 {
    fork_generation().unwrap_or(0)
}

/// Gives a chunk back to the system.
///
/// # Safety
///
/// It was mapped by [`Chunk::map`], and has not been published.
unsafe fn unmap(chunk: NonNull<Chunk>) {
    // SAFETY: the caller's. Error: memory that stays mapped is harmless.
    let _ = unsafe { mm::munmap(chunk.as_ptr().cast(), CHUNK_BYTES) };
}
