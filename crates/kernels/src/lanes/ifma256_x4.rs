//! Room ifma256_x4 of lanes: four words in a ymm register. Secret-independent.
#![allow(unsafe_code, reason = "room: door and intrinsics")]

use core::arch::x86_64 as arch;
use core::mem::{transmute, zeroed};

use widelane_cpu::Ifma256;
use widelane_secret::wipe_vector_registers;

use super::{LaneMask, Lanes};
use crate::registers::Register;

wide_lanes! {
    Ifma256x4: 4 of u64 in ymm, Ifma256,
    features = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma",
    splat_pair = _mm256_broadcast_i64x2, blend = _mm256_mask_blend_epi64,
    equals = _mm256_cmpeq_epu64_mask, less_than = _mm256_cmplt_epu64_mask,
    top_bit = _mm256_movepi64_mask, mul = _mm256_mullo_epi64, shr_signed = _mm256_sra_epi64,
    madd52lo = _mm256_madd52lo_epu64, madd52hi = _mm256_madd52hi_epu64,
    align = _mm256_alignr_epi64 by 1 2 3,
    permute = _mm256_permutexvar_epi64,
}

/// Two permutations of two registers each, and a choice between them by bit 3 of the index.
#[inline(always)]
fn pick(row: &[u64; 16], index: Ifma256x4) -> Ifma256x4 {
    let room = index.1;
    let (quarters, _) = row.as_chunks();
    let a = Ifma256x4::load(room, &quarters[0]).0;
    let b = Ifma256x4::load(room, &quarters[1]).0;
    let c = Ifma256x4::load(room, &quarters[2]).0;
    let d = Ifma256x4::load(room, &quarters[3]).0;
    let low = Ifma256x4(intrinsic!(_mm256_permutex2var_epi64(a, index.0, b)), room);
    let high = Ifma256x4(intrinsic!(_mm256_permutex2var_epi64(c, index.0, d)), room);
    high.select(index.shl(60).top_bit(), low)
}
