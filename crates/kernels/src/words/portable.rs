//! Room portable of words: a word is a register of one lane, in plain Rust. Secret-independent.

use widelane_secret::stack::wiped;

use super::message::{Message, chunks_at};
use super::{BLOCK_WORDS, Words};
use crate::registers::Task;

/// Words of stack that a task spills.
pub(super) const SPILLED_WORDS: usize = 80;

macro_rules! plain_words {
    ($word:ident) => {
        impl Words for $word {
            #[inline(always)]
            fn block((): (), messages: &[impl Message], offset: usize) -> [Self; BLOCK_WORDS] {
                let mut block = [0; BLOCK_WORDS];
                let words: &[_; BLOCK_WORDS] = chunks_at(&messages[0], offset);
                for (word, bytes) in block.iter_mut().zip(words) {
                    *word = $word::from_be_bytes(*bytes);
                }
                block
            }

            #[inline(always)]
            fn in_order(self) -> Self {
                $word::from_be(self)
            }

            #[inline(always)]
            fn and_not(self, other: Self) -> Self {
                self & !other
            }

            #[inline(always)]
            fn rotate_right(self, bits: u32) -> Self {
                $word::rotate_right(self, bits)
            }

            fn call_and_wipe<const FEEDS: bool, T: Task<Self>>((): (), task: T) -> T::Output {
                wiped::<SPILLED_WORDS, _>(|| task.run(()))
            }
        }
    };
}

plain_words!(u32);
plain_words!(u64);
