//! Room ifma512 of chacha20_poly1305: four blocks to a row, and Poly1305 in eight lanes.
//! Secret-independent.
#![allow(unsafe_code, reason = "room: doors, loads and stores")]

use core::arch::asm;
use core::arch::x86_64::*;
use core::mem::transmute;
use core::ops::Range;

use widelane_cpu::{Ifma512, features};
use widelane_secret::{wipe, wipe_vector_registers as wipe_registers};

use super::poly1305_lanes::{self, BlockLanes, Factor};
use super::single::Single;
use super::{
    BESIDE_KEY, BESIDE_STACK, BLOCK_BYTES, CONSTANTS, DOUBLE_ROUNDS, Key, LONG_STACK, Message,
    NARROW_LONG_STACK, NARROW_SETS_STACK, NONCE_BYTES, Pace, Poly1305, SEALED_LONG_STACK,
    SEALED_STACK, SHORT_STACK, SHORTEST_STACK, TAG_BYTES, Ways, close, fills_a_set, last_block,
    last_words, whole_blocks,
};
use crate::lanes::Ifma512x8;
use crate::registers::Register;
use crate::stack::wipe_stack;
use crate::text::{Direction, Text};

/// Whether a text takes less time in `ifma256` on this CPU, where wide registers take two turns
/// (Zen 4).
#[inline]
pub fn is_slower_than_ifma256(text_bytes: usize) -> bool {
    (257..=704).contains(&text_bytes) && features::wide_vectors_take_two_turns()
}

engine! {
    Ifma512,
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma")]
}

abreast! {
    Ifma512,
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

rows512! {
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma")]
}

in_lanes! {
    Ifma512x8, Ifma512,
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma")],
    __m512i, 8, zmm_reg, blocks = [0, 4, 1, 5, 2, 6, 3, 7],
    load = _mm512_loadu_si512, load_some = _mm512_maskz_loadu_epi64,
    unpack = (_mm512_unpacklo_epi64, _mm512_unpackhi_epi64),
}
