//! Room shani of sha2: SHA-256 of one message, two rounds per instruction. Secret-independent.
#![allow(unsafe_code, reason = "room: door, loads and stores")]

use core::arch::x86_64::*;

use widelane_cpu::Shani;
use widelane_secret::stack::wipe_frame;
use widelane_secret::wipe_ymm_registers;

use super::ROUNDS_32;
use crate::hash::STATE_WORDS;
use crate::hash::one_message::{
    BLOCK_BYTES, DIGEST_BYTES, End, SPILLED_WORDS, one_message, settled,
};

one_message! {
    {0 1 2 3} 0 {}
    {4 5 6 7} 1 {}
    {8 9 10 11} 2 {}
    {12 13 14 15} 3 {}
}

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
        let registers = self.words();
        for (words, register) in words.as_chunks_mut::<4>().0.iter_mut().zip(registers) {
            // SAFETY: the words are as many as a register has.
            unsafe { _mm_storeu_si128(words.as_mut_ptr().cast(), register) };
        }
    }

    /// The words, from the bottom up.
    #[inline]
    #[target_feature(enable = "sha,aes,avx")]
    fn words(self) -> [__m128i; 2] {
        let dcba = _mm_shuffle_epi32::<0x1b>(_mm_unpackhi_epi64(self.cdgh, self.abef));
        let hgfe = _mm_shuffle_epi32::<0x1b>(_mm_unpacklo_epi64(self.cdgh, self.abef));
        [dcba, hgfe]
    }

    /// The block that pads a digest behind another block.
    #[inline]
    #[target_feature(enable = "sha,aes,avx")]
    fn padded(self) -> [__m128i; 4] {
        let [dcba, hgfe] = self.words();
        let bits = 8 * (BLOCK_BYTES + 32) as i32;
        [dcba, hgfe, _mm_set_epi32(0, 0, 0, i32::MIN), _mm_set_epi32(bits, 0, 0, 0)]
    }
}

/// A block on its way.
struct Rounds {
    begun: State,
    abef: __m128i,
    cdgh: __m128i,
    schedule: [__m128i; 4],
}

impl Rounds {
    #[inline]
    #[target_feature(enable = "sha,aes,avx")]
    fn new(begun: State, block: [__m128i; 4]) -> Self {
        let State { abef, cdgh } = begun;
        Rounds { begun, abef, cdgh, schedule: block }
    }

    #[inline]
    #[target_feature(enable = "sha,aes,avx")]
    fn four<const GROUP: usize>(&mut self) {
        let [first, second, third, fourth] = self.schedule;
        let constants = ROUNDS_32.as_chunks::<4>().0[GROUP].as_ptr();
        // SAFETY: four words are as many bytes as a register has.
        let constants = unsafe { _mm_loadu_si128(constants.cast()) };
        let sum = _mm_add_epi32(first, constants);
        self.cdgh = _mm_sha256rnds2_epu32(self.cdgh, self.abef, sum);
        let upper = _mm_shuffle_epi32::<0x0e>(sum);
        self.abef = settled(_mm_sha256rnds2_epu32(self.abef, self.cdgh, upper));
        let next = if GROUP < 12 {
            let seventh = _mm_alignr_epi8::<4>(fourth, third);
            let sum = _mm_add_epi32(_mm_sha256msg1_epu32(first, second), seventh);
            settled(_mm_sha256msg2_epu32(sum, fourth))
        } else {
            first
        };
        self.schedule = [second, third, fourth, next];
    }

    #[inline]
    #[target_feature(enable = "sha,aes,avx")]
    fn end(self) -> State {
        let State { abef, cdgh } = self.begun;
        State { abef: _mm_add_epi32(self.abef, abef), cdgh: _mm_add_epi32(self.cdgh, cdgh) }
    }
}

/// The words in 16 bytes, from the bottom up, or the bytes of such words.
#[inline]
#[target_feature(enable = "sha,aes,avx")]
fn in_order(register: __m128i) -> __m128i {
    _mm_shuffle_epi8(register, _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203))
}
