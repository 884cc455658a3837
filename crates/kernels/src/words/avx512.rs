//! Room avx512 of words: sixteen or eight words in a zmm register. Secret-independent.
#![allow(unsafe_code, reason = "room: door, loads and intrinsics")]

use core::arch::asm;
use core::arch::x86_64 as arch;
use core::mem::transmute;

use widelane_cpu::Avx512;
use widelane_secret::wipe_vector_registers;

use super::message::{Message, chunks_at};
use super::{BLOCK_WORDS, PIECE_BYTES, Task, Words, wide};
use crate::stack::wipe_frame;

words_of_32_bits_in_zmm! {
    Avx512x16, Avx512, features = "avx512f,avx512dq,avx512vl,avx512bw,bmi2", fed = 256
}

wide_words! {
    Avx512x8(__m512i in zmm_reg as "z", Avx512), 8 of u64,
    features = "avx512f,avx512dq,avx512vl,avx512bw,bmi2",
    splat = _mm512_set1_epi64, add = _mm512_add_epi64,
    and = _mm512_and_si512, xor = _mm512_xor_si512, or = _mm512_or_si512,
    left = _mm512_sllv_epi64, right = _mm512_srlv_epi64,
    gather = gather, shuffle = _mm512_shuffle_epi8,
    broadcast = _mm512_broadcast_i32x4, order = (0x0809_0a0b_0c0d_0e0f, 0x0001_0203_0405_0607),
    transpose = transpose2, wipe = wipe_vector_registers, spilled = 96, fed = 256,
    and_not = _mm512_andnot_si512, ternary = _mm512_ternarylogic_epi64,
}

pieces_in_zmm!(Avx512);
