//! Room avx512 of run: the eight rules of a chunk in one 512-bit register.
#![allow(unsafe_code, reason = "room: doors, loads, prefetches")]

use core::arch::x86_64::*;

use widelane_cpu::rooms::Avx512;

use super::burst::{self, Engine, FEW, NONE, Queues, Search, View, Words, verdicts};
use super::keys::{Recipe, WINDOW, Window};
use super::list::List;
use super::wide::wide_room;

wide_room!(Avx512, features = "avx512f,avx512dq,avx512vl,avx512bw,bmi2");

/// The verdicts are loaded with the rules, and the first that counts is moved to the low end: no
/// load has to wait for the comparison.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn first_body<W: Words>(words: W, chunk: &[u64], key: &[u64]) -> (bool, u64) {
    let matching = compare(words, chunk, key);
    let none = _mm512_set1_epi64(NONE as i64);
    let first = _mm512_mask_compress_epi64(none, matching, load(verdicts(chunk), 0));
    (matching != 0, _mm_cvtsi128_si64(_mm512_castsi512_si128(first)) as u64)
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn matches_body<W: Words>(words: W, chunk: &[u64], key: &[u64]) -> u32 {
    compare(words, chunk, key).into()
}

/// The half of a word that holds two ranges.
const LOW: i64 = 0xffff_ffff;

#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn compare<W: Words>(words: W, chunk: &[u64], key: &[u64]) -> __mmask8 {
    let shape = words.shape();
    let mut off = _mm512_setzero_si512();
    let halves_from = shape.masks;
    let wholes_from = halves_from + shape.halves;
    for (word, own) in key.iter().enumerate().take(shape.words()) {
        let own = _mm512_set1_epi64(*own as i64);
        let row = shape.row(word);
        let value = load(chunk, row);
        if shape.is_paired(word) {
            let other = _mm512_srli_epi64::<32>(value);
            let beyond = _mm512_subs_epu16(_mm512_sub_epi16(own, value), other);
            // off | (beyond & low): what the upper half says is of no account.
            let low = _mm512_set1_epi64(LOW);
            off = _mm512_ternarylogic_epi64::<0xf8>(off, beyond, low);
            continue;
        }
        let other = load(chunk, row + 1);
        if word < halves_from {
            // off | ((own ^ value) & other)
            off = _mm512_ternarylogic_epi64::<0xf8>(off, _mm512_xor_si512(own, value), other);
        } else if word < wholes_from {
            let beyond = _mm512_subs_epu16(_mm512_sub_epi16(own, value), other);
            off = _mm512_or_si512(off, beyond);
        } else {
            let above = _mm512_sub_epi32(own, value);
            // off | (max(above, other) ^ other)
            off = _mm512_ternarylogic_epi64::<0xf6>(off, _mm512_max_epu32(above, other), other);
        }
    }
    _mm512_testn_epi64_mask(off, off)
}

/// The `row`-th eight words of a chunk.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn load(chunk: &[u64], row: usize) -> __m512i {
    let row: &[u64] = &chunk[8 * row..8 * row + 8];
    // SAFETY: `row` is 64 bytes: eight words, sliced above.
    unsafe { _mm512_loadu_si512(row.as_ptr().cast()) }
}
