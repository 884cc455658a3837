//! Room vaes256 of aes_cbc: two blocks per instruction of one text that is decrypted.
//! Secret-independent.
#![allow(unsafe_code, reason = "room: doors, loads and stores")]

use core::arch::x86_64::*;

use widelane_cpu::Vaes256;
use widelane_secret::stack::wipe_stack;
use widelane_secret::wipe_ymm_registers as wipe_registers;

pub use super::Key;
use super::{BLOCK_BYTES, Block, KeyBytes, chain};
use crate::text::{Text, rows_of_text};

/// Blocks of a row.
const BLOCKS: usize = 2;
/// Rows at a time: enough to hide the latency of an AES round.
const ROWS: usize = 8;

type Row = __m256i;

cbc_doors! {
    Vaes256,
    #[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn first_row(last: &Block) -> Row {
    _mm256_inserti128_si256::<1>(_mm256_setzero_si256(), chain::from_bytes(last))
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn last_block(row: Row) -> Block {
    chain::to_bytes(_mm256_extracti128_si256::<1>(row))
}

/// The blocks in front of those of a row.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn behind(before: Row, row: Row) -> Row {
    _mm256_permute2x128_si256::<0x21>(before, row)
}

rows_of_text! {
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")],
    load = _mm256_loadu_si256, store = _mm256_storeu_si256
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn broadcast(round_key: &[u64; 2]) -> Row {
    _mm256_broadcastsi128_si256(chain::register(round_key))
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn add(left: Row, right: Row) -> Row {
    _mm256_xor_si256(left, right)
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn decrypt_round(state: Row, round_key: Row) -> Row {
    _mm256_aesdec_epi128(state, round_key)
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn decrypt_last(state: Row, round_key: Row) -> Row {
    _mm256_aesdeclast_epi128(state, round_key)
}
