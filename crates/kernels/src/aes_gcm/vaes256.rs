//! Room vaes256 of aes_gcm: two blocks per instruction. Secret-independent.
#![allow(unsafe_code, reason = "room: doors, loads and stores")]

use core::arch::asm;
use core::arch::x86_64::*;
use core::hint::black_box;
use core::mem::offset_of;
use core::slice::{from_raw_parts, from_raw_parts_mut};

use widelane_cpu::Vaes256;
use widelane_secret::stack::wipe_frame;
use widelane_secret::wipe_ymm_registers as wipe_registers;

use super::expand::expand_rounds;
use super::field::{self, Element};
use super::key::KeyBytes;
use super::{BLOCK_BYTES, Block, Message};
use crate::text::{Direction, Text};

/// Whether registers may not hold all that is secret of a whole message: they are scarce.
const SPILLS: bool = true;

/// Words of stack that are cleared then.
const SPILLED_WORDS: usize = 64;

engine! {
    Vaes256,
    #[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
}

chunks! {
    ymm_reg, load = "vbroadcasti128",
    #[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
}

ghash! {
    beside = halves,
    #[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
}

three_products! {
    #[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
}

rows! {
    __m256i, ymm_reg,
    #[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")],
    load = _mm256_loadu_si256, store = _mm256_storeu_si256, xor = _mm256_xor_si256,
    shuffle = _mm256_shuffle_epi32, count = _mm256_add_epi32, encrypt = _mm256_aesenc_epi128,
    encrypt_last = _mm256_aesenclast_epi128, multiply = _mm256_clmulepi64_epi128,
}

parts_by_words! {
    #[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")], and = _mm256_and_si256
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn all_of_row(block: Element) -> Row {
    _mm256_broadcastsi128_si256(block)
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn last_of_row(block: Element) -> Row {
    _mm256_inserti128_si256::<1>(_mm256_setzero_si256(), block)
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn first_of_row(block: Element) -> Row {
    _mm256_zextsi128_si256(block)
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn first_block(row: Row) -> Element {
    _mm256_castsi256_si128(row)
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn last_block(row: Row) -> Element {
    _mm256_extracti128_si256::<1>(row)
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn sum_of_row(row: Row) -> Element {
    field::add(first_block(row), last_block(row))
}

/// What a row counts from that counts from where the next chunk does.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn wrapped(_base: Row, next: Row) -> Row {
    next
}

/// A number, where the counter blocks of a row have theirs.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn count_row(count: u32) -> Row {
    let counts = _mm256_set1_epi32(count.swap_bytes().cast_signed());
    _mm256_blend_epi32::<0x88>(_mm256_setzero_si256(), counts)
}

/// Turns the order of the bytes of each block around.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn reverse(row: Row) -> Row {
    let order = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
    _mm256_shuffle_epi8(row, _mm256_broadcastsi128_si256(order))
}
