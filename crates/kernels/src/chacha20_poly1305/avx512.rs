//! Room avx512 of chacha20_poly1305: four blocks to a row, and scalar Poly1305. Secret-independent.
#![allow(unsafe_code, reason = "room: doors")]

use widelane_cpu::Avx512;
use widelane_secret::{wipe, wipe_vector_registers as wipe_registers};

use super::rows512::*;
use super::{
    BLOCK_BYTES, CONSTANTS, Key, Message, NONCE_BYTES, Poly1305, close, last_block, last_words,
    whole_blocks,
};
use crate::text::Text;

engine! {
    Avx512,
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
}

/// Scalar products run beside the vectors and cost no licence.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn authenticate(poly: &mut Poly1305, bytes: &[u8]) {
    poly.absorb(bytes);
}
