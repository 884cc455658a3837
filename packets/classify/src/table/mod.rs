//! Tables: flat, free of pointers, in memory or mapped from a file.
//!
//! A table is a sequence of 64-bit words. A *root* is where the search in one group of rules
//! begins: an [`Entry`] that leads to a node; the index begins with them. A *node* is a header that
//! names bits of the key, and one entry for each value they can have. A *leaf* is a run of chunks;
//! a *chunk* holds eight rules side by side, word by word, so that one instruction compares all
//! eight:
//!
//! ```text
//! values of word 0 × 8 │ others of word 0 × 8 │ values of word 1 × 8 │ … │ verdicts × 8
//! ```
//!
//! The first chunk is the *miss chunk*: it belongs to no leaf, and its verdicts say that nothing
//! was found.
//!
//! *Others* are masks, or the extents of ranges. A word of no more than two ranges of 16 bits has
//! its extents in the upper halves of its values instead. Chunks begin at multiples of 64 bytes.

mod entry;
mod file;
mod verify;

use std::ops::Range;
use std::sync::Arc;

pub(crate) use entry::{
    Entry, NODE_HEADER, NOTHING, Node, RANK_MAX, leads_on_bit, node_entries, node_header, rank_of,
    verdict,
};
pub use file::TableError;

use crate::rule::Layout;
use crate::run::map::Mapping;
use crate::run::shared::{Chunks, SharedChunks};

/// Rules that one instruction compares.
pub(crate) const RULES_PER_CHUNK: usize = 8;
/// Words of the longest key.
pub(crate) const WORDS_MAX: usize = 32;

/// How many words of each kind a key has, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Words compared under a mask.
    pub masks: usize,
    /// Words of four ranges of 16 bits.
    pub halves: usize,
    /// Words of two ranges of 32 bits.
    pub wholes: usize,
    /// Whether the last word of ranges of 16 bits has only two of them: a chunk then holds their
    /// extents in the upper half of their lowest values.
    pub paired: bool,
}

/// Up to four bytes of a packet, in network order, and their place in the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The first byte in the packet.
    pub offset: u16,
    /// How many bytes: 1, 2 or 4.
    pub bytes: u8,
    /// The word of the key.
    pub word: u8,
    /// The lowest bit in the word.
    pub shift: u8,
}

impl Shape {
    /// Words of a key.
    pub const fn words(self) -> usize {
        self.masks + self.halves + self.wholes
    }

    /// Words of a chunk.
    pub const fn chunk_words(self) -> usize {
        (self.row(self.words()) + 1) * RULES_PER_CHUNK
    }

    /// The row of a chunk that holds the values of a word; behind the last word, the verdicts.
    #[inline(always)]
    pub const fn row(self, word: usize) -> usize {
        2 * word - (self.paired && word >= self.masks + self.halves) as usize
    }

    /// Whether a word has its extents in the upper half of its values.
    #[inline(always)]
    pub const fn is_paired(self, word: usize) -> bool {
        self.paired && word + 1 == self.masks + self.halves
    }

    /// Bits that the ranges of a word have; all of them where it is compared under a mask.
    pub const fn lane_bits(self, word: usize) -> u32 {
        if word < self.masks {
            32
        } else if word < self.masks + self.halves {
            16
        } else {
            32
        }
    }
}

impl Piece {
    /// The piece's bits of a key.
    pub fn part(&self, key: &[u64]) -> u32 {
        let bits = 8 * u32::from(self.bytes);
        (key[usize::from(self.word)] >> self.shift) as u32 & (u32::MAX >> (32 - bits))
    }
}

/// What a table is made of.
pub(crate) struct Content<'a> {
    pub layout: &'a Layout,
    pub shape: Shape,
    pub pieces: Vec<Piece>,
    pub categories: usize,
    pub default: u32,
    pub rules: usize,
    /// How many words of the index are roots.
    pub roots: usize,
    pub index: &'a [u64],
    pub chunks: &'a [u64],
    /// Of four ranks each, where there are several categories.
    pub category_masks: &'a [u64],
}

/// The parts of a table that can change when rules do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Index,
    Categories,
}

/// Where the chunks of a table are.
#[derive(Debug)]
enum Place {
    /// Among its own words.
    Own(Range<usize>),
    /// In memory that other tables share.
    Shared(Arc<SharedChunks>),
}

