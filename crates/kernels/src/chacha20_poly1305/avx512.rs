//! Room avx512 of chacha20_poly1305: four blocks to a row, and scalar Poly1305. Secret-independent.
#![allow(unsafe_code, reason = "room: doors, loads and stores")]

use core::arch::x86_64::*;
use core::ops::Range;

use widelane_cpu::Avx512;
use widelane_secret::{wipe, wipe_vector_registers as wipe_registers};

use super::single::Single;
use super::{
    BESIDE_KEY, BESIDE_STACK, BLOCK_BYTES, CONSTANTS, DOUBLE_ROUNDS, Key, LONG_STACK, Message,
    NARROW_LONG_STACK, NARROW_SETS_STACK, NONCE_BYTES, Pace, Poly1305, SEALED_LONG_STACK,
    SEALED_STACK, SHORT_STACK, SHORTEST_STACK, TAG_BYTES, Ways, close, fills_a_set, last_block,
    last_words, whole_blocks,
};
use crate::stack::wipe_stack;
use crate::text::{Direction, Text};

engine! {
    Avx512,
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
}

abreast! {
    Avx512,
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
}

by_words! {
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
}

paced! {
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
}

opening_by_both! {
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
}

scalar! {
    Avx512,
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,bmi2")],
    blocks = Poly1305::absorb_blocks,
    bytes = Poly1305::absorb,
}

rows512! {
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
}
