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
pub fn zeros<W: Words>(room: W::Room) -> States<W> {
    [W::splat(room, W::Word::default()).row(); STATE_WORDS]
}

/// What a hash function does with words of its size.
pub trait Hash<W: Words> {
    /// Adds a block to the state of each lane.
    fn compress(room: W::Room, state: &mut [W; STATE_WORDS], block: [W; BLOCK_WORDS]);
}

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
        let mut state = [W::load(room, &self.states[0]); STATE_WORDS];
        for (word, row) in state.iter_mut().zip(&*self.states) {
            *word = W::load(room, row);
        }
        for block in 0..self.blocks {
            let block = W::block(room, self.messages, block * W::BLOCK_BYTES);
            H::compress(room, &mut state, block);
        }
        for (word, row) in state.iter().zip(self.states) {
            *row = word.row();
        }
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
