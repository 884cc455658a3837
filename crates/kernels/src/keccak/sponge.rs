//! Sponges (FIPS 202, 4): what is read into states, and out of them, lane by lane.

use widelane_secret::wipe;

use super::{Permute, STATE_WORDS, permute};
use crate::registers::Task;
use crate::words::Words;

/// A function of FIPS 202, 6: how many bytes a block has, and what is appended to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// Bytes of a block, a multiple of 8.
    pub rate_bytes: usize,
    /// The bits that tell functions apart, and the first bit of the padding.
    pub suffix: u8,
}

/// SHA3-256.
pub const SHA3_256: Function = Function { rate_bytes: 136, suffix: 0x06 };
/// SHA3-512.
pub const SHA3_512: Function = Function { rate_bytes: 72, suffix: 0x06 };
/// SHAKE128.
pub const SHAKE128: Function = Function { rate_bytes: 168, suffix: 0x1f };
/// SHAKE256.
pub const SHAKE256: Function = Function { rate_bytes: 136, suffix: 0x1f };

impl Function {
    /// Words of a block.
    pub const fn rate_words(self) -> usize {
        self.rate_bytes / 8
    }
}

/// As many states as a register has lanes, word by word; wiped when dropped.
#[repr(C, align(64))]
#[derive(Clone)]
pub struct Sponges<W: Words<Word = u64>>([W::Row; STATE_WORDS]);

impl<W: Words<Word = u64>> Default for Sponges<W> {
    fn default() -> Self {
        Sponges([W::ZEROS; STATE_WORDS])
    }
}

impl<W: Words<Word = u64>> Drop for Sponges<W> {
    fn drop(&mut self) {
        self.clear();
    }
}

impl<W: Words<Word = u64>> Sponges<W> {
    /// Sets all states to zero.
    pub fn clear(&mut self) {
        self.0.iter_mut().for_each(|row| wipe(row.as_mut()));
    }

    /// Sets those states to zero whose lane of `kept` is zero; it has all bits set in the others.
    #[inline]
    pub(crate) fn mask(&mut self, room: W::Room, kept: &W::Row) {
        W::call(room, Mask { rows: &mut self.0, kept });
    }

    /// Adds a word to word `index` of a state.
    #[inline]
    pub fn add_word(&mut self, lane: usize, index: usize, word: u64) {
        self.0[index].as_mut()[lane] ^= word;
    }

    /// Word `index` of a state.
    #[inline]
    pub fn word(&self, lane: usize, index: usize) -> u64 {
        self.0[index].as_ref()[lane]
    }

    /// Word `index` of all states.
    #[inline]
    pub(crate) fn row(&self, index: usize) -> &[u64] {
        self.0[index].as_ref()
    }

    /// Adds bytes to a state, from byte `offset` on.
    pub fn add_bytes(&mut self, lane: usize, offset: usize, bytes: &[u8]) {
        if offset.is_multiple_of(8) {
            let (words, rest) = bytes.as_chunks();
            for (index, word) in words.iter().enumerate() {
                self.add_word(lane, offset / 8 + index, u64::from_le_bytes(*word));
            }
            self.add_each(lane, offset + 8 * words.len(), rest);
        } else {
            self.add_each(lane, offset, bytes);
        }
    }

    fn add_each(&mut self, lane: usize, offset: usize, bytes: &[u8]) {
        for (at, byte) in (offset..).zip(bytes) {
            self.add_word(lane, at / 8, u64::from(*byte) << (8 * (at % 8)));
        }
    }

    /// Copies bytes of a state, from byte `offset` on.
    pub fn copy_bytes(&self, lane: usize, offset: usize, bytes: &mut [u8]) {
        for (at, byte) in (offset..).zip(bytes) {
            *byte = (self.word(lane, at / 8) >> (8 * (at % 8))) as u8;
        }
    }

    /// Pads the last block of a message, of which `length` bytes were added.
    #[inline]
    pub fn pad(&mut self, lane: usize, length: usize, function: Function) {
        self.add_word(lane, length / 8, u64::from(function.suffix) << (8 * (length % 8)));
        self.add_word(lane, function.rate_words() - 1, 1 << 63);
    }

    /// Permutes all states.
    ///
    /// Secrets: the states. Branches and addresses depend on none, and none is left in registers or
    /// on the stack.
    pub fn permute(&mut self, room: W::Room) {
        W::call_and_wipe::<false, _>(room, Permute { rows: &mut self.0 });
    }

    /// Permutes all states, as a part of work whose end clears registers and stack.
    #[inline]
    pub(crate) fn permute_within(&mut self, room: W::Room) {
        permute::<W>(room, &mut self.0);
    }
}

/// Takes words from states: see [`Sponges::mask`].
struct Mask<'a, W: Words> {
    rows: &'a mut [W::Row; STATE_WORDS],
    kept: &'a W::Row,
}

impl<W: Words<Word = u64>> Task<W> for Mask<'_, W> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: W::Room) {
        let kept = W::load(room, self.kept);
        for row in self.rows {
            *row = W::load(room, row).and(kept).row();
        }
    }
}
