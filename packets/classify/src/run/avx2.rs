//! Room avx2 of run: the eight rules of a chunk in two 256-bit registers.
#![allow(unsafe_code, reason = "room: doors, loads, prefetches")]

use core::arch::x86_64::*;

use widelane_cpu::rooms::Avx2;

use super::burst::{self, Engine, FEW, Queues, Search, View, Words};
use super::keys::{Recipe, WINDOW, Window};
use super::list::List;
use super::wide::wide_room;

wide_room!(Avx2, features = "avx2,bmi2");

#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn first_body<W: Words>(words: W, chunk: &[u64], key: &[u64]) -> (bool, u64) {
    burst::first_of(matches_body(words, chunk, key), chunk)
}

#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn matches_body<W: Words>(words: W, chunk: &[u64], key: &[u64]) -> u32 {
    let low = matches_half(words, chunk, key, 0);
    let high = matches_half(words, chunk, key, 1);
    low | high << 4
}

/// The half of a word that holds two ranges.
const LOW: i64 = 0xffff_ffff;

/// Compares the first four rules, or the others.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn matches_half<W: Words>(words: W, chunk: &[u64], key: &[u64], half: usize) -> u32 {
    let shape = words.shape();
    let mut off = _mm256_setzero_si256();
    let halves_from = shape.masks;
    let wholes_from = halves_from + shape.halves;
    for (word, own) in key.iter().enumerate().take(shape.words()) {
        let own = _mm256_set1_epi64x(*own as i64);
        let row = 2 * shape.row(word) + half;
        let value = load(chunk, row);
        if shape.is_paired(word) {
            let other = _mm256_srli_epi64::<32>(value);
            let beyond = _mm256_subs_epu16(_mm256_sub_epi16(own, value), other);
            // What the upper half says is of no account.
            off = _mm256_or_si256(off, _mm256_and_si256(beyond, _mm256_set1_epi64x(LOW)));
            continue;
        }
        let other = load(chunk, row + 2);
        let beyond = if word < halves_from {
            _mm256_and_si256(_mm256_xor_si256(own, value), other)
        } else if word < wholes_from {
            _mm256_subs_epu16(_mm256_sub_epi16(own, value), other)
        } else {
            let above = _mm256_sub_epi32(own, value);
            _mm256_xor_si256(_mm256_max_epu32(above, other), other)
        };
        off = _mm256_or_si256(off, beyond);
    }
    let matching = _mm256_cmpeq_epi64(off, _mm256_setzero_si256());
    _mm256_movemask_pd(_mm256_castsi256_pd(matching)) as u32
}

/// The `row`-th four words of a chunk.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn load(chunk: &[u64], row: usize) -> __m256i {
    let row: &[u64] = &chunk[4 * row..4 * row + 4];
    // SAFETY: `row` is 32 bytes: four words, sliced above.
    unsafe { _mm256_loadu_si256(row.as_ptr().cast()) }
}
