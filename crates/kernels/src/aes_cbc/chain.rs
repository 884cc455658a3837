//! What all rooms with AES instructions do block by block: key expansion and the chain of one text.
#![allow(unsafe_code, reason = "loads and stores")]

use core::arch::x86_64::*;

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
    let mut chain = Chain::<ROUNDS>::new(key, last);
    for block in 0..text.len() / BLOCK_BYTES {
        chain.step(text, block * BLOCK_BYTES);
    }
    *last = chain.last();
}

/// A chain of blocks under encryption in so many rounds.
pub(super) struct Chain<'a, const ROUNDS: usize> {
    key: &'a Key,
    last: __m128i,
}

impl<'a, const ROUNDS: usize> Chain<'a, ROUNDS> {
    #[inline]
    #[target_feature(enable = "aes,avx")]
    pub(super) fn new(key: &'a Key, last: &Block) -> Self {
        Chain { key, last: from_bytes(last) }
    }

    /// Encrypts the next block.
    #[inline]
    #[target_feature(enable = "aes,avx")]
    pub(super) fn step(&mut self, text: Text<'_>, offset: usize) {
        let source = text.source(offset, BLOCK_BYTES);
        // SAFETY: `source` names as many readable bytes as a block has.
        let plain = unsafe { _mm_loadu_si128(source.cast()) };
        let keys = &self.key.encrypt;
        // The first key does not wait for the block in front.
        let mut state = _mm_xor_si128(self.last, _mm_xor_si128(plain, register(&keys[0])));
        for round_key in &keys[1..ROUNDS] {
            state = _mm_aesenc_si128(state, register(round_key));
        }
        self.last = _mm_aesenclast_si128(state, register(&keys[ROUNDS]));
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
