//! Room vaes512 of aes_gcm: four blocks per instruction. Secret-independent.
#![allow(unsafe_code, reason = "room: doors, loads and stores")]

use core::arch::asm;
use core::arch::x86_64::*;

use widelane_cpu::Vaes512;
use widelane_secret::wipe_vector_registers as wipe_registers;

use super::expand::expand_rounds;
use super::field::{self, Element};
use super::key::KeyBytes;
use super::{BLOCK_BYTES, Block, Message};
use crate::text::Text;

/// Blocks of a row.
const BLOCKS: usize = 4;
/// Rows of a chunk: enough to hide the latency of an AES round.
const ROWS: usize = 8;

type Row = __m512i;

engine! {
    Vaes512,
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn load(text: Text<'_>, offset: usize) -> Row {
    let source = text.source(offset, ROW_BYTES);
    // SAFETY: `source` names as many readable bytes as a row has.
    unsafe { _mm512_loadu_si512(source.cast()) }
}

/// A row of what was written.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn load_sealed(text: Text<'_>, offset: usize) -> Row {
    let written = text.target(offset, ROW_BYTES);
    // SAFETY: `written` names as many bytes as a row has, written by `store` before.
    unsafe { _mm512_loadu_si512(written.cast()) }
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn store(text: Text<'_>, offset: usize, row: Row) {
    let target = text.target(offset, ROW_BYTES);
    // SAFETY: `target` names as many writable bytes as a row has.
    unsafe { _mm512_storeu_si512(target.cast(), row) }
}

/// The first bytes of a row, then zeros.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn load_part(text: Text<'_>, offset: usize, bytes: usize) -> Row {
    let (source, mask) = (text.source(offset, bytes), first(bytes));
    // SAFETY: `source` names `bytes` readable bytes, and the mask selects no others.
    unsafe { _mm512_maskz_loadu_epi8(mask, source.cast()) }
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn store_part(text: Text<'_>, offset: usize, bytes: usize, row: Row) {
    let (target, mask) = (text.target(offset, bytes), first(bytes));
    // SAFETY: `target` names `bytes` writable bytes, and the mask selects no others.
    unsafe { _mm512_mask_storeu_epi8(target.cast(), mask, row) }
}

/// The first bytes of a row, then zeros.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn keep(row: Row, bytes: usize) -> Row {
    _mm512_maskz_mov_epi8(first(bytes), row)
}

/// A mask of the first bytes.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn first(bytes: usize) -> __mmask64 {
    _bzhi_u64(u64::MAX, bytes as u32)
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn row_from(bytes: &[u8; ROW_BYTES]) -> Row {
    // SAFETY: the bytes are as many as a row has.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// The first blocks of several.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn row_of(blocks: &[[u64; 2]]) -> Row {
    let blocks: &[[u64; 2]; BLOCKS] = blocks.first_chunk().expect("a row of blocks");
    // SAFETY: the blocks are as many as a row has.
    unsafe { _mm512_loadu_si512(blocks.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn broadcast(block: &[u64; 2]) -> Row {
    _mm512_broadcast_i32x4(field::element(*block))
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

/// Counter blocks from `counter` on; all with their bytes reversed.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn counters_from(counter: Element) -> Row {
    let places = _mm512_set_epi64(0, 3, 0, 2, 0, 1, 0, 0);
    _mm512_add_epi32(_mm512_broadcast_i32x4(counter), places)
}

/// The counter blocks of the next row.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn count(counters: Row) -> Row {
    let step = BLOCKS as i64;
    _mm512_add_epi32(counters, _mm512_set_epi64(0, step, 0, step, 0, step, 0, step))
}

/// Turns the order of the bytes of each block around.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn reverse(row: Row) -> Row {
    let order = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
    _mm512_shuffle_epi8(row, _mm512_broadcast_i32x4(order))
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn swap_halves(row: Row) -> Row {
    _mm512_shuffle_epi32::<0x4e>(row)
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn add(left: Row, right: Row) -> Row {
    _mm512_xor_si512(left, right)
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn encrypt(state: Row, round_key: Row) -> Row {
    _mm512_aesenc_epi128(state, round_key)
}

/// One round on a whole chunk, as a block that the compiler does not take apart: left to itself it
/// encrypts row after row, and the units wait for one another.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn encrypt_chunk(states: &mut [Row; ROWS], round_key: Row) {
    // SAFETY: register arithmetic only. Not `pure`, so that loads keep their places between rounds.
    unsafe {
        asm!(
            "vaesenc {0}, {0}, {key}",
            "vaesenc {1}, {1}, {key}",
            "vaesenc {2}, {2}, {key}",
            "vaesenc {3}, {3}, {key}",
            "vaesenc {4}, {4}, {key}",
            "vaesenc {5}, {5}, {key}",
            "vaesenc {6}, {6}, {key}",
            "vaesenc {7}, {7}, {key}",
            inout(zmm_reg) states[0],
            inout(zmm_reg) states[1],
            inout(zmm_reg) states[2],
            inout(zmm_reg) states[3],
            inout(zmm_reg) states[4],
            inout(zmm_reg) states[5],
            inout(zmm_reg) states[6],
            inout(zmm_reg) states[7],
            key = in(zmm_reg) round_key,
            options(nomem, nostack, preserves_flags),
        );
    }
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn encrypt_last(state: Row, round_key: Row) -> Row {
    _mm512_aesenclast_epi128(state, round_key)
}

/// The product of one half of each block, per bits 0 and 4 of `HALVES`.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn carryless<const HALVES: i32>(left: Row, right: Row) -> Row {
    _mm512_clmulepi64_epi128::<HALVES>(left, right)
}
