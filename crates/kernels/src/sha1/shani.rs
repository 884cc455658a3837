//! Room shani of sha1: one message, four rounds per instruction. Secret-independent.
#![allow(unsafe_code, reason = "room: door, loads and stores")]

use core::arch::x86_64::*;

use widelane_cpu::Shani;
use widelane_secret::wipe_ymm_registers;

use crate::hash::STATE_WORDS;
use crate::hash::one_message::one_message;

/// Bytes of a block.
const BLOCK_BYTES: usize = 64;

one_message!();

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
        // SAFETY: the state has more words than are stored.
        unsafe { _mm_storeu_si128(words.as_mut_ptr().cast(), abcd) };
        words[4] = _mm_extract_epi32::<3>(self.e).cast_unsigned();
    }

    /// Adds a block.
    #[inline]
    #[target_feature(enable = "sha,aes,avx")]
    pub(crate) fn add(&mut self, block: &[u8; BLOCK_BYTES]) {
        let mut schedule = load(block);
        let mut abcd = self.abcd;
        let mut e = _mm_add_epi32(self.e, schedule[0]);
        // Four rounds; e comes from what a was before the four rounds in front.
        macro_rules! rounds {
            ($function:literal: $($group:literal)+) => {
                $({
                    const GROUP: usize = $group;
                    let before = abcd;
                    abcd = _mm_sha1rnds4_epu32::<$function>(abcd, e);
                    if GROUP < 16 {
                        let following = schedule[(GROUP + 1) % 4];
                        let word = _mm_sha1msg1_epu32(schedule[GROUP % 4], following);
                        let word = _mm_xor_si128(word, schedule[(GROUP + 2) % 4]);
                        schedule[GROUP % 4] = _mm_sha1msg2_epu32(word, schedule[(GROUP + 3) % 4]);
                    }
                    let next = if GROUP < 19 { schedule[(GROUP + 1) % 4] } else { self.e };
                    e = _mm_sha1nexte_epu32(before, next);
                })+
            };
        }
        rounds!(0: 0 1 2 3 4);
        rounds!(1: 5 6 7 8 9);
        rounds!(2: 10 11 12 13 14);
        rounds!(3: 15 16 17 18 19);
        *self = State { abcd: _mm_add_epi32(abcd, self.abcd), e };
    }
}

/// The words of a block, four to a register from the top down.
#[inline]
#[target_feature(enable = "sha,aes,avx")]
fn load(block: &[u8; BLOCK_BYTES]) -> [__m128i; 4] {
    let order = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
    let mut words = [order; 4];
    for (words, bytes) in words.iter_mut().zip(block.as_chunks::<16>().0) {
        // SAFETY: the bytes are as many as a register has.
        let loaded = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
        *words = _mm_shuffle_epi8(loaded, order);
    }
    words
}
