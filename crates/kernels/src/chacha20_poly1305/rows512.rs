//! Rows of four blocks in `zmm` registers, for the rooms of chacha20_poly1305 that have them.
#![allow(unsafe_code, reason = "loads and stores")]

use core::arch::x86_64::*;

use super::BLOCK_BYTES;
use crate::text::Text;

/// Blocks of a row.
pub(super) const BLOCKS: usize = 4;

/// Sets on the way at a time: what 32 registers hold.
pub(super) const SETS: usize = 4;

const ROW_BYTES: usize = 64;

pub(super) type Row = __m512i;

type Set = [Row; 4];

#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw")]
pub(super) fn load(text: Text<'_>, offset: usize) -> Row {
    let source = text.source(offset, ROW_BYTES);
    // SAFETY: `source` names as many readable bytes as a row has.
    unsafe { _mm512_loadu_si512(source.cast()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw")]
pub(super) fn store(text: Text<'_>, offset: usize, row: Row) {
    let target = text.target(offset, ROW_BYTES);
    // SAFETY: `target` names as many writable bytes as a row has.
    unsafe { _mm512_storeu_si512(target.cast(), row) }
}

/// Adds the first bytes of a row to a text.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw")]
pub(super) fn add_part(text: Text<'_>, offset: usize, bytes: usize, row: Row) {
    let mask = u64::MAX >> (ROW_BYTES - bytes);
    let (source, target) = (text.source(offset, bytes), text.target(offset, bytes));
    // SAFETY: `source` names `bytes` readable bytes, and the mask selects no others.
    let part = unsafe { _mm512_maskz_loadu_epi8(mask, source.cast()) };
    let sum = add_bits(part, row);
    // SAFETY: `target` names `bytes` writable bytes, and the mask selects no others.
    unsafe { _mm512_mask_storeu_epi8(target.cast(), mask, sum) };
}

/// The first block of a set that is in order.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw")]
pub(super) fn first_block(set: Set) -> [u8; BLOCK_BYTES] {
    let mut block = [0; BLOCK_BYTES];
    // SAFETY: the block is as long as a row.
    unsafe { _mm512_storeu_si512(block.as_mut_ptr().cast(), set[0]) };
    block
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw")]
pub(super) fn broadcast(words: &[u32; 4]) -> Row {
    let [w0, w1, w2, w3] = words.map(u32::cast_signed);
    _mm512_broadcast_i32x4(_mm_set_epi32(w3, w2, w1, w0))
}

/// Numbers the blocks of a row.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw")]
pub(super) fn count_blocks(last: Row) -> Row {
    let places = _mm512_set_epi32(0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0);
    _mm512_add_epi32(last, places)
}

/// The last row some blocks later.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw")]
pub(super) fn count(last: Row, blocks: u32) -> Row {
    let step = _mm_cvtsi32_si128(blocks.cast_signed());
    _mm512_add_epi32(last, _mm512_broadcast_i32x4(step))
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw")]
pub(super) fn add(left: Row, right: Row) -> Row {
    _mm512_add_epi32(left, right)
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw")]
pub(super) fn add_bits(left: Row, right: Row) -> Row {
    _mm512_xor_si512(left, right)
}

/// Moves the words of each block around.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw")]
pub(super) fn turn<const ORDER: i32>(row: Row) -> Row {
    _mm512_shuffle_epi32::<ORDER>(row)
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw")]
pub(super) fn rotate16(row: Row) -> Row {
    _mm512_rol_epi32::<16>(row)
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw")]
pub(super) fn rotate12(row: Row) -> Row {
    _mm512_rol_epi32::<12>(row)
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw")]
pub(super) fn rotate8(row: Row) -> Row {
    _mm512_rol_epi32::<8>(row)
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw")]
pub(super) fn rotate7(row: Row) -> Row {
    _mm512_rol_epi32::<7>(row)
}

/// Brings the rows of each block together.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw")]
pub(super) fn in_order([a, b, c, d]: Set) -> Set {
    let (ab_low, ab_high) =
        (_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0xee>(a, b));
    let (cd_low, cd_high) =
        (_mm512_shuffle_i32x4::<0x44>(c, d), _mm512_shuffle_i32x4::<0xee>(c, d));
    [
        _mm512_shuffle_i32x4::<0x88>(ab_low, cd_low),
        _mm512_shuffle_i32x4::<0xdd>(ab_low, cd_low),
        _mm512_shuffle_i32x4::<0x88>(ab_high, cd_high),
        _mm512_shuffle_i32x4::<0xdd>(ab_high, cd_high),
    ]
}
