//! Room vaes512 of aes_cbc: four blocks per instruction of one text that is decrypted.
//! Secret-independent.
#![allow(unsafe_code, reason = "room: doors, loads and stores")]

use core::arch::x86_64::*;

use widelane_cpu::Vaes512;
use widelane_secret::stack::wipe_stack;
use widelane_secret::wipe_vector_registers as wipe_registers;

pub use super::Key;
use super::{BLOCK_BYTES, Block, KeyBytes, chain};
use crate::text::{Text, rows_of_text};

/// Blocks of a row.
const BLOCKS: usize = 4;
/// Rows at a time: enough to hide the latency of an AES round.
const ROWS: usize = 8;

type Row = __m512i;

cbc_doors! {
    Vaes512,
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn first_row(last: &Block) -> Row {
    _mm512_inserti32x4::<3>(_mm512_setzero_si512(), chain::from_bytes(last))
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn last_block(row: Row) -> Block {
    chain::to_bytes(_mm512_extracti32x4_epi32::<3>(row))
}

/// The blocks in front of those of a row.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn behind(before: Row, row: Row) -> Row {
    _mm512_alignr_epi64::<6>(row, before)
}

rows_of_text! {
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")],
    load = _mm512_loadu_si512, store = _mm512_storeu_si512
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn broadcast(round_key: &[u64; 2]) -> Row {
    _mm512_broadcast_i32x4(chain::register(round_key))
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn add(left: Row, right: Row) -> Row {
    _mm512_xor_si512(left, right)
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn decrypt_round(state: Row, round_key: Row) -> Row {
    _mm512_aesdec_epi128(state, round_key)
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn decrypt_last(state: Row, round_key: Row) -> Row {
    _mm512_aesdeclast_epi128(state, round_key)
}
