//! Room vaes512 of words: eight words in a ymm register, or sixteen in a zmm register, with AES
//! beside them. Secret-independent.
#![allow(unsafe_code, reason = "room: door, loads and intrinsics")]

use core::arch::asm;
use core::arch::x86_64 as arch;
use core::mem::{transmute, zeroed};

use widelane_cpu::Vaes512;
use widelane_secret::stack::wipe_frame;
use widelane_secret::wipe_vector_registers;

use super::message::{Message, chunks_at};
use super::{BLOCK_WORDS, PIECE_BYTES, Words, wide};
use crate::registers::{Register, Task};

// The assembler knows these registers by the class of the wider ones: all 32 of them.
wide_words! {
    Vaes512x8: 8 of u32 in ymm, Vaes512,
    features = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2",
    wipe = wipe_vector_registers,
    vector = __m256i in zmm_reg as "y",
    gather = gather, shuffle = _mm256_shuffle_epi8,
    broadcast = _mm256_broadcastsi128_si256,
    order = (0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203),
    transpose = transpose4, spilled = 80, fed = 256,
    and_not = _mm256_andnot_si256, ternary = _mm256_ternarylogic_epi32,
}

pieces_in_ymm!(Vaes512);

pub use zmm::Vaes512x16;

/// What the pieces of zmm registers are called is what those of ymm registers are called above.
mod zmm {
    use super::*;

    words_of_32_bits_in_zmm! {
        Vaes512x16, Vaes512,
        features = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2",
        fed = 376
    }

    pieces_in_zmm!(Vaes512);
}
