//! One block of the key stream in general registers, beside those in vectors. Secret-independent.
//!
//! Where a step takes one cycle there and two in a vector, as on Zen 5, a block is there in little
//! more than half the time: what comes first of a message, the one-time key, is made here.
#![allow(unsafe_code, reason = "a rotation that stays in general registers")]

use core::arch::asm;

use super::{BLOCK_BYTES, CONSTANTS, Key, NONCE_BYTES, last_words};

/// A block on its way.
#[derive(Clone, Copy)]
pub(super) struct Single([u32; 16]);

impl Single {
    /// A block before its rounds.
    #[inline(always)]
    pub(super) fn new(key: &Key, nonce: &[u8; NONCE_BYTES], counter: u32) -> Self {
        let [c0, c1, c2, c3] = CONSTANTS;
        let [[k0, k1, k2, k3], [k4, k5, k6, k7]] = key.words;
        let [counter, n0, n1, n2] = last_words(counter, nonce);
        Single([c0, c1, c2, c3, k0, k1, k2, k3, k4, k5, k6, k7, counter, n0, n1, n2])
    }

    /// A block that was on its way in a vector.
    #[inline(always)]
    pub(super) fn from_bytes(block: &[u8; BLOCK_BYTES]) -> Self {
        let mut words = [0; 16];
        for (word, bytes) in words.iter_mut().zip(block.as_chunks().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        Single(words)
    }

    /// A round on the columns, and one on the diagonals.
    #[inline(always)]
    pub(super) fn double_round(&mut self) {
        let [a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3] = self.0;
        let mut columns = [[a0, b0, c0, d0], [a1, b1, c1, d1], [a2, b2, c2, d2], [a3, b3, c3, d3]];
        quarter_rounds(&mut columns);
        let [[a0, b0, c0, d0], [a1, b1, c1, d1], [a2, b2, c2, d2], [a3, b3, c3, d3]] = columns;
        let mut diagonals =
            [[a0, b1, c2, d3], [a1, b2, c3, d0], [a2, b3, c0, d1], [a3, b0, c1, d2]];
        quarter_rounds(&mut diagonals);
        let [[a0, b1, c2, d3], [a1, b2, c3, d0], [a2, b3, c0, d1], [a3, b0, c1, d2]] = diagonals;
        self.0 = [a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3];
    }

    /// The block of the key stream, by what was there before the rounds.
    #[inline(always)]
    pub(super) fn after_rounds(&self, before: &Single) -> [u64; BLOCK_BYTES / 8] {
        let mut stream = [0; BLOCK_BYTES / 8];
        for (index, word) in stream.iter_mut().enumerate() {
            let half = |half: usize| u64::from(self.0[half].wrapping_add(before.0[half]));
            *word = settled(half(2 * index) | half(2 * index + 1) << 32);
        }
        stream
    }
}

#[inline(always)]
fn quarter_rounds(quarters: &mut [[u32; 4]; 4]) {
    for [a, b, _, d] in &mut *quarters {
        *a = a.wrapping_add(*b);
        *d = rotate::<16>(*d ^ *a);
    }
    for [_, b, c, d] in &mut *quarters {
        *c = c.wrapping_add(*d);
        *b = rotate::<12>(*b ^ *c);
    }
    for [a, b, _, d] in &mut *quarters {
        *a = a.wrapping_add(*b);
        *d = rotate::<8>(*d ^ *a);
    }
    for [_, b, c, d] in &mut *quarters {
        *c = c.wrapping_add(*d);
        *b = rotate::<7>(*b ^ *c);
    }
}

/// The word, which is in a general register: the compiler does not gather sums in a vector.
#[inline(always)]
fn settled(word: u64) -> u64 {
    let mut settled = word;
    // SAFETY: an empty block changes nothing.
    unsafe {
        asm!("/* {0} */", inout(reg) settled, options(pure, nomem, nostack, preserves_flags));
    }
    settled
}

/// The word rotated left. In assembly, since the compiler would gather four words in a vector.
#[inline(always)]
fn rotate<const BITS: u32>(word: u32) -> u32 {
    let mut rotated = word;
    // SAFETY: works on a register only.
    unsafe {
        asm!("rol {0:e}, {1}", inout(reg) rotated, const BITS, options(pure, nomem, nostack));
    }
    rotated
}
