//! Room avx512 of coefficients: two pairs of eight polynomials in a zmm register.
//! Secret-independent, except where a name ends in `_vartime`.
#![allow(unsafe_code, reason = "room: door, loads, stores and intrinsics")]

use core::arch::x86_64 as arch;
use core::mem::{transmute, zeroed};

use widelane_cpu::Avx512;
use widelane_secret::wipe_vector_registers;

use super::zmm::{LOWER_PIECES, UPPER_PIECES};
use super::{BLOCK_WORDS, Coefficients, PAIRS, POLYNOMIALS, Row};
use crate::words::Avx512x8;

coefficients_in_zmm! {
    Avx512Pairs, Avx512, words = Avx512x8, features = "avx512f,avx512dq,avx512vl,avx512bw,bmi2",
    accept = accept_vartime
}

/// Candidates that are looked at at once, in a word of a register each.
const TOGETHER: usize = PAIRS;

/// Words that these are in.
const TOGETHER_WORDS: usize = 3;

/// Where in two words the two bytes are that each candidate begins or ends in: in the first two
/// pieces of 16 bytes those are the first words of three, in the others the last ones.
const BYTES: [u32; PAIRS] = [
    0x8080_0100,
    0x8080_0201,
    0x8080_0403,
    0x8080_0504,
    0x8080_0706,
    0x8080_0807,
    0x8080_0a09,
    0x8080_0b0a,
    0x8080_0504,
    0x8080_0605,
    0x8080_0807,
    0x8080_0908,
    0x8080_0b0a,
    0x8080_0c0b,
    0x8080_0e0d,
    0x8080_0f0e,
];

/// How many bits lie in front of each candidate there.
const SHIFTS: [u32; PAIRS] = [0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4];

/// See [`Coefficients::accept_vartime`].
#[inline(always)]
fn accept_vartime(
    _room: Avx512,
    word: impl Fn(usize) -> u64,
    bound: u16,
    accepted: &mut [u16],
    mut count: usize,
) -> usize {
    for index in (0..BLOCK_WORDS).step_by(TOGETHER_WORDS) {
        let broadcast = |at: usize| intrinsic!(_mm256_set1_epi64x(word(index + at).cast_signed()));
        // Words a and b beside words b and c: what is loaded needs no port of those that move
        // words. Then both pairs twice.
        let words = intrinsic!(_mm256_blend_epi32::<0b0011_1100>(broadcast(0), broadcast(1)));
        let words = intrinsic!(_mm256_blend_epi32::<0b1100_0000>(words, broadcast(2)));
        let words = intrinsic!(_mm512_castsi256_si512(words));
        let words = intrinsic!(_mm512_shuffle_i64x2::<0b01_01_00_00>(words, words));
        let numbers = intrinsic!(_mm512_shuffle_epi8(words, vector(BYTES)));
        let numbers = intrinsic!(_mm512_srlv_epi32(numbers, vector(SHIFTS)));
        let numbers = intrinsic!(_mm512_and_si512(numbers, vector([0xfff; PAIRS])));
        let below = intrinsic!(_mm512_cmplt_epu32_mask(numbers, vector([u32::from(bound); PAIRS])));
        let kept = intrinsic!(_mm512_maskz_compress_epi32(below, numbers));
        let kept = intrinsic!(_mm512_cvtepi32_epi16(kept));
        let target: &mut [u16; TOGETHER] =
            accepted[count..].first_chunk_mut().expect("there is room for all candidates");
        // SAFETY: as many bytes as are written.
        unsafe { arch::_mm256_storeu_si256(target.as_mut_ptr().cast(), kept) };
        count += below.count_ones() as usize;
    }
    count
}
