//! Room shani of sha2: SHA-256 of one message, two rounds per instruction. Secret-independent.
#![allow(unsafe_code, reason = "room: door, loads and stores")]

use core::arch::x86_64::*;

use widelane_cpu::Shani;
use widelane_secret::wipe_ymm_registers;

use super::ROUNDS_32;
use crate::hash::STATE_WORDS;
use crate::hash::one_message::one_message;

/// Bytes of a block.
const BLOCK_BYTES: usize = 64;

one_message!();

/// A state in registers, as the instructions want it: from the top down.
#[derive(Clone, Copy)]
pub(crate) struct State {
    abef: __m128i,
    cdgh: __m128i,
}

impl State {
    #[inline]
    #[target_feature(enable = "sha,aes,avx")]
    pub(crate) fn load(words: &[u32; STATE_WORDS]) -> Self {
        let [a, b, c, d, e, f, g, h] = words.map(u32::cast_signed);
        State { abef: _mm_set_epi32(a, b, e, f), cdgh: _mm_set_epi32(c, d, g, h) }
    }

    #[inline]
    #[target_feature(enable = "sha,aes,avx")]
    pub(crate) fn store(self, words: &mut [u32; STATE_WORDS]) {
        let dcba = _mm_shuffle_epi32::<0x1b>(_mm_unpackhi_epi64(self.cdgh, self.abef));
        let hgfe = _mm_shuffle_epi32::<0x1b>(_mm_unpacklo_epi64(self.cdgh, self.abef));
        for (words, register) in words.as_chunks_mut::<4>().0.iter_mut().zip([dcba, hgfe]) {
            // SAFETY: the words are as many as a register has.
            unsafe { _mm_storeu_si128(words.as_mut_ptr().cast(), register) };
        }
    }

    /// Adds a block.
    #[inline]
    #[target_feature(enable = "sha,aes,avx")]
    pub(crate) fn add(&mut self, block: &[u8; BLOCK_BYTES]) {
        let mut schedule = load(block);
        let mut state = *self;
        let (scheduled, last) = ROUNDS_32.as_chunks::<4>().0.split_at(12);
        for constants in scheduled {
            let [first, second, third, fourth] = schedule;
            state.four_rounds(first, constants);
            let seventh = _mm_alignr_epi8::<4>(fourth, third);
            let next = _mm_add_epi32(_mm_sha256msg1_epu32(first, second), seventh);
            schedule = [second, third, fourth, _mm_sha256msg2_epu32(next, fourth)];
        }
        for (words, constants) in schedule.into_iter().zip(last) {
            state.four_rounds(words, constants);
        }
        self.abef = _mm_add_epi32(self.abef, state.abef);
        self.cdgh = _mm_add_epi32(self.cdgh, state.cdgh);
    }

    #[inline]
    #[target_feature(enable = "sha,aes,avx")]
    fn four_rounds(&mut self, words: __m128i, constants: &[u32; 4]) {
        // SAFETY: four words are as many bytes as a register has.
        let constants = unsafe { _mm_loadu_si128(constants.as_ptr().cast()) };
        let sum = _mm_add_epi32(words, constants);
        self.cdgh = _mm_sha256rnds2_epu32(self.cdgh, self.abef, sum);
        self.abef = _mm_sha256rnds2_epu32(self.abef, self.cdgh, _mm_shuffle_epi32::<0x0e>(sum));
    }
}

/// The words of a block, four to a register from the bottom up.
#[inline]
#[target_feature(enable = "sha,aes,avx")]
fn load(block: &[u8; BLOCK_BYTES]) -> [__m128i; 4] {
    let order = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
    let mut words = [order; 4];
    for (words, bytes) in words.iter_mut().zip(block.as_chunks::<16>().0) {
        // SAFETY: the bytes are as many as a register has.
        let loaded = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
        *words = _mm_shuffle_epi8(loaded, order);
    }
    words
}
