//! Room ifma256 of chacha20_poly1305: two blocks to a row, and Poly1305 in four lanes.
//! Secret-independent.
#![allow(unsafe_code, reason = "room: door, loads and intrinsics")]

use core::arch::asm;
use core::arch::x86_64 as arch;
use core::mem::{transmute, zeroed};

use widelane_cpu::Ifma256;
use widelane_secret::wipe_vector_registers;

use super::abreast::{self, ABREAST};
use super::chunk::staged;
use super::engine::{self, Engine, Group, Pieces};
use super::poly1305_lanes::{self, BlockLanes, Factor};
use super::rows::{Row, SETS, Set, Steps};
use super::{BLOCK_BYTES, Key, Message, NONCE_BYTES, Poly1305, TAG_BYTES, Ways};
use crate::lanes::Ifma256x4;
use crate::registers::Register;
use crate::text::{Direction, Text};

doors!(Ifma256Row, Ifma256);

row256!(
    Ifma256Row,
    Ifma256,
    features = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma",
    wipe = wipe_vector_registers
);

impl Engine for Ifma256Row {
    type Running = poly1305_lanes::Running<Ifma256x4>;

    #[inline(always)]
    fn chunk_beside(
        room: Ifma256,
        key: &Key,
        nonce: &[u8; NONCE_BYTES],
        counter: u32,
        running: &mut Self::Running,
        groups: &[Group<Self>],
    ) -> [Set<Self>; SETS] {
        staged(room, key, nonce, counter, running, groups)
    }
}

masked_row! {
    Ifma256Row, Ifma256,
    load = _mm256_maskz_loadu_epi8, store = _mm256_mask_storeu_epi8, rotate = _mm256_rol_epi32,
}

block_lanes! {
    Ifma256x4, Ifma256, features = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma",
    __m256i, 4, ymm_reg, blocks = [0, 2, 1, 3],
    load = _mm256_loadu_si256, load_some = _mm256_maskz_loadu_epi64,
    unpack = (_mm256_unpacklo_epi64, _mm256_unpackhi_epi64),
}
