//! Room ifma512 of chacha20_poly1305: four blocks to a row, and Poly1305 in eight lanes.
//! Secret-independent.
#![allow(unsafe_code, reason = "room: door, loads and intrinsics")]

use core::arch::asm;
use core::arch::x86_64 as arch;
use core::mem::{transmute, zeroed};

use widelane_cpu::{Ifma512, features};
use widelane_secret::wipe_vector_registers;

use super::abreast::{self, ABREAST};
use super::chunk::staged;
use super::engine::{self, Engine, Group, Pieces};
use super::poly1305_lanes::{self, BlockLanes, Factor};
use super::rows::{Row, SETS, Set, Steps};
use super::{BLOCK_BYTES, Key, Message, NONCE_BYTES, Poly1305, TAG_BYTES, Ways};
use crate::lanes::Ifma512x8;
use crate::registers::Register;
use crate::text::{Direction, Text};

/// Whether a text takes less time in `ifma256` on this CPU, where wide registers take two turns
/// (Zen 4).
#[inline]
pub fn is_slower_than_ifma256(text_bytes: usize) -> bool {
    (257..=704).contains(&text_bytes) && features::wide_vectors_take_two_turns()
}

doors!(Ifma512Row, Ifma512);

row512!(Ifma512Row, Ifma512, features = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma");

impl Engine for Ifma512Row {
    type Running = poly1305_lanes::Running<Ifma512x8>;

    #[inline(always)]
    fn chunk_beside(
        room: Ifma512,
        key: &Key,
        nonce: &[u8; NONCE_BYTES],
        counter: u32,
        running: &mut Self::Running,
        groups: &[Group<Self>],
    ) -> [Set<Self>; SETS] {
        staged(room, key, nonce, counter, running, groups)
    }
}

block_lanes! {
    Ifma512x8, Ifma512, features = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma",
    __m512i, 8, zmm_reg, blocks = [0, 4, 1, 5, 2, 6, 3, 7],
    load = _mm512_loadu_si512, load_some = _mm512_maskz_loadu_epi64,
    unpack = (_mm512_unpacklo_epi64, _mm512_unpackhi_epi64),
}
