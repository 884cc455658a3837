//! The pages of this process's counters, and which thread counts on which.
#![allow(unsafe_code, reason = "maps memory that counters are")]

use std::cell::Cell;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{io, process, slice};

use widelane_bridge::counters::{
    COUNTERS_FILE_BYTES, COUNTERS_MAGIC, COUNTERS_PAGES, COUNTERS_VERSION, Counters, OperationKind,
};

use super::file;
use crate::errors::{Once, say_once};

/// The counters of one process.
///
/// All are added to atomically, so that threads may share a page: those that find none left, and
/// those that are about to end, count on the first.
pub(crate) struct Pages {
    all: &'static [Counters],
    /// Whether it is a file, which processes forked from this one have as well.
    is_file: bool,
    /// A bit for each page that no thread has now.
    free: AtomicU64,
}

/// The page of the calling thread, until it ends.
struct Mine {
    pages: Cell<Option<&'static Pages>>,
    /// None where it found none left.
    index: Cell<Option<usize>>,
}

thread_local! {
    static MINE: Mine = const { Mine { pages: Cell::new(None), index: Cell::new(None) } };
}

/// Makes the calling thread's variable; it gets its page when it first counts.
pub(crate) fn begin_thread() {
    // Error: the thread is ending.
    let _ = MINE.try_with(|_| ());
}

impl Pages {
    /// Makes the counters of this process, whose widest kernel for RSA has these lanes, and whose
    /// kinds have as many as `lanes_of` says: in a file of `dir` if it is given and can be written;
    /// what prevents that is said on stderr.
    pub(crate) fn open(
        lanes: usize,
        lanes_of: fn(OperationKind) -> usize,
        dir: Option<&Path>,
    ) -> Self {
        let mapped = dir.and_then(|dir| {
            file::map(dir)
                .inspect_err(|error| {
                    let remedy = match error.kind() {
                        io::ErrorKind::PermissionDenied => {
                            "have its user, and SELinux or AppArmor, write and map files there"
                        }
                        io::ErrorKind::FileTooLarge => {
                            "have LimitFSIZE= or `ulimit -f` allow it files of 512 KiB"
                        }
                        _ => "give its user a directory with room there",
                    };
                    let line = format!(
                        "cannot write counters to {}: {error}; this process runs without \
                         ({remedy})",
                        dir.display()
                    );
                    say_once(Once::NoCounters, &line);
                })
                .ok()
        });
        let pages = mapped.map_or_else(Pages::of_nobody, |all| Pages::new(all, true));
        let first = pages.first();
        first.version.store(COUNTERS_VERSION, Ordering::Relaxed);
        first.pid.store(process::id(), Ordering::Relaxed);
        first
            .started_ticks
            .store(file::started_ticks(process::id()).unwrap_or(0), Ordering::Relaxed);
        first.lanes.store(lanes as u32, Ordering::Relaxed);
        for (kind, counters) in OperationKind::ALL.into_iter().zip(&first.kinds) {
            counters.lanes.store(lanes_of(kind) as u64, Ordering::Relaxed);
        }
        first.pages_used.store(1, Ordering::Relaxed);
        first.magic.store(COUNTERS_MAGIC, Ordering::Release);
        pages
    }

    /// Counters in plain memory, which no other process reads; where that is short, a single page.
    pub(crate) fn of_nobody() -> Self {
        // SAFETY: numbers, for which all zeroes is valid.
        static SPARE: Counters = unsafe { mem::zeroed() };
        Pages::new(map(None).unwrap_or(slice::from_ref(&SPARE)), false)
    }

    fn new(all: &'static [Counters], is_file: bool) -> Self {
        Pages { all, is_file, free: AtomicU64::new(u64::MAX >> (COUNTERS_PAGES - all.len())) }
    }

    /// Whether what a forked process counts here can be read.
    pub(crate) fn is_file(&self) -> bool {
        self.is_file
    }

    /// The page of the threads that have none of their own.
    pub(crate) fn first(&self) -> &'static Counters {
        &self.all[0]
    }

    /// The pages that threads have had.
    pub(crate) fn used(&self) -> &'static [Counters] {
        let used = self.first().pages_used.load(Ordering::Relaxed) as usize;
        &self.all[..used.clamp(1, self.all.len())]
    }

    /// The page of the calling thread.
    pub(crate) fn mine(&'static self) -> &'static Counters {
        let mine = MINE.try_with(|mine| {
            // After a fork the thread has one of its parent's, which is not for it to give back.
            if !mine.pages.get().is_some_and(|pages| ptr::eq(pages, self)) {
                mine.index.set(self.take());
                mine.pages.set(Some(self));
            }
            mine.index.get()
        });
        &self.all[mine.ok().flatten().unwrap_or(0)]
    }

    /// Takes a page that no thread has.
    pub(super) fn take(&self) -> Option<usize> {
        let without_lowest = |free: u64| (free != 0).then_some(free & free.wrapping_sub(1));
        let free = self.free.fetch_update(Ordering::Acquire, Ordering::Relaxed, without_lowest);
        let index = free.ok()?.trailing_zeros() as usize;
        if index > 0 && !is_there(&self.all[index]) {
            self.give_back(index);
            return None;
        }
        self.first().pages_used.fetch_max(index as u64 + 1, Ordering::Relaxed);
        Some(index)
    }

    fn give_back(&self, index: usize) {
        self.free.fetch_or(1 << index, Ordering::Release);
    }
}

