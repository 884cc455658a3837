//! What all rooms with AES instructions do block by block: key expansion and the chain of one text.
#![allow(unsafe_code, reason = "loads and stores")]

use core::arch::x86_64::*;
use core::hint::black_box;

use super::{BLOCK_BYTES, Block, Key, KeyBytes};
use crate::aes_gcm::expand::expand_rounds;
use crate::text::Text;

/// Expands a key into `made`.
#[target_feature(enable = "aes,avx")]
pub(super) fn expand(key: KeyBytes<'_>, made: &mut Key) {
    made.rounds = key.rounds();
    expand_rounds(key, &mut made.encrypt);
    for round in 0..=made.rounds {
        let round_key = register(&made.encrypt[made.rounds - round]);
        let inner = 0 < round && round < made.rounds;
        let round_key = if inner { _mm_aesimc_si128(round_key) } else { round_key };
        made.decrypt[round] = words(round_key);
    }
}

/// Encrypts whole blocks behind the block `last`, and leaves the last one there.
#[target_feature(enable = "aes,avx")]
pub(super) fn encrypt(key: &Key, last: &mut Block, text: Text<'_>) {
    match key.rounds {
        10 => encrypt_by::<10>(key, last, text),
        12 => encrypt_by::<12>(key, last, text),
        _ => encrypt_by::<14>(key, last, text),
    }
}

#[inline]
#[target_feature(enable = "aes,avx")]
fn encrypt_by<const ROUNDS: usize>(key: &Key, last: &mut Block, text: Text<'_>) {
    if text.is_empty() {
        return;
    }
    let mut chain = Chain::<ROUNDS>::new(key, last, text);
    for block in 0..text.len() / BLOCK_BYTES {
        chain.step(text, block * BLOCK_BYTES);
    }
    *last = chain.last();
}

/// A chain of blocks under encryption in `ROUNDS` rounds.
///
/// The last round of a block adds, with its key, what the next one begins with: from one block to
/// the next there is nothing but rounds.
pub(super) struct Chain<'a, const ROUNDS: usize> {
    key: &'a Key,
    /// What the next block begins with: the last one, plaintext and the first round key.
    state: __m128i,
    last: __m128i,
}

impl<'a, const ROUNDS: usize> Chain<'a, ROUNDS> {
    /// Begins a text that is not empty, behind a block.
    #[inline]
    #[target_feature(enable = "aes,avx")]
    pub(super) fn new(key: &'a Key, last: &Block, text: Text<'_>) -> Self {
        let last = from_bytes(last);
        let beginning = _mm_xor_si128(plain(text, 0), register(&key.encrypt[0]));
        Chain { key, state: _mm_xor_si128(last, beginning), last }
    }

    /// Encrypts the next block.
    #[inline]
    #[target_feature(enable = "aes,avx")]
    pub(super) fn step(&mut self, text: Text<'_>, offset: usize) {
        // So that the compiler reads keys where they are, and copies none of them to the stack.
        let (keys, next) = (black_box(&self.key.encrypt), offset + BLOCK_BYTES);
        let next_plain =
            if next + BLOCK_BYTES <= text.len() { plain(text, next) } else { _mm_setzero_si128() };
        let beginning = _mm_xor_si128(next_plain, register(&keys[0]));
        let mut state = self.state;
        for round_key in &keys[1..ROUNDS] {
            state = _mm_aesenc_si128(state, register(round_key));
        }
        let last_key = _mm_xor_si128(register(&keys[ROUNDS]), beginning);
        self.state = _mm_aesenclast_si128(state, last_key);
        self.last = _mm_xor_si128(self.state, beginning);
        let target = text.target(offset, BLOCK_BYTES);
        // SAFETY: `target` names as many writable bytes as a block has.
        unsafe { _mm_storeu_si128(target.cast(), self.last) };
    }

    #[inline]
    #[target_feature(enable = "aes,avx")]
    pub(super) fn last(&self) -> Block {
        to_bytes(self.last)
    }
}

/// A block of a text as it is read.
#[inline]
#[target_feature(enable = "aes,avx")]
fn plain(text: Text<'_>, offset: usize) -> __m128i {
    let source = text.source(offset, BLOCK_BYTES);
    // SAFETY: `source` names as many readable bytes as a block has.
    unsafe { _mm_loadu_si128(source.cast()) }
}

#[inline]
#[target_feature(enable = "aes,avx")]
pub(super) fn register(words: &[u64; 2]) -> __m128i {
    // SAFETY: two words are as many bytes as a register has.
    unsafe { _mm_loadu_si128(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "aes,avx")]
fn words(register: __m128i) -> [u64; 2] {
    let mut words = [0; 2];
    // SAFETY: two words are as many bytes as a register has.
    unsafe { _mm_storeu_si128(words.as_mut_ptr().cast(), register) };
    words
}

#[inline]
#[target_feature(enable = "aes,avx")]
pub(super) fn from_bytes(block: &Block) -> __m128i {
    // SAFETY: a block has as many bytes as a register.
    unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "aes,avx")]
pub(super) fn to_bytes(register: __m128i) -> Block {
    let mut block = [0; BLOCK_BYTES];
    // SAFETY: a block has as many bytes as a register.
    unsafe { _mm_storeu_si128(block.as_mut_ptr().cast(), register) };
    block
}
