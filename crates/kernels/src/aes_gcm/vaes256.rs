//! Room vaes256 of aes_gcm: two blocks per instruction. Secret-independent.
#![allow(unsafe_code, reason = "room: doors, loads and stores")]

use core::arch::asm;
use core::arch::x86_64::*;

use widelane_cpu::Vaes256;
use widelane_secret::wipe_ymm_registers as wipe_registers;

use super::expand::expand_rounds;
use super::field::{self, Element};
use super::key::KeyBytes;
use super::{BLOCK_BYTES, Block, Message};
use crate::text::Text;

/// Blocks of a row.
const BLOCKS: usize = 2;
/// Rows of a chunk: what sixteen registers hold beside the hash.
const ROWS: usize = 4;

type Row = __m256i;

engine! {
    Vaes256,
    #[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn load(text: Text<'_>, offset: usize) -> Row {
    let source = text.source(offset, ROW_BYTES);
    // SAFETY: `source` names as many readable bytes as a row has.
    unsafe { _mm256_loadu_si256(source.cast()) }
}

/// A row of what was written.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn load_sealed(text: Text<'_>, offset: usize) -> Row {
    let written = text.target(offset, ROW_BYTES);
    // SAFETY: `written` names as many bytes as a row has, written by `store` before.
    unsafe { _mm256_loadu_si256(written.cast()) }
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn store(text: Text<'_>, offset: usize, row: Row) {
    let target = text.target(offset, ROW_BYTES);
    // SAFETY: `target` names as many writable bytes as a row has.
    unsafe { _mm256_storeu_si256(target.cast(), row) }
}

/// The first bytes of a row, then zeros.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn load_part(text: Text<'_>, offset: usize, bytes: usize) -> Row {
    if bytes == ROW_BYTES {
        return load(text, offset);
    }
    let mut row = [0; ROW_BYTES];
    let source = text.source(offset, bytes);
    // SAFETY: `source` names `bytes` readable bytes; a row has room for them.
    unsafe { source.copy_to_nonoverlapping(row[..bytes].as_mut_ptr(), bytes) };
    row_from(&row)
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn store_part(text: Text<'_>, offset: usize, bytes: usize, row: Row) {
    if bytes == ROW_BYTES {
        return store(text, offset, row);
    }
    let row = bytes_of(row);
    let target = text.target(offset, bytes);
    // SAFETY: `target` names `bytes` writable bytes; a row has as many.
    unsafe { target.copy_from_nonoverlapping(row[..bytes].as_ptr(), bytes) };
}

/// The first bytes of a row, then zeros.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn keep(row: Row, bytes: usize) -> Row {
    if bytes == ROW_BYTES {
        return row;
    }
    let mut row = bytes_of(row);
    row[bytes..].fill(0);
    row_from(&row)
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn row_from(bytes: &[u8; ROW_BYTES]) -> Row {
    // SAFETY: the bytes are as many as a row has.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn bytes_of(row: Row) -> [u8; ROW_BYTES] {
    let mut bytes = [0; ROW_BYTES];
    // SAFETY: the bytes are as many as a row has.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), row) };
    bytes
}

/// The first blocks of several.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn row_of(blocks: &[[u64; 2]]) -> Row {
    let blocks: &[[u64; 2]; BLOCKS] = blocks.first_chunk().expect("a row of blocks");
    // SAFETY: the blocks are as many as a row has.
    unsafe { _mm256_loadu_si256(blocks.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn broadcast(block: &[u64; 2]) -> Row {
    _mm256_broadcastsi128_si256(field::element(*block))
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
fn sum_of_row(row: Row) -> Element {
    _mm_xor_si128(_mm256_castsi256_si128(row), _mm256_extracti128_si256::<1>(row))
}

/// Counter blocks from `counter` on; all with their bytes reversed.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn counters_from(counter: Element) -> Row {
    let places = _mm256_set_epi64x(0, 1, 0, 0);
    _mm256_add_epi32(_mm256_broadcastsi128_si256(counter), places)
}

/// The counter blocks of the next row.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn count(counters: Row) -> Row {
    _mm256_add_epi32(counters, _mm256_set_epi64x(0, 2, 0, 2))
}

/// Turns the order of the bytes of each block around.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn reverse(row: Row) -> Row {
    let order = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
    _mm256_shuffle_epi8(row, _mm256_broadcastsi128_si256(order))
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn swap_halves(row: Row) -> Row {
    _mm256_shuffle_epi32::<0x4e>(row)
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn add(left: Row, right: Row) -> Row {
    _mm256_xor_si256(left, right)
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn encrypt(state: Row, round_key: Row) -> Row {
    _mm256_aesenc_epi128(state, round_key)
}

/// One round on a whole chunk, as a block that the compiler does not take apart: left to itself it
/// encrypts row after row, and the units wait for one another.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn encrypt_chunk(states: &mut [Row; ROWS], round_key: Row) {
    // SAFETY: register arithmetic only. Not `pure`, so that loads keep their places between rounds.
    unsafe {
        asm!(
            "vaesenc {0}, {0}, {key}",
            "vaesenc {1}, {1}, {key}",
            "vaesenc {2}, {2}, {key}",
            "vaesenc {3}, {3}, {key}",
            inout(ymm_reg) states[0],
            inout(ymm_reg) states[1],
            inout(ymm_reg) states[2],
            inout(ymm_reg) states[3],
            key = in(ymm_reg) round_key,
            options(nomem, nostack, preserves_flags),
        );
    }
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn encrypt_last(state: Row, round_key: Row) -> Row {
    _mm256_aesenclast_epi128(state, round_key)
}

/// The product of one half of each block, per bits 0 and 4 of `HALVES`.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn carryless<const HALVES: i32>(left: Row, right: Row) -> Row {
    _mm256_clmulepi64_epi128::<HALVES>(left, right)
}
