//! Room ifma256_x4 of lanes: four words in a ymm register. Secret-independent.
#![allow(unsafe_code, reason = "room: door and intrinsics")]

use core::arch::x86_64 as arch;
use core::array;
use core::mem::transmute;

use widelane_cpu::Ifma256;
use widelane_secret::wipe_vector_registers;

use super::{LaneMask, Lanes, Task};

wide_lanes! {
    Ifma256x4(__m256i, Ifma256), 4, features = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma",
    splat = _mm256_set1_epi64x, blend = _mm256_mask_blend_epi64, equals = _mm256_cmpeq_epu64_mask,
    less_than = _mm256_cmplt_epu64_mask, add = _mm256_add_epi64, sub = _mm256_sub_epi64,
    mul = _mm256_mullo_epi64, and = _mm256_and_si256, or = _mm256_or_si256,
    xor = _mm256_xor_si256, shl = _mm256_maskz_slli_epi64, shr = _mm256_maskz_srli_epi64,
    shr_signed = _mm256_maskz_srai_epi64, madd52lo = _mm256_madd52lo_epu64,
    madd52hi = _mm256_madd52hi_epu64,
}
