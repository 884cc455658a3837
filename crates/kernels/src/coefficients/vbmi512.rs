//! Room vbmi512 of coefficients: two pairs of eight polynomials in a zmm register.
//! Secret-independent, except where a name ends in `_vartime`.
#![allow(unsafe_code, reason = "room: door, loads, stores and intrinsics")]

use core::arch::x86_64 as arch;
use core::mem::{transmute, zeroed};

use widelane_cpu::Vbmi512;
use widelane_secret::wipe_vector_registers;

use super::zmm::{LOWER_PIECES, UPPER_PIECES};
use super::{BLOCK_WORDS, Coefficients, PAIRS, POLYNOMIALS, Row};
use crate::words::Vbmi512x8;

coefficients_in_zmm! {
    Vbmi512Pairs, Vbmi512, words = Vbmi512x8,
    features = "avx512f,avx512dq,avx512vl,avx512bw,avx512vbmi,avx512vbmi2,bmi2,popcnt",
    accept = accept_vartime
}

/// Candidates that are looked at at once.
const TOGETHER: usize = 32;

/// Words that these are in.
const TOGETHER_WORDS: usize = 6;

/// The bytes of four candidates for each word of 64 bits, from which they are taken.
const BYTES: [u32; PAIRS] = {
    let (mut words, mut index) = ([0; PAIRS], 0);
    while index < PAIRS {
        let first = 6 * (index as u32 / 2) + 4 * (index as u32 % 2);
        words[index] = first * 0x0101_0101 + 0x0302_0100;
        index += 1;
    }
    words
};

/// Where in such a word the bits of each byte of four candidates begin.
const SHIFTS: [u32; PAIRS] = {
    let (mut words, mut index) = ([0x140c_0800; PAIRS], 1);
    while index < PAIRS {
        words[index] = 0x2c24_2018;
        index += 2;
    }
    words
};

/// See [`Coefficients::accept_vartime`].
#[inline(always)]
fn accept_vartime(
    _room: Vbmi512,
    word: impl Fn(usize) -> u64,
    bound: u16,
    accepted: &mut [u16],
    mut count: usize,
) -> usize {
    for index in (0..BLOCK_WORDS).step_by(TOGETHER_WORDS) {
        let is_whole = index + TOGETHER_WORDS <= BLOCK_WORDS;
        // What is loaded into all places needs no port of those that move words.
        let broadcast = |at: usize| intrinsic!(_mm256_set1_epi64x(word(index + at).cast_signed()));
        let words = intrinsic!(_mm256_blend_epi32::<0b0000_1100>(broadcast(0), broadcast(1)));
        let words = intrinsic!(_mm256_blend_epi32::<0b0011_0000>(words, broadcast(2)));
        let mut words = intrinsic!(_mm512_castsi256_si512(words));
        if is_whole {
            let lower = intrinsic!(_mm512_castsi512_si256(words));
            let lower = intrinsic!(_mm256_blend_epi32::<0b1100_0000>(lower, broadcast(3)));
            let upper = intrinsic!(_mm256_blend_epi32::<0b0000_1100>(broadcast(4), broadcast(5)));
            words = intrinsic!(_mm512_castsi256_si512(lower));
            words = intrinsic!(_mm512_inserti64x4::<1>(words, upper));
        }
        let bytes = intrinsic!(_mm512_permutexvar_epi8(vector(BYTES), words));
        let numbers = intrinsic!(_mm512_multishift_epi64_epi8(vector(SHIFTS), bytes));
        let numbers = intrinsic!(_mm512_and_si512(numbers, vector([0x0fff_0fff; PAIRS])));
        let bounds = vector([u32::from(bound) * 0x0001_0001; PAIRS]);
        let below = intrinsic!(_mm512_cmplt_epu16_mask(numbers, bounds));
        // Half a register is what a block ends with.
        let below = if is_whole { below } else { below & 0xffff };
        let kept = intrinsic!(_mm512_maskz_compress_epi16(below, numbers));
        let target = &mut accepted[count..];
        let lacks = "there is room for all candidates";
        if is_whole {
            let target: &mut [u16; TOGETHER] = target.first_chunk_mut().expect(lacks);
            // SAFETY: as many bytes as are written.
            unsafe { arch::_mm512_storeu_si512(target.as_mut_ptr().cast(), kept) };
        } else {
            let target: &mut [u16; TOGETHER / 2] = target.first_chunk_mut().expect(lacks);
            let kept = intrinsic!(_mm512_castsi512_si256(kept));
            // SAFETY: as many bytes as are written.
            unsafe { arch::_mm256_storeu_si256(target.as_mut_ptr().cast(), kept) };
        }
        count += below.count_ones() as usize;
    }
    count
}