/// Rules, ready for lookups.
#[derive(Debug)]
pub struct Table {
    memory: Mapping,
    layout: Layout,
    shape: Shape,
    pieces: Vec<Piece>,
    categories: usize,
    default: u32,
    rules: usize,
    roots: usize,
    index: Range<usize>,
    chunks: Place,
    category_masks: Range<usize>,
    gone: Gone,
    /// How many words the index and the chunks had that a search can come to.
    searched: usize,
}

/// Rules that are gone and still stand in leaves: a lookup that finds one searches again, and skips
/// all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gone {
    /// Their ranks, in ascending order.
    pub ranks: Vec<u32>,
    /// Which word of the index is the first root of the rules that they hide.
    pub shadowed: usize,
}

impl Gone {
    /// How many such roots there are, one behind the other.
    pub const ROOTS: usize = 2;

    /// Whether the rule is gone that says a verdict.
    #[inline]
    pub fn has(&self, verdict: u64) -> bool {
        self.ranks.binary_search(&rank_of(verdict)).is_ok()
    }
}

/// Words of a cache line.
pub(crate) const LINE_WORDS: usize = 8;

impl Table {
    /// Where the fields lie that a lookup reads.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// How many results a lookup gives.
    pub fn categories(&self) -> usize {
        self.categories
    }

    /// How many rules were built in.
    pub fn rules(&self) -> usize {
        self.rules
    }

    /// The size in memory and in a file.
    pub fn bytes(&self) -> usize {
        8 * self.memory.words().len()
    }

    /// How much of it a search can come to.
    #[inline]
    pub(crate) fn searched_bytes(&self) -> usize {
        8 * self.searched
    }

    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    pub(crate) fn default(&self) -> u32 {
        self.default
    }

    /// Roots and nodes.
    #[inline]
    pub(crate) fn index(&self) -> &[u64] {
        &self.memory.words()[self.index.clone()]
    }

    /// How many words of the index are roots.
    #[inline]
    pub(crate) fn roots(&self) -> usize {
        self.roots
    }

    /// Rules that are gone and still stand in leaves.
    #[inline]
    pub(crate) fn gone(&self) -> &Gone {
        &self.gone
    }

    /// Has lookups pass over rules.
    pub(crate) fn set_gone(&mut self, gone: &Gone) {
        if self.gone != *gone {
            self.gone.clone_from(gone);
        }
    }

    #[inline]
    pub(crate) fn chunks(&self) -> Chunks<'_> {
        match &self.chunks {
            Place::Own(range) => Chunks::of(&self.memory.words()[range.clone()]),
            Place::Shared(shared) => shared.chunks(),
        }
    }

    /// The memory that its chunks are in, if it shares that with other tables.
    pub(crate) fn shared(&self) -> Option<&Arc<SharedChunks>> {
        match &self.chunks {
            Place::Own(_) => None,
            Place::Shared(shared) => Some(shared),
        }
    }

    /// The categories of the rule of a rank, where there are several.
    pub(crate) fn categories_of(&self, rank: u32) -> u16 {
        let (word, shift) = category_place(rank);
        (self.memory.words()[self.category_masks.clone()][word] >> shift) as u16
    }
}

/// Where the categories of a rank stand: in which word, and from which bit on.
pub(crate) fn category_place(rank: u32) -> (usize, u32) {
    (rank as usize / 4, 16 * (rank % 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_two_ranges_takes_one_row_of_a_chunk() {
        let shape = Shape { masks: 1, halves: 2, wholes: 1, paired: true };
        assert_eq!([0, 1, 2, 3, 4].map(|word| shape.row(word)), [0, 2, 4, 5, 7]);
        assert_eq!([0, 1, 2, 3].map(|word| shape.is_paired(word)), [false, false, true, false]);
        assert_eq!(shape.chunk_words(), 8 * RULES_PER_CHUNK);
        let unpaired = Shape { paired: false, ..shape };
        assert_eq!([0, 1, 2, 3, 4].map(|word| unpaired.row(word)), [0, 2, 4, 6, 8]);
        assert!((0..4).all(|word| !unpaired.is_paired(word)));
    }
}
