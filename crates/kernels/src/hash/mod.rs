//! Hash functions that compress a message block by block (Merkle and Damgård): one door for all.
//!
//! [`compress`] adds blocks of as many messages as a register of the room has lanes. What a hash
//! does to a block stands in [`sha1`](crate::sha1) and [`sha2`](crate::sha2), once for all
//! registers; padding, and lanes that come and go, are for the caller.

pub(crate) mod one_message;
#[cfg(test)]
mod tests;

pub use one_message::DIGEST_BYTES;

use core::marker::PhantomData;

use widelane_secret::wipe;

use crate::registers::{Register, Task, Word};
use crate::words::{BLOCK_WORDS, Feed, Message, Words, in_pieces};

/// Words of a state: of SHA-1, the last three mean nothing.
pub const STATE_WORDS: usize = 8;

/// The states of as many messages as there are lanes: word by word, lane by lane.
pub type States<W> = [<W as Register>::Row; STATE_WORDS];

/// States that are all zeros.
pub fn zeros<W: Words>() -> States<W> {
    [W::ZEROS; STATE_WORDS]
}

/// What a hash function does with words of its size.
pub trait Hash<W: Words> {
    /// Adds a block to the state of each lane, and does something else beside its rounds.
    fn compress(
        room: W::Room,
        state: &mut [W; STATE_WORDS],
        block: [W; BLOCK_WORDS],
        beside: &mut impl Beside,
    );
}

/// What is done beside the rounds of a block; nothing, by default. Not closures, which might stay
/// functions of their own, without the features of the room.
pub trait Beside {
    /// Does what belongs to a quarter of the rounds. Always `#[inline(always)]`.
    #[inline(always)]
    fn quarter(&mut self) {}

    /// Does one of `parts` parts, all of which come early: what the last one stores has left the
    /// core when the next block is wanted. Always `#[inline(always)]`.
    #[inline(always)]
    fn part(&mut self, _part: usize, _parts: usize) {}
}

impl Beside for () {}

/// Adds the first `blocks` blocks of each lane's message to its state.
///
/// A lane that is not in use takes the message of another one.
///
/// Secrets: states and messages, but for their lengths.
///
/// # Panics
///
/// Panics if there are fewer messages than lanes, or one of them is too short.
pub fn compress<H: Hash<W>, W: Words>(
    room: W::Room,
    states: &mut States<W>,
    messages: &[&[u8]],
    blocks: usize,
) {
    if const { W::MAY_TAKE_PIECES } && in_pieces() {
        compress_by::<H, W, true>(room, states, messages, blocks);
    } else {
        compress_by::<H, W, false>(room, states, messages, blocks);
    }
}

/// As [`compress`], with blocks that come in pieces or by words.
fn compress_by<H: Hash<W>, W: Words, const PIECES: bool>(
    room: W::Room,
    states: &mut States<W>,
    messages: &[&[u8]],
    blocks: usize,
) {
    if blocks == 1 {
        compress_one::<H, W>(room, states, messages);
    } else {
        let compress =
            Compress::<_, _, PIECES> { states, messages, blocks, hash: PhantomData::<H> };
        W::call_and_wipe::<true, _>(room, compress);
    }
}

/// Adds the first block of each lane's message to its state, as [`compress`] does it.
///
/// Secrets: states and messages, but for their lengths.
///
/// # Panics
///
/// Panics if there are fewer messages than lanes, or one of them is too short.
pub fn compress_one<H: Hash<W>, W: Words>(
    room: W::Room,
    states: &mut States<W>,
    messages: &[&[u8]],
) {
    let block = Block::Messages(messages);
    W::call_and_wipe::<false, _>(room, CompressOne { states, block, hash: PhantomData::<H> });
}

/// Adds to each lane's state, which stands behind one block, a digest of `words` words, and the
/// padding: the outer hash of HMAC.
///
/// Secrets: states and digests.
pub fn compress_digests<H: Hash<W>, W: Words>(
    room: W::Room,
    states: &mut States<W>,
    digests: &States<W>,
    words: usize,
) {
    let word_bytes = size_of::<W::Word>();
    let mut rows = [W::ZEROS; BLOCK_WORDS];
    let (digest, padding) = rows.split_at_mut(words);
    digest.copy_from_slice(&digests[..words]);
    padding[0].as_mut().fill(W::Word::low(1 << (8 * word_bytes - 1)));
    let bits = 8 * (W::BLOCK_BYTES + word_bytes * words);
    rows[BLOCK_WORDS - 1].as_mut().fill(W::Word::low(bits as u64));
    let hash = PhantomData::<H>;
    W::call_and_wipe::<false, _>(room, CompressOne { states, block: Block::Rows(&rows), hash });
    rows.iter_mut().for_each(|row| wipe(row.as_mut()));
}

