//! Room avx2 of sha2: SHA-512 of one message, its schedule four words at a time.
//! Secret-independent.
//!
//! The rounds are a chain in plain registers; the schedule is computed beside it in others.
#![allow(unsafe_code, reason = "room: door, loads and stores")]

use core::arch::x86_64::*;

use widelane_cpu::Avx2;
use widelane_secret::wipe_ymm_registers;

use super::{ROUNDS_64, Sha512, round};
use crate::hash::{STATE_WORDS, each_word};
use crate::words::BLOCK_WORDS;

/// Bytes of a block.
const BLOCK_BYTES: usize = 128;

/// Words of a register.
const ROW_WORDS: usize = 4;

/// Sixteen words of the schedule.
type Schedule = [__m256i; BLOCK_WORDS / ROW_WORDS];

/// Adds blocks to the state of one message.
pub fn compress(_room: Avx2, state: &mut [u64; STATE_WORDS], blocks: &[[u8; BLOCK_BYTES]]) {
    // SAFETY: the token exists only if every feature of its room was detected.
    unsafe { compress_body(state, blocks) }
}

#[target_feature(enable = "avx2,bmi2")]
fn compress_body(state: &mut [u64; STATE_WORDS], blocks: &[[u8; BLOCK_BYTES]]) {
    for block in blocks {
        let (mut variables, mut schedule) = (*state, load(block));
        let (first, groups) = ROUNDS_64.as_chunks().0.split_first().expect("five groups");
        let mut words = sums(&schedule, first);
        for constants in groups {
            schedule = next(schedule);
            let following = sums(&schedule, constants);
            each_word!(T => variables = round::<Sha512, u64>(variables, words[T]));
            words = following;
        }
        each_word!(T => variables = round::<Sha512, u64>(variables, words[T]));
        for (word, variable) in state.iter_mut().zip(variables) {
            *word = word.wrapping_add(variable);
        }
    }
    wipe_ymm_registers();
}

/// The words of a block.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn load(block: &[u8; BLOCK_BYTES]) -> Schedule {
    let order = _mm_set_epi64x(0x0809_0a0b_0c0d_0e0f, 0x0001_0203_0405_0607);
    let order = _mm256_broadcastsi128_si256(order);
    let mut words = [order; BLOCK_WORDS / ROW_WORDS];
    for (words, bytes) in words.iter_mut().zip(block.as_chunks::<32>().0) {
        // SAFETY: the bytes are as many as a register has.
        let loaded = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
        *words = _mm256_shuffle_epi8(loaded, order);
    }
    words
}

/// The sums of words and constants of sixteen rounds.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn sums(schedule: &Schedule, constants: &[u64; BLOCK_WORDS]) -> [u64; BLOCK_WORDS] {
    let mut sums = [0; BLOCK_WORDS];
    let constants = constants.as_chunks::<ROW_WORDS>().0;
    for ((sums, words), constants) in
        sums.as_chunks_mut::<ROW_WORDS>().0.iter_mut().zip(schedule).zip(constants)
    {
        // SAFETY: the constants are as many words as a register has.
        let constants = unsafe { _mm256_loadu_si256(constants.as_ptr().cast()) };
        let sum = _mm256_add_epi64(*words, constants);
        // SAFETY: the sums are as many words as a register has.
        unsafe { _mm256_storeu_si256(sums.as_mut_ptr().cast(), sum) };
    }
    sums
}

/// The next sixteen words of the schedule.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn next([a, b, c, d]: Schedule) -> Schedule {
    let a = next_row(a, b, c, d);
    let b = next_row(b, c, d, a);
    let c = next_row(c, d, a, b);
    let d = next_row(d, a, b, c);
    [a, b, c, d]
}

/// The four words behind sixteen.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn next_row(a: __m256i, b: __m256i, c: __m256i, d: __m256i) -> __m256i {
    let sum = _mm256_add_epi64(a, small0(one_later(a, b)));
    let sum = _mm256_add_epi64(sum, one_later(c, d));
    // σ1 of the last two words makes the first two, and these the others.
    let zero = _mm256_setzero_si256();
    let low = small1(_mm256_permute4x64_epi64::<0xee>(d));
    let sum = _mm256_add_epi64(sum, _mm256_blend_epi32::<0x0f>(zero, low));
    let high = small1(_mm256_permute4x64_epi64::<0x44>(sum));
    _mm256_add_epi64(sum, _mm256_blend_epi32::<0xf0>(zero, high))
}

/// The words of a register but for the first, and the first of the next register.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn one_later(words: __m256i, next: __m256i) -> __m256i {
    _mm256_permute4x64_epi64::<0x39>(_mm256_blend_epi32::<0x03>(words, next))
}

/// The function σ0.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn small0(x: __m256i) -> __m256i {
    let one = _mm256_xor_si256(_mm256_srli_epi64::<1>(x), _mm256_slli_epi64::<63>(x));
    let eight = _mm256_xor_si256(_mm256_srli_epi64::<8>(x), _mm256_slli_epi64::<56>(x));
    _mm256_xor_si256(_mm256_xor_si256(one, eight), _mm256_srli_epi64::<7>(x))
}

/// The function σ1.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn small1(x: __m256i) -> __m256i {
    let nineteen = _mm256_xor_si256(_mm256_srli_epi64::<19>(x), _mm256_slli_epi64::<45>(x));
    let sixty_one = _mm256_xor_si256(_mm256_srli_epi64::<61>(x), _mm256_slli_epi64::<3>(x));
    _mm256_xor_si256(_mm256_xor_si256(nineteen, sixty_one), _mm256_srli_epi64::<6>(x))
}
