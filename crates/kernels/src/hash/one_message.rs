//! What the rooms shani of all hashes have in common: the text of their doors.
//!
//! A room brings a `State` in registers and the `Rounds` of one block, four at a time. They are
//! written down in the order in which they are wanted, and stay in it: left to itself, the compiler
//! makes a whole schedule first, and what should be overlapped with the rounds waits behind it.
//!
//! The instructions of SHA have no VEX form. Where a caller has left the upper halves of registers
//! in use, an Intel core waits at each of them that follows one with VEX, and a message takes tens
//! of times as long: so doors begin with VZEROUPPER.
#![allow(unsafe_code, reason = "loads, and empty asm blocks")]

use core::arch::asm;
use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_set_epi64x, _mm_setzero_si128};

/// Bytes of a block.
pub(crate) const BLOCK_BYTES: usize = 64;

/// Bytes of a register.
const PIECE_BYTES: usize = 16;

/// Bytes of the longest digest of a hash with words of 32 bits.
pub const DIGEST_BYTES: usize = 32;

/// Words of stack that are cleared after `compress_pair` and `end`.
pub(crate) const SPILLED_WORDS: usize = 40;

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

/// What is left of a message behind its whole blocks, and the padding (FIPS 180-4, 5.1.1).
///
/// In registers and memory by sixteen bytes: a block that is written in smaller pieces than it is
/// read in has to be in the cache before it is read.
pub(crate) struct End {
    blocks: [[__m128i; 4]; 2],
    count: usize,
}

impl End {
    /// An end that has to be set first. Where it stands: moving it would take it apart.
    #[inline]
    #[target_feature(enable = "sha,aes,avx")]
    pub(crate) fn new() -> Self {
        End { blocks: [[_mm_setzero_si128(); 4]; 2], count: 0 }
    }

    /// Takes what is left of a message of `total` bytes.
    #[inline]
    #[target_feature(enable = "sha,aes,avx")]
    pub(crate) fn set(&mut self, message: &[u8], total: u64) {
        let (pieces, rest) = message.as_chunks::<PIECE_BYTES>();
        let whole = pieces.len() % 4;
        let fits = PIECE_BYTES * whole + rest.len() < BLOCK_BYTES - size_of::<u64>();
        self.count = if fits { 1 } else { 2 };
        let registers = &mut self.blocks.as_flattened_mut()[..4 * self.count];
        for (register, piece) in registers.iter_mut().zip(&pieces[pieces.len() - whole..]) {
            // SAFETY: the bytes are as many as a register has.
            *register = unsafe { _mm_loadu_si128(piece.as_ptr().cast()) };
        }
        let end = last_bytes(message, rest.len()) | 0x80 << (8 * rest.len());
        let bits = u128::from((total << 3).swap_bytes()) << 64;
        let last = registers.len() - 1;
        registers[last] = register(bits);
        registers[whole] = register(if whole == last { end | bits } else { end });
    }

    #[inline]
    pub(crate) fn blocks(&self) -> &[[__m128i; 4]] {
        &self.blocks[..self.count]
    }

    #[inline]
    #[target_feature(enable = "sha,aes,avx")]
    pub(crate) fn wipe(&mut self) {
        self.blocks = [[_mm_setzero_si128(); 4]; 2];
        // SAFETY: an empty block changes no state; the compiler must assume that it reads all.
        unsafe { asm!("/* {0} */", in(reg) &self.blocks, options(readonly, nostack)) };
    }
}

/// The last bytes of a message, `count` of them and fewer than sixteen, the first one lowest.
#[inline]
fn last_bytes(message: &[u8], count: usize) -> u128 {
    match message.last_chunk() {
        _ if count == 0 => 0,
        Some(bytes) => u128::from_le_bytes(*bytes) >> (8 * (PIECE_BYTES - count)),
        None => message.iter().rev().fold(0, |bytes, byte| bytes << 8 | u128::from(*byte)),
    }
}

