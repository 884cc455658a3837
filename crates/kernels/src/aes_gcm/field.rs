//! One block of AES-GCM in a 128-bit register: AES rounds, and the field of GHASH reflected.
//!
//! Elements are polynomials in u with the lowest coefficient in the lowest bit, modulo
//! u^128 + u^127 + u^126 + u^121 + 1, and products carry a factor u^(−128) (Montgomery). A block of
//! the message becomes an element by reversing its bytes; the hash key is multiplied by u besides.
#![allow(unsafe_code, reason = "loads and stores")]

use core::arch::x86_64::*;

use super::{BLOCK_BYTES, Block, NONCE_BYTES};

/// A block in a register.
pub(super) type Element = __m128i;

/// u^63 + u^62 + u^57: what a coefficient below u^64 turns into, 64 places higher.
pub(super) const FOLDING: u64 = 0xc200_0000_0000_0000;

/// The element whose lower and upper 64 coefficients are given.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
pub(super) fn element(words: [u64; 2]) -> Element {
    _mm_set_epi64x(words[1].cast_signed(), words[0].cast_signed())
}

/// The lower and upper 64 coefficients of an element.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
pub(super) fn words(element: Element) -> [u64; 2] {
    [_mm_cvtsi128_si64(element).cast_unsigned(), _mm_extract_epi64::<1>(element).cast_unsigned()]
}

/// The block in `bytes`, in their order.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
pub(super) fn load(bytes: &Block) -> Element {
    // SAFETY: a block is 16 bytes long.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

/// The bytes of a block, in their order.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
pub(super) fn store(block: Element) -> Block {
    let mut bytes = [0; BLOCK_BYTES];
    // SAFETY: a block is 16 bytes long.
    unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), block) };
    bytes
}

/// The element of a block.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
pub(super) fn block(bytes: &Block) -> Element {
    reverse(load(bytes))
}

/// The block of an element.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
pub(super) fn bytes(element: Element) -> Block {
    store(reverse(element))
}

/// The element of a block of which up to 15 bytes are given and the others are zero.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
pub(super) fn partial_block(bytes: &[u8]) -> Element {
    debug_assert!(bytes.len() < BLOCK_BYTES);
    let missing = 8 * (BLOCK_BYTES - bytes.len()) as u32;
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        // `last` may begin inside `first`: those bytes are shifted out.
        let last = u64::from_be_bytes(*last) << (missing / 2) << (missing / 2);
        element([last, u64::from_be_bytes(*first)])
    } else if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        // Bytes that are in both fall together.
        let last = u64::from(u32::from_be_bytes(*last)) << (missing - 64);
        element([0, u64::from(u32::from_be_bytes(*first)) << 32 | last])
    } else {
        let value = bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        element([0, if bytes.is_empty() { 0 } else { value << (missing - 64) }])
    }
}

/// Writes the first bytes of a block: up to 15.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
pub(super) fn store_part(block: Element, bytes: &mut [u8]) {
    debug_assert!(bytes.len() < BLOCK_BYTES);
    let [low, high] = words(block);
    let length = bytes.len();
    // As in `partial_block`, the last word may begin inside the first one.
    if let Some(first) = bytes.first_chunk_mut() {
        *first = low.to_le_bytes();
        let last = (u128::from(high) << 64 | u128::from(low)) >> (8 * (length - 8));
        *bytes.last_chunk_mut().expect("a word") = (last as u64).to_le_bytes();
    } else if let Some(first) = bytes.first_chunk_mut() {
        *first = (low as u32).to_le_bytes();
        let last = low >> (8 * (length - 4));
        *bytes.last_chunk_mut().expect("half a word") = (last as u32).to_le_bytes();
    } else {
        for (byte, value) in bytes.iter_mut().zip(low.to_le_bytes()) {
            *byte = value;
        }
    }
}

/// The first counter block of a nonce of 96 bits.
#[inline]
pub fn first_counter(nonce: &[u8; NONCE_BYTES]) -> Block {
    let word = |at| i32::from_le_bytes([nonce[at], nonce[at + 1], nonce[at + 2], nonce[at + 3]]);
    // SAFETY: every machine of this architecture has SSE2.
    let block = unsafe { _mm_set_epi32(1i32.to_be(), word(8), word(4), word(0)) };
    let mut bytes = [0; BLOCK_BYTES];
    // One store: with smaller ones, a load of the block right behind them could not be forwarded
    // and would wait until they have left the core, and each message for the one before it.
    // SAFETY: a block is 16 bytes long.
    unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), block) };
    bytes
}

/// Turns the order of the bytes around.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
pub(super) fn reverse(block: Element) -> Element {
    _mm_shuffle_epi8(block, _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f))
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
pub(super) fn zero() -> Element {
    _mm_setzero_si128()
}

/// The neutral element of the product: u^128.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
pub(super) fn one() -> Element {
    element([1, FOLDING])
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
pub(super) fn add(left: Element, right: Element) -> Element {
    _mm_xor_si128(left, right)
}

/// One AES round.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
pub(super) fn encrypt(state: Element, round_key: Element) -> Element {
    _mm_aesenc_si128(state, round_key)
}

/// The last AES round.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
pub(super) fn encrypt_last(state: Element, round_key: Element) -> Element {
    _mm_aesenclast_si128(state, round_key)
}

/// The hash key as a factor: multiplied by u.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
pub(super) fn hash_key(hashed_zero: Element) -> Element {
    let [low, high] = words(hashed_zero);
    let overflow = (high >> 63).wrapping_neg();
    element([low << 1 | overflow & 1, (high << 1 | low >> 63) ^ overflow & FOLDING])
}

/// The sum of the two halves of an element, in both halves.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
pub(super) fn halves(value: Element) -> Element {
    add(value, _mm_shuffle_epi32::<0x4e>(value))
}

/// The product of two elements.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
pub(super) fn product(left: Element, right: Element) -> Element {
    let low = _mm_clmulepi64_si128::<0x00>(left, right);
    let middle = _mm_clmulepi64_si128::<0x00>(halves(left), halves(right));
    let high = _mm_clmulepi64_si128::<0x11>(left, right);
    reduce(low, middle, high)
}

/// The product whose parts by Karatsuba's method are given.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
pub(super) fn reduce(low: Element, middle: Element, high: Element) -> Element {
    let middle = add(middle, add(low, high));
    add(fold(add(fold(low), middle)), high)
}

/// Multiplies by u^(−64).
#[inline]
#[target_feature(enable = "aes,pclmulqdq,avx")]
pub(super) fn fold(value: Element) -> Element {
    let folded = _mm_clmulepi64_si128::<0x00>(value, element([FOLDING, 0]));
    add(_mm_shuffle_epi32::<0x4e>(value), folded)
}
