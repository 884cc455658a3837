//! Hash functions that compress a message block by block (Merkle and Damgård): one door for all.
//!
//! [`compress`] adds blocks of as many messages as a register of the room has lanes. What a hash
//! does to a block stands in [`sha1`](crate::sha1) and [`sha2`](crate::sha2), once for all
//! registers; padding, and lanes that come and go, are for the caller.

pub(crate) mod one_message;
#[cfg(test)]
mod tests;

pub use one_message::TAG_BYTES;

use core::marker::PhantomData;

use crate::words::{BLOCK_WORDS, Task, Words};

/// Words of a state: of SHA-1, the last three mean nothing.
pub const STATE_WORDS: usize = 8;

/// The states of as many messages as there are lanes: word by word, lane by lane.
pub type States<W> = [<W as Words>::Row; STATE_WORDS];

/// States that are all zeros.
pub fn zeros<W: Words>() -> States<W> {
    [W::Row::default(); STATE_WORDS]
}

/// What a hash function does with words of its size.
pub trait Hash<W: Words> {
    /// Adds a block to the state of each lane, and does something else in each quarter of its
    /// rounds.
    fn compress(
        room: W::Room,
        state: &mut [W; STATE_WORDS],
        block: [W; BLOCK_WORDS],
        beside: &mut impl Beside,
    );
}

/// What is done in each quarter of the rounds of a block; nothing, by default. Not a closure, which
/// might stay a function of its own, without the features of the room.
pub trait Beside {
    /// Does what belongs to a quarter. Always `#[inline(always)]`.
    #[inline(always)]
    fn quarter(&mut self, _quarter: usize) {}
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
    W::call(room, Compress::<H, W> { states, messages, blocks, hash: PhantomData });
}

struct Compress<'a, H, W: Words> {
    states: &'a mut States<W>,
    messages: &'a [&'a [u8]],
    blocks: usize,
    hash: PhantomData<H>,
}

impl<H: Hash<W>, W: Words> Task<W> for Compress<'_, H, W> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: W::Room) {
        let mut state = load(room, self.states);
        for block in 0..self.blocks {
            let block = W::block(room, self.messages, block * W::BLOCK_BYTES);
            H::compress(room, &mut state, block, &mut ());
        }
        store(&state, self.states);
    }
}

/// Adds to each lane's state, which stands behind one block, a digest of `words` words, and the
/// padding: the outer hash of HMAC.
///
/// Secrets: states and digests.
pub fn compress_digests<H: Hash<W>, W: Words<Word = u32>>(
    room: W::Room,
    states: &mut States<W>,
    digests: &States<W>,
    words: usize,
) {
    W::call(room, CompressDigests::<H, W> { states, digests, words, hash: PhantomData });
}

struct CompressDigests<'a, H, W: Words> {
    states: &'a mut States<W>,
    digests: &'a States<W>,
    words: usize,
    hash: PhantomData<H>,
}

impl<H: Hash<W>, W: Words<Word = u32>> Task<W> for CompressDigests<'_, H, W> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: W::Room) {
        let mut block = [W::splat(room, 0); BLOCK_WORDS];
        let (digest, padding) = block.split_at_mut(self.words);
        for (word, row) in digest.iter_mut().zip(self.digests) {
            *word = W::load(room, row);
        }
        padding[0] = W::splat(room, 1 << 31);
        let bytes = W::BLOCK_BYTES + 4 * self.words;
        block[BLOCK_WORDS - 1] = W::splat(room, 8 * bytes as u32);
        let mut state = load(room, self.states);
        H::compress(room, &mut state, block, &mut ());
        store(&state, self.states);
    }
}

/// States as registers.
#[inline(always)]
pub(crate) fn load<W: Words>(room: W::Room, states: &States<W>) -> [W; STATE_WORDS] {
    let mut registers = [W::load(room, &states[0]); STATE_WORDS];
    for (register, row) in registers.iter_mut().zip(states) {
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
