//! Room vaes512 of aes_gcm: four blocks per instruction. Secret-independent.
#![allow(unsafe_code, reason = "room: doors, loads and stores")]

use core::arch::asm;
use core::arch::x86_64::*;
use core::hint::black_box;

use widelane_cpu::Vaes512;
use widelane_secret::stack::wipe_frame;
use widelane_secret::wipe_vector_registers as wipe_registers;

mod chunks;

use self::chunks::{begin, chunks, known_row};
use super::expand::expand_rounds;
use super::field::{self, Element};
use super::key::KeyBytes;
use super::{BLOCK_BYTES, Block, Message};
use crate::text::{Direction, Text};

/// Whether registers may not hold all that is secret of a whole message: they do, at any length.
const SPILLS: bool = false;

/// Words of stack that are cleared then.
const SPILLED_WORDS: usize = 64;

engine! {
    Vaes512,
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
}

ghash! {
    beside = fold,
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
}

four_products! {
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
}

rows! {
    __m512i, zmm_reg,
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")],
    load = _mm512_loadu_si512, store = _mm512_storeu_si512, xor = _mm512_xor_si512,
    shuffle = _mm512_shuffle_epi32, count = _mm512_add_epi32, encrypt = _mm512_aesenc_epi128,
    encrypt_last = _mm512_aesenclast_epi128, multiply = _mm512_clmulepi64_epi128,
}

/// What there is of a row, then zeros.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn load_part(text: Text<'_>) -> Row {
    let (source, mask) = (text.source(0, text.len()), first(text.len()));
    // SAFETY: `source` names as many readable bytes, and the mask selects no others.
    unsafe { _mm512_maskz_loadu_epi8(mask, source.cast()) }
}

/// Stores as much of a row as there is room for and returns that, then zeros.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn store_part(text: Text<'_>, row: Row) -> Row {
    let (target, mask) = (text.target(0, text.len()), first(text.len()));
    // SAFETY: `target` names as many writable bytes, and the mask selects no others.
    unsafe { _mm512_mask_storeu_epi8(target.cast(), mask, row) }
    _mm512_maskz_mov_epi8(mask, row)
}

/// A mask of the first bytes.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn first(bytes: usize) -> __mmask64 {
    _bzhi_u64(u64::MAX, bytes as u32)
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn all_of_row(block: Element) -> Row {
    _mm512_broadcast_i32x4(block)
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn last_of_row(block: Element) -> Row {
    _mm512_inserti32x4::<3>(_mm512_setzero_si512(), block)
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn first_of_row(block: Element) -> Row {
    _mm512_zextsi128_si512(block)
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn sum_of_row(row: Row) -> Element {
    let halves = _mm256_xor_si256(_mm512_castsi512_si256(row), _mm512_extracti64x4_epi64::<1>(row));
    _mm_xor_si128(_mm256_castsi256_si128(halves), _mm256_extracti128_si256::<1>(halves))
}

/// What the row of a chunk counts from whose last two blocks count from where the next one does.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn wrapped(base: Row, next: Row) -> Row {
    _mm512_mask_blend_epi64(0xf0, base, next)
}

/// A number, where the counter blocks of a row have theirs.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn count_row(count: u32) -> Row {
    _mm512_maskz_set1_epi32(0x8888, count.swap_bytes().cast_signed())
}

/// Turns the order of the bytes of each block around.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn reverse(row: Row) -> Row {
    _mm512_shuffle_epi8(row, order_of_reverse())
}

/// The order that this puts them in.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn order_of_reverse() -> Row {
    let order = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
    _mm512_broadcast_i32x4(order)
}
