//! Room ifma256 of chacha20_poly1305: two blocks to a row, and Poly1305 in four lanes.
//! Secret-independent.
#![allow(unsafe_code, reason = "room: doors, loads and stores")]

use core::arch::asm;
use core::arch::x86_64::*;
use core::mem::transmute;
use core::ops::Range;

use widelane_cpu::Ifma256;
use widelane_secret::{wipe, wipe_vector_registers as wipe_registers};

use super::poly1305_lanes::{self, BlockLanes, Factor};
use super::{
    BLOCK_BYTES, CONSTANTS, DOUBLE_ROUNDS, Key, LONG_STACK, Message, NONCE_BYTES, Pace, Poly1305,
    SHORT_STACK, TAG_BYTES, close, last_block, last_words, whole_blocks,
};
use crate::lanes::{Ifma256x4, Lanes};
use crate::stack::wipe_stack;
use crate::text::Text;

engine! {
    Ifma256,
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma")]
}

by_words! {
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma")]
}

rows! {
    __m256i, #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma")],
    load = _mm256_loadu_si256, store = _mm256_storeu_si256,
    load_masked = _mm256_maskz_loadu_epi8, store_masked = _mm256_mask_storeu_epi8,
    splat = _mm256_set1_epi32, broadcast = _mm256_broadcastsi128_si256,
    add = _mm256_add_epi32, xor = _mm256_xor_si256,
    shuffle = _mm256_shuffle_epi32, rotate = _mm256_rol_epi32,
    unpack32 = (_mm256_unpacklo_epi32, _mm256_unpackhi_epi32),
    unpack64 = (_mm256_unpacklo_epi64, _mm256_unpackhi_epi64),
}

/// Numbers the blocks of a row.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma")]
fn count_blocks(last: Row) -> Row {
    add(last, _mm256_set_epi32(0, 0, 0, 1, 0, 0, 0, 0))
}

/// 0, 1, 2 and so on.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma")]
fn numbers() -> Row {
    _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0)
}

/// Brings the rows of each block together.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma")]
fn in_order([a, b, c, d]: Set) -> Set {
    [
        _mm256_permute2x128_si256::<0x20>(a, b),
        _mm256_permute2x128_si256::<0x20>(c, d),
        _mm256_permute2x128_si256::<0x31>(a, b),
        _mm256_permute2x128_si256::<0x31>(c, d),
    ]
}

in_lanes! {
    Ifma256x4, Ifma256,
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma")],
    __m256i, 4, ymm_reg, blocks = [0, 2, 1, 3],
    load = _mm256_loadu_si256, unpack = (_mm256_unpacklo_epi64, _mm256_unpackhi_epi64),
}
