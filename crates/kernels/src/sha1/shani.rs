//! Room shani of sha1: one message, four rounds per instruction. Secret-independent.
#![allow(unsafe_code, reason = "room: door, loads and stores")]

use core::arch::x86_64::*;

use widelane_cpu::Shani;
use widelane_secret::stack::wipe_frame;
use widelane_secret::wipe_ymm_registers;

use crate::hash::STATE_WORDS;
use crate::hash::one_message::{
    BLOCK_BYTES, DIGEST_BYTES, End, SPILLED_WORDS, one_message, settled,
};

one_message! {
    {} 0 {0 1 2 3 4}
    {} 1 {5 6 7 8 9}
    {} 2 {10 11 12 13 14}
    {} 3 {15 16 17 18 19}
}

/// A state in registers: a to d from the top down, and e at the top.
#[derive(Clone, Copy)]
pub(crate) struct State {
    abcd: __m128i,
    e: __m128i,
}

impl State {
    #[inline]
    #[target_feature(enable = "sha,aes,avx")]
    pub(crate) fn load(words: &[u32; STATE_WORDS]) -> Self {
        let [a, b, c, d, e, ..] = words.map(u32::cast_signed);
        State { abcd: _mm_set_epi32(a, b, c, d), e: _mm_set_epi32(e, 0, 0, 0) }
    }

    #[inline]
    #[target_feature(enable = "sha,aes,avx")]
    pub(crate) fn store(self, words: &mut [u32; STATE_WORDS]) {
        let abcd = _mm_shuffle_epi32::<0x1b>(self.abcd);
        let e = _mm_srli_si128::<12>(self.e);
        // All words, since a reader of e may load its neighbours in the same access.
        for (words, register) in words.as_chunks_mut::<4>().0.iter_mut().zip([abcd, e]) {
            // SAFETY: the words are as many as a register has.
            unsafe { _mm_storeu_si128(words.as_mut_ptr().cast(), register) };
        }
    }

    /// The words, from the top down.
    #[inline]
    #[target_feature(enable = "sha,aes,avx")]
    fn words(self) -> [__m128i; 2] {
        [self.abcd, self.e]
    }

    /// The block that pads a digest behind another block.
    #[inline]
    #[target_feature(enable = "sha,aes,avx")]
    fn padded(self) -> [__m128i; 4] {
        let [abcd, e] = self.words();
        let bits = 8 * (BLOCK_BYTES + 20) as i32;
        let e = _mm_or_si128(e, _mm_set_epi32(0, i32::MIN, 0, 0));
        [abcd, e, _mm_setzero_si128(), _mm_set_epi32(0, 0, 0, bits)]
    }
}

/// A block on its way.
struct Rounds {
    begun: State,
    abcd: __m128i,
    /// With the first words of the schedule added.
    e: __m128i,
    schedule: [__m128i; 4],
}

impl Rounds {
    #[inline]
    #[target_feature(enable = "sha,aes,avx")]
    fn new(begun: State, block: [__m128i; 4]) -> Self {
        let State { abcd, e } = begun;
        Rounds { begun, abcd, e: _mm_add_epi32(e, block[0]), schedule: block }
    }

    /// Four rounds; e comes from what a was before the four rounds in front.
    #[inline]
    #[target_feature(enable = "sha,aes,avx")]
    fn four<const GROUP: usize>(&mut self) {
        let [first, second, third, fourth] = self.schedule;
        let before = self.abcd;
        self.abcd = settled(match GROUP / 5 {
            0 => _mm_sha1rnds4_epu32::<0>(before, self.e),
            1 => _mm_sha1rnds4_epu32::<1>(before, self.e),
            2 => _mm_sha1rnds4_epu32::<2>(before, self.e),
            _ => _mm_sha1rnds4_epu32::<3>(before, self.e),
        });
        let next = if GROUP < 16 {
            let sum = _mm_xor_si128(_mm_sha1msg1_epu32(first, second), third);
            settled(_mm_sha1msg2_epu32(sum, fourth))
        } else {
            first
        };
        self.e = _mm_sha1nexte_epu32(before, if GROUP < 19 { second } else { self.begun.e });
        self.schedule = [second, third, fourth, next];
    }

    #[inline]
    #[target_feature(enable = "sha,aes,avx")]
    fn end(self) -> State {
        State { abcd: _mm_add_epi32(self.abcd, self.begun.abcd), e: self.e }
    }
}

/// The words in 16 bytes, from the top down, or the bytes of such words.
#[inline]
#[target_feature(enable = "sha,aes,avx")]
fn in_order(register: __m128i) -> __m128i {
    _mm_shuffle_epi8(register, _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f))
}
