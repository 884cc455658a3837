//! Chunks that readers look at while others beside them are written.
#![allow(unsafe_code, reason = "words that are lent while others beside them are written")]

use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::slice;

use super::map::Mapping;

/// Words that one thread writes while others read those that it leaves alone.
#[derive(Debug)]
pub(crate) struct SharedChunks {
    memory: Mapping,
}

/// Words of the smallest pages.
const PAGE_WORDS: usize = 512;

impl SharedChunks {
    /// Begins with these words, and has room for `free` more.
    pub fn new(words: &[u64], free: usize) -> Self {
        let mut memory = Mapping::zeroed(words.len() + free);
        memory.prefer_large_pages();
        if let Some(own) = memory.words_mut() {
            let (used, others) = own.split_at_mut(words.len());
            used.copy_from_slice(words);
            // The kernel clears large pages when they are first written: better now than later.
            let soon = (words.len() / 4).max(PAGE_WORDS).min(free);
            others[..soon].iter_mut().step_by(PAGE_WORDS).for_each(|word| *word = 0);
        }
        SharedChunks { memory }
    }

    /// Writes words; false if they do not fit.
    ///
    /// # Safety
    ///
    /// No other thread writes here or reads these words meanwhile, and threads that read them later
    /// synchronise with this one first.
    pub unsafe fn write(&self, at: usize, words: &[u64]) -> bool {
        let (start, room) = self.memory.parts();
        if at + words.len() > room {
            return false;
        }
        // SAFETY: inside the mapping, as was just compared.
        let target = unsafe { start.add(at) };
        // SAFETY: so many words lie behind `target`, and are ours to write as long as this lasts,
        // as the caller promises; `words` is memory of another owner.
        unsafe { ptr::copy_nonoverlapping(words.as_ptr(), target.as_ptr(), words.len()) }
        true
    }

    /// Its words, one chunk at a time.
    #[inline]
    pub fn chunks(&self) -> Chunks<'_> {
        let (start, words) = self.memory.parts();
        Chunks { start, words, lender: PhantomData }
    }
}

/// Words of a table or of [`SharedChunks`], of which a search reads those that the index leads to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunks<'a> {
    start: NonNull<u64>,
    words: usize,
    lender: PhantomData<&'a [u64]>,
}

impl<'a> Chunks<'a> {
    /// All of `words`.
    #[inline]
    pub fn of(words: &'a [u64]) -> Self {
        Chunks { start: NonNull::from(words).cast(), words: words.len(), lender: PhantomData }
    }

    /// `count` words from the one at `at`.
    ///
    /// # Panics
    ///
    /// If there are fewer.
    #[inline(always)]
    pub fn get(self, at: usize, count: usize) -> &'a [u64] {
        assert!(self.words.checked_sub(count).is_some_and(|last| at <= last), "a chunk outside");
        // SAFETY: inside, as was just compared.
        let start = unsafe { self.start.add(at) };
        // SAFETY: `count` words lie behind `start`, and the lender keeps them as long as `'a`. The
        // writer of `SharedChunks` has promised to leave alone what other threads read.
        unsafe { slice::from_raw_parts(start.as_ptr(), count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lent_stays_while_others_are_written() {
        let shared = SharedChunks::new(&[1, 2, 3], 2);
        let lent = shared.chunks().get(0, 2);
        // SAFETY: these words are not lent.
        assert!(unsafe { shared.write(2, &[7, 8, 9]) });
        // SAFETY: nothing is written.
        assert!(!unsafe { shared.write(3, &[0; 3]) });
        assert_eq!((lent, shared.chunks().get(2, 3)), (&[1, 2][..], &[7, 8, 9][..]));
    }

    #[test]
    #[should_panic(expected = "a chunk outside")]
    fn nothing_is_lent_behind_the_end() {
        Chunks::of(&[1, 2, 3]).get(2, 2);
    }
}
