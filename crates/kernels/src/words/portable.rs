//! Room portable of words: a word is a register of one lane, in plain Rust. Secret-independent.

use super::message::{Message, chunks_at};
use super::{BLOCK_WORDS, Task, Words};
use crate::stack::wiped;

/// Words of stack that a task spills.
pub(super) const SPILLED_WORDS: usize = 80;

macro_rules! plain_words {
    ($word:ident) => {
        impl Words for $word {
            type Room = ();
            type Word = $word;
            type Row = [$word; 1];
            const LANES: usize = 1;

            #[inline(always)]
            fn splat((): (), word: $word) -> Self {
                word
            }

            #[inline(always)]
            fn load((): (), row: &[$word; 1]) -> Self {
                row[0]
            }

            #[inline(always)]
            fn row(self) -> [$word; 1] {
                [self]
            }

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
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }

            #[inline(always)]
            fn and_not(self, other: Self) -> Self {
                self & !other
            }

            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }

            #[inline(always)]
            fn rotate<const BITS: u32>(self) -> Self {
                self.rotate_right(BITS)
            }

            #[inline(always)]
            fn shift<const BITS: u32>(self) -> Self {
                self >> BITS
            }

            #[inline(never)]
            fn enter<T: Task<Self>>((): (), task: T) -> T::Output {
                task.run(())
            }

            fn call<T: Task<Self>>((): (), task: T) -> T::Output {
                wiped::<SPILLED_WORDS, _>(|| task.run(()))
            }
        }
    };
}

plain_words!(u32);
plain_words!(u64);
