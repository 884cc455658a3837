//! Where a thread keeps key pairs: memory that the kernel empties in a child.
#![allow(unsafe_code, reason = "maps memory")]

use std::ptr::{self, NonNull};

use widelane_batch::Tick;
use widelane_secret::wipe;

use crate::curve::key::PUBLIC_BYTES_MAX;
use crate::pool::CURVES;

/// A key pair.
#[repr(C)]
pub(crate) struct Pair {
    private: [u8; PRIVATE_BYTES_MAX],
    public: [u8; PUBLIC_BYTES_MAX],
    private_bytes: u8,
    public_bytes: u8,
}

impl Pair {
    /// Room for both halves. What is secret goes in where the pair is to stay: a pair that moves
    /// leaves copies behind.
    pub(super) const fn empty(private_bytes: usize, public_bytes: usize) -> Self {
        Pair {
            private: [0; PRIVATE_BYTES_MAX],
            public: [0; PUBLIC_BYTES_MAX],
            private_bytes: private_bytes as u8,
            public_bytes: public_bytes as u8,
        }
    }

    fn copy_from(&mut self, other: &Pair) {
        self.private.copy_from_slice(&other.private);
        self.public.copy_from_slice(&other.public);
        self.private_bytes = other.private_bytes;
        self.public_bytes = other.public_bytes;
    }

    /// The private key.
    pub(crate) fn private(&self) -> &[u8] {
        &self.private[..usize::from(self.private_bytes)]
    }

    /// The public key, encoded.
    pub(crate) fn public(&self) -> &[u8] {
        &self.public[..usize::from(self.public_bytes)]
    }

    pub(super) fn private_mut(&mut self) -> &mut [u8] {
        &mut self.private[..usize::from(self.private_bytes)]
    }

    pub(super) fn public_mut(&mut self) -> &mut [u8] {
        &mut self.public[..usize::from(self.public_bytes)]
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        wipe(&mut self.private);
    }
}

/// The key pairs of one curve. All zeroes is an empty one.
#[repr(C)]
pub(super) struct Shelf {
    made: u64,
    count: usize,
    pairs: [Pair; PAIRS_MAX],
}

impl Shelf {
    /// Puts key pairs on the shelf, which is empty.
    pub(super) fn fill(&mut self, pairs: &[Pair], made: Tick) {
        self.made = made.0;
        self.count = pairs.len().min(PAIRS_MAX);
        for (place, pair) in self.pairs.iter_mut().zip(pairs) {
            place.copy_from(pair);
        }
    }

    /// Takes one off, for good.
    pub(super) fn take(&mut self) -> Option<Box<Pair>> {
        self.count = self.count.checked_sub(1)?;
        let place = &mut self.pairs[self.count];
        let mut pair = Box::new(Pair::empty(0, 0));
        pair.copy_from(place);
        wipe(&mut place.private);
        Some(pair)
    }

    /// Wipes what is too old; answers how many those were.
    pub(super) fn expire(&mut self, now: Tick) -> usize {
        if now.since(Tick(self.made)) <= AGE_MAX_NS {
            return 0;
        }
        for pair in &mut self.pairs[..self.count] {
            wipe(&mut pair.private);
        }
        std::mem::take(&mut self.count)
    }
}

/// The shelves of one thread, in memory of their own.
///
/// A fork by whatever means leaves a child with empty shelves (`MADV_WIPEONFORK`), and no core file
/// has them (`MADV_DONTDUMP`).
pub(super) struct Shelves(NonNull<[Shelf; CURVES]>);

impl Shelves {
    /// Empty shelves; nothing if the kernel does not empty them in a child (Linux before 4.14).
    pub(super) fn map() -> Option<Self> {
        // SAFETY: a new mapping, where the kernel likes.
        let mapped = unsafe {
            libc::mmap(
                ptr::null_mut(),
                BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if mapped == libc::MAP_FAILED {
            return None;
        }
        let shelves = Shelves(NonNull::new(mapped.cast())?);
        // SAFETY: the mapping, which nothing uses yet.
        let wiped = unsafe { libc::madvise(mapped, BYTES, libc::MADV_WIPEONFORK) } == 0;
        // SAFETY: as above. Error: a core file would have them, as it has all other keys.
        unsafe { libc::madvise(mapped, BYTES, libc::MADV_DONTDUMP) };
        wiped.then_some(shelves)
    }

    /// One shelf.
    pub(super) fn shelf(&mut self, index: usize) -> &mut Shelf {
        // SAFETY: the mapping is as large as this, aligned to a page, and owned by `self` alone;
        // its first content, all zeroes, is valid: a shelf is numbers.
        let shelves = unsafe { self.0.as_mut() };
        &mut shelves[index]
    }
}

impl Drop for Shelves {
    fn drop(&mut self) {
        for index in 0..CURVES {
            self.shelf(index).expire(Tick(u64::MAX));
        }
        // SAFETY: mapped by `map`, unmapped once.
        unsafe { libc::munmap(self.0.as_ptr().cast(), BYTES) };
    }
}

/// Bytes of the mapping; the kernel rounds it up to pages.
const BYTES: usize = size_of::<[Shelf; CURVES]>();

/// Bytes of the longest private key.
const PRIVATE_BYTES_MAX: usize = 48;

/// Key pairs of a batch, at most.
const PAIRS_MAX: usize = 8;

/// How old a key pair may be when it is handed out.
pub(super) const AGE_MAX_NS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn filled() -> Shelves {
        let mut shelves = Shelves::map().expect("Linux 4.14 or later");
        let pair = |number| {
            let mut pair = Pair::empty(32, 32);
            pair.private_mut().fill(number);
            pair
        };
        let pairs: Vec<Pair> = (1..=8).map(pair).collect();
        shelves.shelf(0).fill(&pairs, Tick(7));
        shelves
    }

    #[test]
    fn each_pair_is_taken_once_and_leaves_nothing() {
        let mut shelves = filled();
        let mut taken: Vec<u8> = Vec::new();
        while let Some(pair) = shelves.shelf(0).take() {
            taken.push(pair.private()[31]);
        }
        taken.sort_unstable();
        assert_eq!(taken, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert!(shelves.shelf(0).pairs.iter().all(|pair| pair.private == [0; 48]));
        assert!(shelves.shelf(1).take().is_none(), "another shelf");
    }

    #[test]
    fn old_pairs_are_wiped() {
        let mut shelves = filled();
        assert_eq!(shelves.shelf(0).expire(Tick(7 + AGE_MAX_NS)), 0);
        assert_eq!(shelves.shelf(0).expire(Tick(8 + AGE_MAX_NS)), 8);
        assert!(shelves.shelf(0).take().is_none());
        assert!(shelves.shelf(0).pairs.iter().all(|pair| pair.private == [0; 48]));
    }

    #[test]
    fn a_child_finds_empty_shelves_without_being_told() {
        let mut shelves = filled();
        // The system call itself: no handler of pthread_atfork runs.
        // SAFETY: the child looks at its memory and ends.
        let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
        if child == 0 {
            let empty = shelves.shelf(0).take().is_none();
            // SAFETY: ends the child without the handlers of its parent.
            unsafe { libc::_exit(i32::from(!empty)) };
        }
        let mut status = -1;
        // SAFETY: our own child.
        let ended = unsafe { libc::waitpid(child as libc::pid_t, &mut status, 0) };
        assert_eq!((i64::from(ended), status), (child, 0));
        assert!(shelves.shelf(0).take().is_some(), "the parent keeps them");
    }
}
