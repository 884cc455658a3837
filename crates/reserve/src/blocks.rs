//! Blocks of one size, each given out whole.
#![allow(unsafe_code, reason = "blocks that threads share")]

use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// `64 * WORDS` blocks of `BYTES` bytes.
pub(crate) struct Blocks<const BYTES: usize, const WORDS: usize> {
    /// A bit for each block that is given out.
    taken: [AtomicU64; WORDS],
    memory: Memory<BYTES, WORDS>,
}

#[repr(align(4096))]
struct Memory<const BYTES: usize, const WORDS: usize>(UnsafeCell<[[[u8; BYTES]; 64]; WORDS]>);

// SAFETY: a block belongs to the thread that has set its bit.
unsafe impl<const BYTES: usize, const WORDS: usize> Sync for Memory<BYTES, WORDS> {}

impl<const BYTES: usize, const WORDS: usize> Blocks<BYTES, WORDS> {
    /// All free.
    pub(crate) const fn new() -> Self {
        // Blocks are as aligned as they are large.
        const { assert!(BYTES.is_power_of_two()) };
        Blocks {
            taken: [const { AtomicU64::new(0) }; WORDS],
            memory: Memory(UnsafeCell::new([[[0; BYTES]; 64]; WORDS])),
        }
    }

    /// Takes a block; null where none is left, or none is large enough.
    pub(crate) fn take(&self, layout: Layout) -> *mut u8 {
        if layout.size() > BYTES || layout.align() > BYTES.min(align_of::<Memory<BYTES, WORDS>>()) {
            return ptr::null_mut();
        }
        let with_lowest = |taken: u64| (taken != u64::MAX).then(|| taken | (taken + 1));
        for (word, taken) in self.taken.iter().enumerate() {
            let before = taken.fetch_update(Ordering::Acquire, Ordering::Relaxed, with_lowest);
            if let Ok(before) = before {
                let index = 64 * word + before.trailing_ones() as usize;
                return self.first().wrapping_add(BYTES * index);
            }
        }
        ptr::null_mut()
    }

    /// Takes a block back; `false` if it is none of ours.
    pub(crate) fn give_back(&self, block: *mut u8) -> bool {
        let Some(index) = self.index(block) else { return false };
        self.taken[index / 64].fetch_and(!(1 << (index % 64)), Ordering::Release);
        true
    }

    /// Which of our blocks it is, if it is one.
    pub(crate) fn index(&self, block: *mut u8) -> Option<usize> {
        let offset = block.addr().checked_sub(self.first().addr())?;
        (offset < size_of_val(&self.memory)).then_some(offset / BYTES)
    }

    /// Whether it is one of our blocks, and has so many bytes.
    pub(crate) fn holds(&self, block: *mut u8, bytes: usize) -> bool {
        bytes <= BYTES && self.index(block).is_some()
    }

    fn first(&self) -> *mut u8 {
        self.memory.0.get().cast()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::thread;

    use super::*;

    static BLOCKS: Blocks<256, 2> = Blocks::new();

    #[test]
    fn each_block_is_given_out_once_and_again_when_it_is_back() {
        let layout = Layout::from_size_align(256, 256).unwrap();
        for _ in 0..2 {
            let taken: Vec<usize> = thread::scope(|scope| {
                let take = || {
                    let blocks = (0..40).map(|_| BLOCKS.take(layout)).filter(|it| !it.is_null());
                    blocks.map(|block| block.addr()).collect::<Vec<_>>()
                };
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
                threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(taken.len(), 128, "no more than there are");
            assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), 128, "no two are the same");
            assert!(taken.iter().all(|block| block % 256 == 0));
            let first = BLOCKS.first();
            assert!(taken.iter().all(|block| BLOCKS.give_back(first.with_addr(*block))));
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_and_what_is_not_ours_is_left_alone() {
        let blocks = Blocks::<256, 1>::new();
        for (size, align) in [(257, 1), (1, 512)] {
            assert!(blocks.take(Layout::from_size_align(size, align).unwrap()).is_null());
        }
        let first = blocks.first();
        assert_eq!(blocks.index(first.wrapping_sub(1)), None);
        assert_eq!(blocks.index(first.wrapping_add(256 * 64 - 1)), Some(63));
        assert_eq!(blocks.index(first.wrapping_add(256 * 64)), None);
        assert!(!blocks.give_back(ptr::null_mut()));
    }
}
