//! Room avx2 of sha2: SHA-512 of one message, two blocks at a time. Secret-independent.
#![allow(unsafe_code, reason = "room: door")]

use core::arch::x86_64::*;

use widelane_cpu::Avx2;
use widelane_secret::stack::wipe_frame;
use widelane_secret::wipe_ymm_registers;

use super::pairs::{
    BLOCK_BYTES, CONSTANTS, ROWS, SPILLED_WORDS, Sums, add, load, pairs_of_blocks, put, two_rounds,
};
use crate::hash::{STATE_WORDS, each_word};

pairs_of_blocks!(Avx2, features = "avx2,bmi2", wipe = wipe_ymm_registers);

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
