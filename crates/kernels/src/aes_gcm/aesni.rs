//! Room aesni of aes_gcm: one block per instruction. Secret-independent.
#![allow(unsafe_code, reason = "room: doors, loads and stores")]

use core::arch::asm;
use core::arch::x86_64::*;
use core::hint::black_box;
use core::mem::offset_of;
use core::slice::{from_raw_parts, from_raw_parts_mut};

use widelane_cpu::Aesni;
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
    Aesni,
    #[target_feature(enable = "aes,pclmulqdq,avx")]
}

chunks! {
    xmm_reg, load = "vmovdqa",
    #[target_feature(enable = "aes,pclmulqdq,avx")]
}

ghash! {
    beside = halves,
    #[target_feature(enable = "aes,pclmulqdq,avx")]
}

three_products! {
    #[target_feature(enable = "aes,pclmulqdq,avx")]
}

rows! {
    Element, xmm_reg,
    #[target_feature(enable = "aes,pclmulqdq,avx")],
    load = _mm_loadu_si128, store = _mm_storeu_si128, xor = _mm_xor_si128,
    shuffle = _mm_shuffle_epi32, count = _mm_add_epi32,
    encrypt = _mm_aesenc_si128, encrypt_last = _mm_aesenclast_si128,
    multiply = _mm_clmulepi64_si128,
}

parts_by_words! {
    #[target_feature(enable = "aes,pclmulqdq,avx")], and = _mm_and_si128
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn all_of_row(block: Element) -> Row {
    block
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn last_of_row(block: Element) -> Row {
    block
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn first_of_row(block: Element) -> Row {
    block
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn first_block(row: Row) -> Element {
    row
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn last_block(row: Row) -> Element {
    row
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn sum_of_row(row: Row) -> Element {
    row
}

/// What a row counts from that counts from where the next chunk does.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn wrapped(_base: Row, next: Row) -> Row {
    next
}

/// A number, where the counter blocks of a row have theirs.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn count_row(count: u32) -> Row {
    _mm_set_epi32(count.swap_bytes().cast_signed(), 0, 0, 0)
}

/// Turns the order of the bytes of each block around.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn reverse(row: Row) -> Row {
    field::reverse(row)
}