struct Compress<'a, H, W: Words, const PIECES: bool> {
    states: &'a mut States<W>,
    messages: &'a [&'a [u8]],
    blocks: usize,
    hash: PhantomData<H>,
}

impl<H: Hash<W>, W: Words, const PIECES: bool> Task<W> for Compress<'_, H, W, PIECES> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: W::Room) {
        let mut state = load(room, self.states);
        if W::LANES == 1 {
            for block in 0..self.blocks {
                let block = W::block(room, self.messages, block * W::BLOCK_BYTES);
                H::compress(room, &mut state, block, &mut ());
            }
        } else {
            let Compress { messages, blocks, .. } = self;
            compress_fed::<H, W, PIECES>(room, &mut state, messages, 0, blocks, &mut ());
        }
        store(&state, self.states);
    }
}

/// Adds `blocks` blocks of each lane's message, from byte `offset` on, to `state`, and does
/// something else beside them.
#[inline(always)]
pub(crate) fn compress_fed<H: Hash<W>, W: Words, const PIECES: bool>(
    room: W::Room,
    state: &mut [W; STATE_WORDS],
    messages: &[impl Message],
    offset: usize,
    blocks: usize,
    other: &mut impl Beside,
) {
    if blocks == 0 {
        return;
    }
    let mut feed = Feed::<W, PIECES>::new(messages, offset, blocks);
    let mut block = W::block(room, messages, offset);
    for _ in 0..blocks {
        // Behind the last block there is none to bring, and that one is brought once more.
        feed.turn();
        H::compress(room, state, block, &mut Fed { feed: &mut feed, other });
        block = feed.block(room);
    }
}

/// The block that comes next, and something else.
struct Fed<'a, 'b, W: Words, B, const PIECES: bool> {
    feed: &'b mut Feed<'a, W, PIECES>,
    other: &'b mut B,
}

impl<W: Words, B: Beside, const PIECES: bool> Beside for Fed<'_, '_, W, B, PIECES> {
    #[inline(always)]
    fn quarter(&mut self) {
        self.other.quarter();
    }

    #[inline(always)]
    fn part(&mut self, part: usize, parts: usize) {
        self.feed.bring(part, parts);
    }
}

/// One block alone, with nothing to bring beside it.
struct CompressOne<'a, H, W: Words> {
    states: &'a mut States<W>,
    block: Block<'a, W>,
    hash: PhantomData<H>,
}

/// Where a single block is.
enum Block<'a, W: Words> {
    /// In front of each lane's message.
    Messages(&'a [&'a [u8]]),
    /// In rows: word by word, lane by lane.
    Rows(&'a [W::Row; BLOCK_WORDS]),
}

impl<H: Hash<W>, W: Words> Task<W> for CompressOne<'_, H, W> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: W::Room) {
        let block = match self.block {
            Block::Messages(messages) => W::block(room, messages, 0),
            Block::Rows(rows) => load(room, rows),
        };
        let mut state = load(room, self.states);
        H::compress(room, &mut state, block, &mut ());
        store(&state, self.states);
    }
}

/// Rows as registers.
#[inline(always)]
pub(crate) fn load<W: Words, const ROWS: usize>(room: W::Room, rows: &[W::Row; ROWS]) -> [W; ROWS] {
    let mut registers = [W::load(room, &rows[0]); ROWS];
    for (register, row) in registers.iter_mut().zip(rows) {
        *register = W::load(room, row);
    }
    registers
}

/// Makes registers states again.
#[inline(always)]
pub(crate) fn store<W: Words>(registers: &[W; STATE_WORDS], states: &mut States<W>) {
    for (register, row) in registers.iter().zip(states) {
        *row = register.row();
    }
}

/// Repeats an expression for each index of a block's words, as straight code.
macro_rules! each_word {
    ($index:ident => $step:expr) => {
        each_word!($index => $step, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    ($index:ident => $step:expr, $($number:literal)+) => {
        $({
            const $index: usize = $number;
            $step;
        })+
    };
}
pub(crate) use each_word;
