//! Room avx512 of sha2: SHA-512 of one message, two blocks at a time in ymm registers, whose words
//! AVX-512 rotates in one step. Secret-independent.
#![allow(unsafe_code, reason = "room: door")]

use core::arch::x86_64::*;

use widelane_cpu::Avx512;
use widelane_secret::stack::wipe_frame;
use widelane_secret::wipe_vector_registers;

use super::pairs::{
    BLOCK_BYTES, CONSTANTS, ROWS, SPILLED_WORDS, Sums, add, load, pairs_of_blocks, put, two_rounds,
};
use crate::hash::{STATE_WORDS, each_word};

pairs_of_blocks!(
    Avx512,
    features = "avx512f,avx512dq,avx512vl,avx512bw,bmi2",
    wipe = wipe_vector_registers
);

/// The function of three words that is odd parity.
const XOR: i32 = 0x96;

/// The function σ0.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn small0(x: __m256i) -> __m256i {
    let (one, eight) = (_mm256_ror_epi64::<1>(x), _mm256_ror_epi64::<8>(x));
    _mm256_ternarylogic_epi64::<XOR>(one, eight, _mm256_srli_epi64::<7>(x))
}

/// The function σ1.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn small1(x: __m256i) -> __m256i {
    let (nineteen, sixty_one) = (_mm256_ror_epi64::<19>(x), _mm256_ror_epi64::<61>(x));
    _mm256_ternarylogic_epi64::<XOR>(nineteen, sixty_one, _mm256_srli_epi64::<6>(x))
}
