//! Room avx2 of chacha20_poly1305: two blocks to a row, and scalar Poly1305. Secret-independent.
#![allow(unsafe_code, reason = "room: doors, loads and stores")]

use core::arch::x86_64::*;
use core::ops::Range;

use widelane_cpu::Avx2;
use widelane_secret::{wipe, wipe_ymm_registers as wipe_registers};

use super::{
    BLOCK_BYTES, CONSTANTS, DOUBLE_ROUNDS, Key, LONG_STACK, Message, NONCE_BYTES, Pace, Poly1305,
    SHORT_STACK, TAG_BYTES, close, last_block, last_words, whole_blocks,
};
use crate::stack::wipe_stack;
use crate::text::Text;

/// Blocks of a row.
const BLOCKS: usize = 2;
/// Sets on the way at a time: what sixteen registers hold.
const SETS: usize = 3;

type Row = __m256i;

engine! {
    Avx2,
    #[target_feature(enable = "avx2,bmi2")]
}

by_rows! {
    #[target_feature(enable = "avx2,bmi2")]
}

scalar! {
    Avx2,
    #[target_feature(enable = "avx2,bmi2")]
}

#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn load(text: Text<'_>, offset: usize) -> Row {
    let source = text.source(offset, ROW_BYTES);
    // SAFETY: `source` names as many readable bytes as a row has.
    unsafe { _mm256_loadu_si256(source.cast()) }
}

#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn store(text: Text<'_>, offset: usize, row: Row) {
    let target = text.target(offset, ROW_BYTES);
    // SAFETY: `target` names as many writable bytes as a row has.
    unsafe { _mm256_storeu_si256(target.cast(), row) }
}

/// Adds the first bytes of a row to a text.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn add_part(text: Text<'_>, offset: usize, bytes: usize, row: Row) {
    let stream = bytes_of(row);
    let (_, rest) = text.split_at(offset);
    let (part, _) = rest.split_at(bytes);
    part.map(|block: &mut [u8; ROW_BYTES]| {
        for (byte, stream) in block.iter_mut().zip(stream) {
            *byte ^= stream;
        }
    });
}

#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn bytes_of(row: Row) -> [u8; ROW_BYTES] {
    let mut bytes = [0; ROW_BYTES];
    // SAFETY: the bytes are as many as a row has.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), row) };
    bytes
}

/// The first block of a set that is in order.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn first_block(set: Set) -> [u8; BLOCK_BYTES] {
    let mut block = [0; BLOCK_BYTES];
    block[..ROW_BYTES].copy_from_slice(&bytes_of(set[0]));
    block[ROW_BYTES..].copy_from_slice(&bytes_of(set[1]));
    block
}

#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn broadcast(words: &[u32; 4]) -> Row {
    let [w0, w1, w2, w3] = words.map(u32::cast_signed);
    _mm256_broadcastsi128_si256(_mm_set_epi32(w3, w2, w1, w0))
}

/// Numbers the blocks of a row.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn count_blocks(last: Row) -> Row {
    _mm256_add_epi32(last, _mm256_set_epi32(0, 0, 0, 1, 0, 0, 0, 0))
}

/// The last row some blocks later.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn count(last: Row, blocks: u32) -> Row {
    let step = blocks.cast_signed();
    _mm256_add_epi32(last, _mm256_set_epi32(0, 0, 0, step, 0, 0, 0, step))
}

#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn add(left: Row, right: Row) -> Row {
    _mm256_add_epi32(left, right)
}

#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn add_bits(left: Row, right: Row) -> Row {
    _mm256_xor_si256(left, right)
}

/// Moves the words of each block around.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn turn<const ORDER: i32>(row: Row) -> Row {
    _mm256_shuffle_epi32::<ORDER>(row)
}

#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn rotate16(row: Row) -> Row {
    let order = _mm_set_epi64x(0x0d0c_0f0e_0908_0b0a, 0x0504_0706_0100_0302);
    _mm256_shuffle_epi8(row, _mm256_broadcastsi128_si256(order))
}

#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn rotate12(row: Row) -> Row {
    _mm256_or_si256(_mm256_slli_epi32::<12>(row), _mm256_srli_epi32::<20>(row))
}

#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn rotate8(row: Row) -> Row {
    let order = _mm_set_epi64x(0x0e0d_0c0f_0a09_080b, 0x0605_0407_0201_0003);
    _mm256_shuffle_epi8(row, _mm256_broadcastsi128_si256(order))
}

#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn rotate7(row: Row) -> Row {
    _mm256_or_si256(_mm256_slli_epi32::<7>(row), _mm256_srli_epi32::<25>(row))
}

/// Brings the rows of each block together.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn in_order([a, b, c, d]: Set) -> Set {
    [
        _mm256_permute2x128_si256::<0x20>(a, b),
        _mm256_permute2x128_si256::<0x20>(c, d),
        _mm256_permute2x128_si256::<0x31>(a, b),
        _mm256_permute2x128_si256::<0x31>(c, d),
    ]
}
