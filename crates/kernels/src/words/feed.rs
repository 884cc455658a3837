//! The block that comes next, brought from messages to lanes by plain loads and stores.
//!
//! The rounds of a hash keep the ports of wide registers busy, and all that moves words between
//! lanes has to go there as well. Loads and stores have ports of their own: beside the rounds of a
//! block, the next one of each message is copied word by word to where its words lie lane beside
//! lane.
#![allow(unsafe_code, reason = "loads from messages, and stores that stay what they are")]

use core::marker::PhantomData;
use core::ptr::null;

use widelane_secret::wipe;

use super::{BLOCK_WORDS, LANES_MAX, Message, Words};

/// A block of each lane's message on its way; wiped when dropped.
pub(crate) struct Feed<'a, W: Words> {
    rows: Rows<W>,
    /// Where each lane's block is: as many readable bytes as a block has.
    sources: [*const u8; LANES_MAX],
    life: PhantomData<&'a ()>,
}

/// The words of a block, lane beside lane, their bytes in the order that they have in messages.
#[repr(C, align(64))]
struct Rows<W: Words>([W::Row; BLOCK_WORDS]);

impl<W: Words> Default for Feed<'_, W> {
    /// A feed that has to be turned to a block first. Where it lies: it is too large to be moved.
    #[inline(always)]
    fn default() -> Self {
        let rows = Rows([W::Row::default(); BLOCK_WORDS]);
        Feed { rows, sources: [null(); LANES_MAX], life: PhantomData }
    }
}

impl<'a, W: Words> Feed<'a, W> {
    /// Turns to the block at `offset` of every lane's message.
    ///
    /// # Panics
    ///
    /// Panics if there are fewer messages than lanes, or one of them is too short.
    #[inline(always)]
    pub fn turn(&mut self, messages: &'a [impl Message], offset: usize) {
        for (source, message) in self.sources.iter_mut().zip(&messages[..W::LANES]) {
            *source = message.source(offset, W::BLOCK_BYTES);
        }
    }

    /// Brings one of `parts` parts of the block.
    #[inline(always)]
    pub fn bring(&mut self, part: usize, parts: usize) {
        let words = W::LANES * BLOCK_WORDS / parts;
        for index in part * words..(part + 1) * words {
            let (lane, word) = (index / BLOCK_WORDS, index % BLOCK_WORDS);
            let source = self.sources[lane].cast::<W::Word>().wrapping_add(word);
            // SAFETY: `turn` has seen that the source has as many bytes as a block.
            let read = unsafe { source.read_unaligned() };
            let target = &raw mut self.rows.0[word].as_mut()[lane];
            // Volatile, since the compiler would gather words in vectors and take them apart again.
            // SAFETY: the target was a reference just now.
            unsafe { target.write_volatile(read) };
        }
    }

    /// The block, when all parts are there, one register for each of its words.
    #[inline(always)]
    pub fn block(&self, room: W::Room) -> [W; BLOCK_WORDS] {
        let mut block = [W::splat(room, W::Word::default()); BLOCK_WORDS];
        for (word, row) in block.iter_mut().zip(&self.rows.0) {
            *word = W::load(room, row).in_order();
        }
        block
    }
}

impl<W: Words> Drop for Feed<'_, W> {
    fn drop(&mut self) {
        self.rows.0.iter_mut().for_each(|row| wipe(row.as_mut()));
    }
}
