//! Room vbmi512 of words: eight words in a zmm register. Secret-independent.
#![allow(unsafe_code, reason = "room: door, loads and intrinsics")]

use core::arch::asm;
use core::arch::x86_64 as arch;
use core::mem::{transmute, zeroed};

use widelane_cpu::Vbmi512;
use widelane_secret::stack::wipe_frame;
use widelane_secret::wipe_vector_registers;

use super::message::{Message, chunks_at};
use super::{BLOCK_WORDS, PIECE_BYTES, Words, wide};
use crate::registers::{Register, Task};

words_of_64_bits_in_zmm! {
    Vbmi512x8, Vbmi512,
    features = "avx512f,avx512dq,avx512vl,avx512bw,avx512vbmi,avx512vbmi2,bmi2,popcnt"
}

pieces_in_zmm!(Vbmi512);