impl Drop for Mine {
    /// What was counted stays, and the next thread goes on from there.
    fn drop(&mut self) {
        if let (Some(pages), Some(index)) = (self.pages.get(), self.index.get()) {
            pages.give_back(index);
        }
    }
}

/// Maps the pages of a file that has their size, or plain memory.
pub(super) fn map(file: Option<BorrowedFd<'_>>) -> io::Result<&'static [Counters]> {
    let (flags, file) = match file {
        Some(file) => (libc::MAP_SHARED, file.as_raw_fd()),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1),
    };
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, where the kernel likes.
    let mapped =
        unsafe { libc::mmap(ptr::null_mut(), COUNTERS_FILE_BYTES, protection, flags, file, 0) };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let first = NonNull::new(mapped).ok_or_else(|| io::Error::other("mapped at address 0"))?;
    // SAFETY: a mapping of this size, aligned to a page, zeroed and never unmapped; counters are
    // numbers, for which all zeroes is valid, and are only touched where `is_there`.
    Ok(unsafe { slice::from_raw_parts(first.cast().as_ptr(), COUNTERS_PAGES) })
}

/// Has the system find memory for a page now, which else the first store would, and end the process
/// where there is none. Linux before 5.14 cannot: there all threads count on the first page.
fn is_there(page: &Counters) -> bool {
    let page = ptr::from_ref(page).cast_mut().cast();
    // SAFETY: a page that was mapped above; what it holds stays.
    unsafe { libc::madvise(page, size_of::<Counters>(), libc::MADV_POPULATE_WRITE) == 0 }
}

const _: () = assert!(COUNTERS_PAGES == u64::BITS as usize);

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    fn leaked() -> &'static Pages {
        Box::leak(Box::new(Pages::of_nobody()))
    }

    fn handshakes(pages: &Pages) -> u64 {
        pages.all.iter().map(|page| page.handshakes.load(Ordering::Relaxed)).sum()
    }

    #[test]
    fn each_thread_has_a_page_of_its_own_until_it_ends() {
        let pages = leaked();
        let threads = 5;
        let together = Barrier::new(threads);
        for round in 1..=3 {
            thread::scope(|scope| {
                let count = || {
                    let mine = pages.mine();
                    assert!(ptr::eq(mine, pages.mine()), "a thread stays on its page");
                    mine.handshakes.fetch_add(1, Ordering::Relaxed);
                    together.wait();
                    ptr::from_ref(mine).addr()
                };
                let threads: Vec<_> = (0..threads).map(|_| scope.spawn(count)).collect();
                let mut places: Vec<_> =
                    threads.into_iter().map(|thread| thread.join().unwrap()).collect();
                places.sort_unstable();
                places.dedup();
                assert_eq!(places.len(), 5, "no two have the same");
            });
            assert_eq!(handshakes(pages), 5 * round, "nothing is lost with a thread");
            assert_eq!(pages.first().pages_used.load(Ordering::Relaxed), 5);
        }
    }

    #[test]
    fn threads_beyond_the_last_page_share_the_first() {
        let pages = leaked();
        let taken: Vec<_> = (0..COUNTERS_PAGES).map(|_| pages.take()).collect();
        assert_eq!(taken, (0..COUNTERS_PAGES).map(Some).collect::<Vec<_>>());
        assert_eq!(pages.take(), None);
        let place = thread::scope(|scope| {
            scope.spawn(|| ptr::from_ref(pages.mine()).addr()).join().unwrap()
        });
        assert_eq!(place, ptr::from_ref(pages.first()).addr());
        assert_eq!(pages.first().pages_used.load(Ordering::Relaxed), COUNTERS_PAGES as u64);
    }

    #[test]
    fn a_page_for_which_there_is_no_memory_is_not_taken() {
        let pages = leaked();
        let second = ptr::from_ref(&pages.all[1]).cast_mut().cast();
        // SAFETY: the second page of a mapping that only this test has.
        let closed = unsafe { libc::mprotect(second, size_of::<Counters>(), libc::PROT_NONE) };
        assert_eq!(closed, 0);
        assert_eq!([pages.take(), pages.take()], [Some(0), None]);
    }
}
