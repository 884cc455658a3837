//! Room avx2 of run: the eight rules of a chunk in two 256-bit registers.
#![allow(unsafe_code, reason = "room: doors, loads, prefetches")]

use core::arch::x86_64::*;

use widelane_cpu::rooms::Avx2;

use super::burst::{self, Engine, View, Words};
use super::keys::{Recipe, WINDOW, window};

/// Looks up packets that are as long as the layout's span.
pub(super) fn classify<W: Words, const K: usize, const C: usize>(
    room: Avx2,
    words: W,
    view: View<'_>,
    packets: &[&[u8]],
    results: &mut [u32],
) {
    // SAFETY: `Avx2` exists only if every feature enabled on `classify_body` was detected.
    unsafe { classify_body::<W, K, C>(room, words, view, packets, results) }
}

#[target_feature(enable = "avx2,bmi2")]
fn classify_body<W: Words, const K: usize, const C: usize>(
    room: Avx2,
    words: W,
    view: View<'_>,
    packets: &[&[u8]],
    results: &mut [u32],
) {
    burst::classify::<_, W, K, C>(Wide(room), words, view, packets, results);
}

#[derive(Clone, Copy)]
struct Wide(Avx2);

impl Engine for Wide {
    const COMPARES_AT_ONCE: bool = true;

    #[inline(always)]
    fn keys<const K: usize>(self, recipe: &Recipe, packets: &[&[u8]], keys: &mut [[u64; K]]) {
        // SAFETY: the token in `self` proves the features.
        unsafe { keys_body(recipe, packets, keys) }
    }

    #[inline(always)]
    fn extract(self, word: u64, mask: u64) -> u64 {
        // SAFETY: the token in `self` proves the features.
        unsafe { extract_body(word, mask) }
    }

    #[inline(always)]
    fn matches<W: Words, const ALL: bool>(self, words: W, chunk: &[u64], key: &[u64]) -> u32 {
        // SAFETY: the token in `self` proves the features.
        unsafe { matches_body(words, chunk, key) }
    }

    #[inline(always)]
    fn prefetch(self, words: &[u64]) {
        for line in words.chunks(8) {
            // SAFETY: fetching ahead reads nothing that the program could see.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) }
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn keys_body<const K: usize>(recipe: &Recipe, packets: &[&[u8]], keys: &mut [[u64; K]]) {
    for (block, windows) in recipe.blocks.iter().enumerate() {
        let [first, more @ ..] = windows.as_slice() else { continue };
        let shuffle = load_bytes(&first.shuffle);
        for (key, packet) in keys.iter_mut().zip(packets) {
            let mut words = _mm_shuffle_epi8(load_bytes(&window(packet, first.offset)), shuffle);
            for of in more {
                let bytes = load_bytes(&window(packet, of.offset));
                words = _mm_or_si128(words, _mm_shuffle_epi8(bytes, load_bytes(&of.shuffle)));
            }
            store(&mut key.as_chunks_mut().0[block], words);
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn extract_body(word: u64, mask: u64) -> u64 {
    _pext_u64(word, mask)
}

#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn matches_body<W: Words>(words: W, chunk: &[u64], key: &[u64]) -> u32 {
    let low = matches_half(words, chunk, key, 0);
    let high = matches_half(words, chunk, key, 1);
    low | high << 4
}

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
        let (value, other) = (load(chunk, 4 * word + half), load(chunk, 4 * word + 2 + half));
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

#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn load_bytes(bytes: &[u8; WINDOW]) -> __m128i {
    // SAFETY: an array of 16 bytes.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn store(words: &mut [u64; 2], block: __m128i) {
    // SAFETY: an array of 16 bytes.
    unsafe { _mm_storeu_si128(words.as_mut_ptr().cast(), block) }
}
