//! Words for the hash kernels: one register of independent words, the same in every room.
//!
//! A hash is written once, over a type `W: Words`; each room's registers are such types, of words
//! of 32 or 64 bits. A plain `u32` or `u64` is a register of one lane: room `portable`. As in
//! [`lanes`](crate::lanes), a register is made from the token of its room only, and everything
//! that works on registers is `#[inline(always)]` and ends up in the body of [`Words::call`].

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

/// How many words a block of a message has.
pub const BLOCK_WORDS: usize = 16;

/// The most lanes a register has.
pub const LANES_MAX: usize = Avx512x16::LANES;

/// A word, of 32 or 64 bits.
pub trait Word: Copy + Default + Into<u64> + 'static {
    /// The low bits of `wide`.
    fn low(wide: u64) -> Self;
}

impl Word for u32 {
    #[inline(always)]
    fn low(wide: u64) -> u32 {
        wide as u32
    }
}

impl Word for u64 {
    #[inline(always)]
    fn low(wide: u64) -> u64 {
        wide
    }
}

/// One register of independent words, each of which belongs to one message.
///
/// Sums are modulo the size of a word. Nothing depends on the values in time or
/// addresses.
pub trait Words: Copy {
    /// Proof that the room may be used.
    type Room: Copy;
    /// One word.
    type Word: Word;
    /// The words of a register in memory.
    type Row: Copy + Default + AsRef<[Self::Word]> + AsMut<[Self::Word]>;
    /// How many words a register has.
    const LANES: usize;
    /// Bytes of a block of a message: sixteen words.
    const BLOCK_BYTES: usize = BLOCK_WORDS * size_of::<Self::Word>();

    /// The same word in all lanes.
    fn splat(room: Self::Room, word: Self::Word) -> Self;

    /// A register from memory.
    fn load(room: Self::Room, row: &Self::Row) -> Self;

    /// The words of all lanes.
    fn row(self) -> Self::Row;

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

    /// The sum.
    fn add(self, other: Self) -> Self;

    /// The bits set in both.
    fn and(self, other: Self) -> Self;

    /// The bits set in the first and not in the second.
    fn and_not(self, other: Self) -> Self;

    /// The bits set in one of both.
    fn xor(self, other: Self) -> Self;

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

    /// Each word rotated right by `BITS`, which is not 0.
    fn rotate<const BITS: u32>(self) -> Self;

    /// Each word shifted right by `BITS`, zeros coming in.
    fn shift<const BITS: u32>(self) -> Self;

    /// The same word, which the compiler does not look through: sums stay in the order in which
    /// they are written, so that what is late comes last, and a schedule is made when its rounds
    /// come to it, not all at once in memory.
    #[inline(always)]
    fn settled(self) -> Self {
        self
    }

    /// Runs `task` in a function of its own that has the features of the room. What it leaves in
    /// registers and on the stack is for the caller to clear.
    fn enter<T: Task<Self>>(room: Self::Room, task: T) -> T::Output;

    /// Runs `task` in a function of its own that has the features of the room, and clears the stack
    /// on which that kept what its registers could not hold.
    fn call<T: Task<Self>>(room: Self::Room, task: T) -> T::Output;
}

/// Work that is done in one place in the machine code of a room: see [`Words::call`].
pub trait Task<W: Words> {
    /// What comes of it.
    type Output;
    /// Whether a feed stands in its frame, and makes it deeper.
    const FEEDS: bool;

    /// Does the work. Always `#[inline(always)]`, as is all that it calls.
    fn run(self, room: W::Room) -> Self::Output;
}

/// Bytes of a piece, in which words are moved from messages to lanes.
const PIECE_BYTES: usize = 16;
