//! Room ifma512 of chacha20_poly1305: room avx512 with Poly1305 in eight lanes. Secret-independent.
#![allow(unsafe_code, reason = "room: doors")]

use widelane_cpu::Ifma512;
use widelane_secret::{wipe, wipe_vector_registers as wipe_registers};

use super::poly1305_ifma::{LANES_BYTES_MIN, absorb_groups};
use super::rows512::*;
use super::{
    BLOCK_BYTES, CONSTANTS, Key, Message, NONCE_BYTES, Poly1305, close, last_block, last_words,
    whole_blocks,
};
use crate::text::Text;

engine! {
    Ifma512,
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma")]
}

/// Eight lanes pay once their powers are computed; what is shorter, or left over, is scalar.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma")]
fn authenticate(poly: &mut Poly1305, bytes: &[u8]) {
    let mut rest = bytes;
    if bytes.len() >= LANES_BYTES_MIN {
        let (groups, behind) = bytes.as_chunks();
        absorb_groups(poly, groups);
        rest = behind;
    }
    poly.absorb(rest);
}
