//! Room aesni of aes_cbc: one block per instruction. Secret-independent.
#![allow(unsafe_code, reason = "room: doors, loads and stores")]

use core::arch::x86_64::*;

use widelane_cpu::Aesni;
use widelane_secret::stack::wipe_stack;
use widelane_secret::wipe_ymm_registers as wipe_registers;

pub use super::Key;
use super::{BLOCK_BYTES, Block, KeyBytes, chain};
use crate::text::{Text, rows_of_text};

/// Blocks of a row.
const BLOCKS: usize = 1;
/// Rows at a time: enough to hide the latency of an AES round.
const ROWS: usize = 6;

type Row = __m128i;

cbc_doors! {
    Aesni,
    #[target_feature(enable = "aes,pclmulqdq,avx")]
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn first_row(last: &Block) -> Row {
    chain::from_bytes(last)
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn last_block(row: Row) -> Block {
    chain::to_bytes(row)
}

/// The blocks in front of those of a row.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn behind(before: Row, _row: Row) -> Row {
    before
}

rows_of_text! {
    #[target_feature(enable = "aes,pclmulqdq,avx")],
    load = _mm_loadu_si128, store = _mm_storeu_si128
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn broadcast(round_key: &[u64; 2]) -> Row {
    chain::register(round_key)
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn add(left: Row, right: Row) -> Row {
    _mm_xor_si128(left, right)
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn decrypt_round(state: Row, round_key: Row) -> Row {
    _mm_aesdec_si128(state, round_key)
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn decrypt_last(state: Row, round_key: Row) -> Row {
    _mm_aesdeclast_si128(state, round_key)
}
