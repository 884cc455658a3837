//! Room ifma512_x8 of lanes: eight words in a zmm register. Secret-independent.
#![allow(unsafe_code, reason = "room: door and intrinsics")]

use core::arch::x86_64 as arch;
use core::mem::{transmute, zeroed};

use widelane_cpu::Ifma512;
use widelane_secret::wipe_vector_registers;

use super::{LaneMask, Lanes};
use crate::registers::Register;

wide_lanes! {
    Ifma512x8: 8 of u64 in zmm, Ifma512,
    features = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma",
    splat_pair = _mm512_broadcast_i64x2, blend = _mm512_mask_blend_epi64,
    equals = _mm512_cmpeq_epu64_mask, less_than = _mm512_cmplt_epu64_mask,
    top_bit = _mm512_movepi64_mask, mul = _mm512_mullo_epi64, shr_signed = _mm512_sra_epi64,
    madd52lo = _mm512_madd52lo_epu64, madd52hi = _mm512_madd52hi_epu64,
    align = _mm512_alignr_epi64 by 1 2 3 4 5 6 7,
    permute = _mm512_permutexvar_epi64,
}

/// One permutation of two registers.
#[inline(always)]
fn pick(row: &[u64; 16], index: Ifma512x8) -> Ifma512x8 {
    let Ifma512x8(index, room) = index;
    let (halves, _) = row.as_chunks();
    let low = Ifma512x8::load(room, &halves[0]).0;
    let high = Ifma512x8::load(room, &halves[1]).0;
    Ifma512x8(intrinsic!(_mm512_permutex2var_epi64(low, index, high)), room)
}
