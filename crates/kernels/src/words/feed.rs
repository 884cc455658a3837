//! The block that comes next, brought from messages to lanes by loads and stores.
//!
//! The rounds of a hash keep the ports of wide registers busy, and all that moves words between
//! lanes has to go there as well. Loads and stores have ports of their own: beside the rounds of a
//! block, the next one of each message is copied to where its words lie lane beside lane. Word by
//! word nothing is left to do there; in pieces of 16 bytes it takes a quarter of the loads and
//! stores, and two operations for each word of a block.
#![allow(unsafe_code, reason = "loads from messages, and stores that stay what they are")]

use core::arch::x86_64::__m128i;
use core::marker::PhantomData;
use core::ptr::null;

use widelane_cpu::features;
use widelane_secret::wipe;

use super::{BLOCK_WORDS, LANES_MAX, Message, PIECE_BYTES, Words};

/// Whether blocks come in pieces on this machine to lanes that may take them
/// ([`Words::MAY_TAKE_PIECES`], a constant to be looked at first: what stands behind a call is
/// compiled for all lanes).
pub(crate) fn in_pieces() -> bool {
    features::loads_and_stores_lower_the_clock()
}

/// A block of each lane's message on its way; wiped when dropped.
pub(crate) struct Feed<'a, W: Words, const PIECES: bool> {
    rows: Rows<W>,
    /// Where each lane's first block is.
    sources: [*const u8; LANES_MAX],
    /// Bytes that can be read there.
    readable: usize,
    /// Where the block on its way begins.
    offset: usize,
    life: PhantomData<&'a ()>,
}

/// The words of a block, lane beside lane, their bytes in the order that they have in messages; or
/// its pieces.
#[repr(C, align(64))]
struct Rows<W: Words>([W::Row; BLOCK_WORDS]);

impl<'a, W: Words, const PIECES: bool> Feed<'a, W, PIECES> {
    /// Pieces of the block of one lane.
    const LANE_PIECES: usize = W::BLOCK_BYTES / PIECE_BYTES;

    /// A feed of `blocks` blocks from `offset` on of every lane's message, at the first of them.
    ///
    /// # Panics
    ///
    /// Panics if there are fewer messages than lanes, or one of them is too short.
    #[inline(always)]
    pub fn new(messages: &'a [impl Message], offset: usize, blocks: usize) -> Self {
        let readable = blocks * W::BLOCK_BYTES;
        let mut sources = [null(); LANES_MAX];
        for (source, message) in sources.iter_mut().zip(&messages[..W::LANES]) {
            *source = message.source(offset, readable);
        }
        let rows = Rows([W::ZEROS; BLOCK_WORDS]);
        Feed { rows, sources, readable, offset: 0, life: PhantomData }
    }

    /// Turns to the block that comes next, if there is one.
    #[inline(always)]
    pub fn turn(&mut self) {
        let next = self.offset + W::BLOCK_BYTES;
        if next < self.readable {
            self.offset = next;
        }
    }

    /// Brings one of `parts` parts of the block.
    #[inline(always)]
    pub fn bring(&mut self, part: usize, parts: usize) {
        let moves = W::LANES * if PIECES { Self::LANE_PIECES } else { BLOCK_WORDS } / parts;
        for index in part * moves..(part + 1) * moves {
            if PIECES { self.bring_piece(index) } else { self.bring_word(index) }
        }
    }

    #[inline(always)]
    fn bring_word(&mut self, index: usize) {
        let (lane, word) = (index / BLOCK_WORDS, index % BLOCK_WORDS);
        let source = self.sources[lane].wrapping_add(self.offset).cast::<W::Word>();
        // SAFETY: `turn` stays in front of the end of what can be read, at whole blocks.
        let read = unsafe { source.wrapping_add(word).read_unaligned() };
        let target = &raw mut self.rows.0[word].as_mut()[lane];
        // Volatile, since the compiler would gather words in vectors and take them apart again.
        // SAFETY: the target was a reference just now.
        unsafe { target.write_volatile(read) };
    }

    #[inline(always)]
    fn bring_piece(&mut self, index: usize) {
        let (lane, piece) = (index / Self::LANE_PIECES, index % Self::LANE_PIECES);
        let source = self.sources[lane].wrapping_add(self.offset).cast::<__m128i>();
        // SAFETY: as above.
        let read = unsafe { source.wrapping_add(piece).read_unaligned() };
        let (row, place) = (W::PIECE_WORDS * piece + lane % W::PIECE_WORDS, lane / W::PIECE_WORDS);
        let target = (&raw mut self.rows.0[row]).cast::<__m128i>().wrapping_add(place);
        // Volatile, since the compiler would gather pieces in vectors.
        // SAFETY: a row has a place for every `PIECE_WORDS`th lane, and lies at a whole vector.
        unsafe { target.write_volatile(read) };
    }

    /// The block, when all parts are there, one register for each of its words.
    #[inline(always)]
    pub fn block(&self, room: W::Room) -> [W; BLOCK_WORDS] {
        let mut block = [W::splat(room, W::Word::default()); BLOCK_WORDS];
        for (register, row) in block.iter_mut().zip(&self.rows.0) {
            let loaded = W::load(room, row);
            *register = if PIECES { loaded } else { loaded.in_order() };
        }
        if PIECES {
            W::words_of_pieces(room, &mut block);
        }
        block
    }
}

impl<W: Words, const PIECES: bool> Drop for Feed<'_, W, PIECES> {
    fn drop(&mut self) {
        self.rows.0.iter_mut().for_each(|row| wipe(row.as_mut()));
    }
}
