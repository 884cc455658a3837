//! Room aesni of aes_gcm: one block per instruction. Secret-independent.
#![allow(unsafe_code, reason = "room: doors, loads and stores")]

use core::arch::asm;
use core::arch::x86_64::*;

use widelane_cpu::Aesni;
use widelane_secret::wipe_ymm_registers as wipe_registers;

use super::expand::expand_rounds;
use super::field::{self, Element};
use super::key::KeyBytes;
use super::{BLOCK_BYTES, Block, Message};
use crate::text::Text;

/// Blocks of a row.
const BLOCKS: usize = 1;
/// Rows of a chunk: what sixteen registers hold beside the hash.
const ROWS: usize = 4;

type Row = Element;

engine! {
    Aesni,
    #[target_feature(enable = "aes,pclmulqdq,avx")]
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn load(text: Text<'_>, offset: usize) -> Row {
    let source = text.source(offset, ROW_BYTES);
    // SAFETY: `source` names as many readable bytes as a row has.
    unsafe { _mm_loadu_si128(source.cast()) }
}

/// A row of what was written.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn load_sealed(text: Text<'_>, offset: usize) -> Row {
    let written = text.target(offset, ROW_BYTES);
    // SAFETY: `written` names as many bytes as a row has, written by `store` before.
    unsafe { _mm_loadu_si128(written.cast()) }
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn store(text: Text<'_>, offset: usize, row: Row) {
    let target = text.target(offset, ROW_BYTES);
    // SAFETY: `target` names as many writable bytes as a row has.
    unsafe { _mm_storeu_si128(target.cast(), row) }
}

/// The first bytes of a row, then zeros.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
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
#[target_feature(enable = "aes,pclmulqdq,avx")]
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
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn keep(row: Row, bytes: usize) -> Row {
    if bytes == ROW_BYTES {
        return row;
    }
    let mut row = bytes_of(row);
    row[bytes..].fill(0);
    row_from(&row)
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn row_from(bytes: &[u8; ROW_BYTES]) -> Row {
    // SAFETY: the bytes are as many as a row has.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn bytes_of(row: Row) -> [u8; ROW_BYTES] {
    let mut bytes = [0; ROW_BYTES];
    // SAFETY: the bytes are as many as a row has.
    unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), row) };
    bytes
}

/// The first blocks of several.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn row_of(blocks: &[[u64; 2]]) -> Row {
    let blocks: &[[u64; 2]; BLOCKS] = blocks.first_chunk().expect("a row of blocks");
    // SAFETY: the blocks are as many as a row has.
    unsafe { _mm_loadu_si128(blocks.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn broadcast(block: &[u64; 2]) -> Row {
    field::element(*block)
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
fn sum_of_row(row: Row) -> Element {
    row
}

/// Counter blocks from `counter` on; all with their bytes reversed.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn counters_from(counter: Element) -> Row {
    counter
}

/// The counter blocks of the next row.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn count(counters: Row) -> Row {
    field::next_counter(counters)
}

/// Turns the order of the bytes of each block around.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn reverse(row: Row) -> Row {
    field::reverse(row)
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn swap_halves(row: Row) -> Row {
    _mm_shuffle_epi32::<0x4e>(row)
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn add(left: Row, right: Row) -> Row {
    _mm_xor_si128(left, right)
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn encrypt(state: Row, round_key: Row) -> Row {
    _mm_aesenc_si128(state, round_key)
}

/// One round on a whole chunk, as a block that the compiler does not take apart: left to itself it
/// encrypts row after row, and the units wait for one another.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn encrypt_chunk(states: &mut [Row; ROWS], round_key: Row) {
    // SAFETY: register arithmetic only. Not `pure`, so that loads keep their places between rounds.
    unsafe {
        asm!(
            "vaesenc {0}, {0}, {key}",
            "vaesenc {1}, {1}, {key}",
            "vaesenc {2}, {2}, {key}",
            "vaesenc {3}, {3}, {key}",
            inout(xmm_reg) states[0],
            inout(xmm_reg) states[1],
            inout(xmm_reg) states[2],
            inout(xmm_reg) states[3],
            key = in(xmm_reg) round_key,
            options(nomem, nostack, preserves_flags),
        );
    }
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn encrypt_last(state: Row, round_key: Row) -> Row {
    _mm_aesenclast_si128(state, round_key)
}

/// The product of one half of each block, per bits 0 and 4 of `HALVES`.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
fn carryless<const HALVES: i32>(left: Row, right: Row) -> Row {
    _mm_clmulepi64_si128::<HALVES>(left, right)
}
