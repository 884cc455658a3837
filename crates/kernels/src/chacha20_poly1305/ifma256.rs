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
use super::single::Single;
use super::{
    BESIDE_KEY, BESIDE_STACK, BLOCK_BYTES, CONSTANTS, DOUBLE_ROUNDS, Key, LONG_STACK, Message,
    NARROW_LONG_STACK, NARROW_SETS_STACK, NONCE_BYTES, Pace, Poly1305, SEALED_LONG_STACK,
    SEALED_STACK, SHORT_STACK, SHORTEST_STACK, TAG_BYTES, Ways, close, fills_a_set, last_block,
    last_words, whole_blocks,
};
use crate::lanes::Ifma256x4;
use crate::registers::Register;
use crate::stack::wipe_stack;
use crate::text::{Direction, Text};

engine! {
    Ifma256,
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma")]
}

abreast! {
    Ifma256,
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma")]
}

by_words! {
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma")]
}

staged! {
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma")]
}

opening_by_both! {
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma")]
}

rows256! {
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma")]
}

masked_rows! {
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma")],
    load = _mm256_maskz_loadu_epi8, store = _mm256_mask_storeu_epi8, rotate = _mm256_rol_epi32,
}

in_lanes! {
    Ifma256x4, Ifma256,
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma")],
    __m256i, 4, ymm_reg, blocks = [0, 2, 1, 3],
    load = _mm256_loadu_si256, load_some = _mm256_maskz_loadu_epi64,
    unpack = (_mm256_unpacklo_epi64, _mm256_unpackhi_epi64),
}