/// A register, which stays one: the compiler would store it in halves.
#[inline]
#[target_feature(enable = "sha,aes,avx")]
fn register(bytes: u128) -> __m128i {
    settled(_mm_set_epi64x((bytes >> 64) as i64, bytes as i64))
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
            _mm256_zeroupper();
            let mut registers = State::load(state);
            for block in blocks {
                registers.add(load(block), |_quarter| ());
            }
            registers.store(state);
            wipe_ymm_registers();
        }

        /// Adds blocks to the states of two messages, as many to each: the two chains are
        /// overlapped with each other.
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
            // SAFETY: as above.
            unsafe { wipe_spilled() }
        }

        /// Clears the stack into which the function that has just returned spilled its state.
        #[target_feature(enable = "sha,aes,avx")]
        #[inline(never)]
        fn wipe_spilled() {
            wipe_frame::<SPILLED_WORDS>();
        }

        #[target_feature(enable = "sha,aes,avx")]
        #[inline(never)]
        fn compress_pair_body(
            [first, second]: [&mut [u32; STATE_WORDS]; 2],
            blocks: [&[[u8; BLOCK_BYTES]]; 2],
        ) {
            assert_eq!(blocks[0].len(), blocks[1].len(), "two messages go on together");
            _mm256_zeroupper();
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

        /// Adds what is left of a message to its state, padded if `total`, the bytes of the whole
        /// message, is given, and stores the digest, zeros behind it. Given the state behind an
        /// outer pad, of HMAC, adds the digest to that, and stores the tag: where the digest has
        /// all words of a state.
        ///
        /// Without padding, what does not fill a block is left out.
        pub fn end(
            _room: Shani,
            state: &[u32; STATE_WORDS],
            message: &[u8],
            total: Option<u64>,
            outer: Option<&[u32; STATE_WORDS]>,
            digest: &mut [u8; DIGEST_BYTES],
        ) {
            // SAFETY: as above.
            unsafe { end_body(state, message, total, outer, digest) }
            // SAFETY: as above.
            unsafe { wipe_spilled() }
        }

        #[target_feature(enable = "sha,aes,avx")]
        #[inline(never)]
        fn end_body(
            state: &[u32; STATE_WORDS],
            message: &[u8],
            total: Option<u64>,
            outer: Option<&[u32; STATE_WORDS]>,
            digest: &mut [u8; DIGEST_BYTES],
        ) {
            _mm256_zeroupper();
            let mut registers = State::load(state);
            for block in message.as_chunks().0 {
                registers.add(load(block), |_quarter| ());
            }
            if let Some(total) = total {
                let mut end = End::new();
                end.set(message, total);
                for block in end.blocks() {
                    registers.add(words(block), |_quarter| ());
                }
                end.wipe();
            }
            if let Some(outer) = outer {
                // From register to register: a block in memory would be written in smaller pieces
                // than it is read in, and reading it would wait.
                let block = registers.padded();
                registers = State::load(outer);
                registers.add(block, |_quarter| ());
            }
            // In one piece, since what reads it next may read it so.
            let [low, high] = registers.words();
            let bytes = _mm256_set_m128i(in_order(high), in_order(low));
            // SAFETY: the digest is as many bytes as a register has.
            unsafe { _mm256_storeu_si256(digest.as_mut_ptr().cast(), bytes) };
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
            let mut registers = [_mm_setzero_si128(); 4];
            for (register, bytes) in registers.iter_mut().zip(block.as_chunks::<16>().0) {
                // SAFETY: the bytes are as many as a register has.
                *register = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
            }
            words(&registers)
        }

        /// The words in the bytes of a block.
        #[inline]
        #[target_feature(enable = "sha,aes,avx")]
        fn words(block: &[__m128i; 4]) -> [__m128i; 4] {
            let mut words = *block;
            for register in &mut words {
                *register = in_order(*register);
            }
            words
        }
    };
}
pub(crate) use one_message;
