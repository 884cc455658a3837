//! Words for the hash kernels: one register of independent words, the same in every room.
//!
//! A hash is written once, over a type `W: Words`; each room's registers are such types, of words
//! of 32 or 64 bits. A plain `u32` or `u64` is a register of one lane: room `portable`. What all
//! registers have in common, and how one works on them, is in [`registers`](crate::registers).

// Its macro is in scope from here on.
#[macro_use]
mod wide;

mod avx2;
mod avx512;
mod feed;
mod message;
mod portable;
mod vaes512;
mod vbmi512;

pub use avx2::{Avx2x1, Avx2x4, Avx2x8};
pub use avx512::{Avx512x8, Avx512x16};
pub(crate) use feed::{Feed, in_pieces};
pub use message::Message;
pub use vaes512::{Vaes512x8, Vaes512x16};
pub use vbmi512::Vbmi512x8;

use crate::registers::{Register, Task};

/// How many words a block of a message has.
pub const BLOCK_WORDS: usize = 16;

/// The most lanes a register has.
pub const LANES_MAX: usize = Avx512x16::LANES;

/// One register of independent words, each of which belongs to one message.
pub trait Words: Register {
    /// Bytes of a block of a message: sixteen words.
    const BLOCK_BYTES: usize = BLOCK_WORDS * size_of::<Self::Word>();

    /// The block at `offset` of every lane's message, one register for each of its words, which
    /// are big-endian.
    ///
    /// # Panics
    ///
    /// Panics if there are fewer messages than lanes, or one of them is too short.
    fn block(room: Self::Room, messages: &[impl Message], offset: usize) -> [Self; BLOCK_WORDS];

    /// Words that are big-endian in memory, after they were loaded.
    fn in_order(self) -> Self;

    /// Words of a piece.
    const PIECE_WORDS: usize = PIECE_BYTES / size_of::<Self::Word>();

    /// Whether pieces can come to these lanes faster than words.
    const MAY_TAKE_PIECES: bool = false;

    /// Makes words of a block that was loaded in pieces: each group of as many registers as a piece
    /// has words holds one piece of every message, those of neighbours in neighbouring registers.
    ///
    /// # Panics
    ///
    /// Panics where there is one lane, whose words are where they belong.
    #[inline(always)]
    fn words_of_pieces(_room: Self::Room, _block: &mut [Self; BLOCK_WORDS]) {
        unreachable!("one lane takes words")
    }

    /// The bits set in the first and not in the second.
    fn and_not(self, other: Self) -> Self;

    /// Whether one instruction computes any function of three words.
    const HAS_TERNARY: bool = false;

    /// The bits set in one or all of three words.
    #[inline(always)]
    fn parity(self, second: Self, third: Self) -> Self {
        self.xor(second).xor(third)
    }

    /// The word with those bits inverted that the third has and the second has not.
    #[inline(always)]
    fn chi(self, second: Self, third: Self) -> Self {
        self.xor(third.and_not(second))
    }

    /// The bits that most of three words have set.
    #[inline(always)]
    fn majority(self, second: Self, third: Self) -> Self {
        // The sum of the first two comes back as that of the last two in the next round.
        second.xor(self.xor(second).and(second.xor(third)))
    }

    /// Each word rotated right by `bits`, neither 0 nor all that it has.
    fn rotate_right(self, bits: u32) -> Self;

    /// The same word, which the compiler does not look through: sums stay in the order in which
    /// they are written, so that what is late comes last, and a schedule is made when its rounds
    /// come to it, not all at once in memory.
    #[inline(always)]
    fn settled(self) -> Self {
        self
    }

    /// Runs `task` as [`call`](Register::call) does, and clears registers and the stack on which it
    /// kept what they could not hold. A feed in its frame (`FEEDS`) makes that deeper.
    fn call_and_wipe<const FEEDS: bool, T: Task<Self>>(room: Self::Room, task: T) -> T::Output;
}

/// Bytes of a piece, in which words are moved from messages to lanes.
const PIECE_BYTES: usize = 16;
