//! What the rooms shani of all hashes have in common: the text of their doors.
//!
//! A room brings a `State` in registers and the `Rounds` of one block, four at a time. They are
//! written down in the order in which they are wanted, and stay in it: left to itself, the compiler
//! makes a whole schedule first, and what should run in the shade of the rounds waits behind it.
#![allow(unsafe_code, reason = "an empty asm block")]

use core::arch::asm;
use core::arch::x86_64::__m128i;

/// Bytes of the longest digest of a hash with words of 32 bits.
pub const DIGEST_BYTES: usize = 32;

/// The same register, which the compiler does not look through.
#[inline]
#[target_feature(enable = "avx")]
pub(crate) fn settled(register: __m128i) -> __m128i {
    let mut settled = register;
    // SAFETY: an empty block changes nothing. Not `pure`, so that such blocks keep their order.
    unsafe {
        asm!("/* {0} */", inout(xmm_reg) settled, options(nomem, nostack, preserves_flags));
    }
    settled
}

/// Defines the doors of a room with the SHA extensions, whose rounds come in groups of four and in
/// quarters: the groups before and behind where something else is done beside.
macro_rules! one_message {
    ($({$($before:literal)*} $quarter:literal {$($behind:literal)*})+) => {
        /// Adds blocks to the state of one message.
        pub fn compress(
            _room: Shani,
            state: &mut [u32; STATE_WORDS],
            blocks: &[[u8; BLOCK_BYTES]],
        ) {
            // SAFETY: the token exists only if every feature of its room was detected.
            unsafe { compress_body(state, blocks) }
        }

        #[target_feature(enable = "sha,aes,avx")]
        fn compress_body(state: &mut [u32; STATE_WORDS], blocks: &[[u8; BLOCK_BYTES]]) {
            let mut registers = State::load(state);
            for block in blocks {
                registers.add(load(block), |_quarter| ());
            }
            registers.store(state);
            wipe_ymm_registers();
        }

        /// Adds blocks to the states of two messages, as many to each: one chain runs in the shade
        /// of the other.
        ///
        /// # Panics
        ///
        /// Panics if one message has more blocks than the other.
        pub fn compress_pair(
            _room: Shani,
            states: [&mut [u32; STATE_WORDS]; 2],
            blocks: [&[[u8; BLOCK_BYTES]]; 2],
        ) {
            // SAFETY: as above.
            unsafe { compress_pair_body(states, blocks) }
        }

        #[target_feature(enable = "sha,aes,avx")]
        fn compress_pair_body(
            [first, second]: [&mut [u32; STATE_WORDS]; 2],
            blocks: [&[[u8; BLOCK_BYTES]]; 2],
        ) {
            assert_eq!(blocks[0].len(), blocks[1].len(), "two messages go on together");
            let mut registers = [State::load(first), State::load(second)];
            for (left, right) in blocks[0].iter().zip(blocks[1]) {
                let mut rounds =
                    [Rounds::new(registers[0], load(left)), Rounds::new(registers[1], load(right))];
                $(
                    $(
                        rounds[0].four::<$before>();
                        rounds[1].four::<$before>();
                    )*
                    $(
                        rounds[0].four::<$behind>();
                        rounds[1].four::<$behind>();
                    )*
                )+
                let [left, right] = rounds;
                registers = [left.end(), right.end()];
            }
            registers[0].store(first);
            registers[1].store(second);
            wipe_ymm_registers();
        }

        /// Adds the last blocks of a message, which are in two pieces, and stores the digest, zeros
        /// behind it. Given the state behind an outer pad, of HMAC, adds the digest to that, and
        /// stores the tag: where the digest has all words of a state.
        pub fn end(
            _room: Shani,
            state: &[u32; STATE_WORDS],
            pieces: [&[[u8; BLOCK_BYTES]]; 2],
            outer: Option<&[u32; STATE_WORDS]>,
            digest: &mut [u8; DIGEST_BYTES],
        ) {
            // SAFETY: as above.
            unsafe { end_body(state, pieces, outer, digest) }
        }

        #[target_feature(enable = "sha,aes,avx")]
        fn end_body(
            state: &[u32; STATE_WORDS],
            pieces: [&[[u8; BLOCK_BYTES]]; 2],
            outer: Option<&[u32; STATE_WORDS]>,
            digest: &mut [u8; DIGEST_BYTES],
        ) {
            let mut registers = State::load(state);
            for blocks in pieces {
                for block in blocks {
                    registers.add(load(block), |_quarter| ());
                }
            }
            if let Some(outer) = outer {
                // From register to register: a block in memory would be written in smaller pieces
                // than it is read in, and reading it would wait.
                let block = registers.padded();
                registers = State::load(outer);
                registers.add(block, |_quarter| ());
            }
            for (bytes, words) in digest.as_chunks_mut::<16>().0.iter_mut().zip(registers.words()) {
                // SAFETY: the bytes are as many as a register has.
                unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), in_order(words)) };
            }
            wipe_ymm_registers();
        }

        impl State {
            /// Adds a block, and does something else in each quarter of its rounds.
            #[inline]
            #[target_feature(enable = "sha,aes,avx")]
            pub(crate) fn add(&mut self, block: [__m128i; 4], mut beside: impl FnMut(usize)) {
                let mut rounds = Rounds::new(*self, block);
                $(
                    $(rounds.four::<$before>();)*
                    beside($quarter);
                    $(rounds.four::<$behind>();)*
                )+
                *self = rounds.end();
            }
        }

        /// The words of a block.
        #[inline]
        #[target_feature(enable = "sha,aes,avx")]
        pub(crate) fn load(block: &[u8; BLOCK_BYTES]) -> [__m128i; 4] {
            let mut words = [_mm_setzero_si128(); 4];
            for (words, bytes) in words.iter_mut().zip(block.as_chunks::<16>().0) {
                // SAFETY: the bytes are as many as a register has.
                *words = in_order(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) });
            }
            words
        }
    };
}
pub(crate) use one_message;
