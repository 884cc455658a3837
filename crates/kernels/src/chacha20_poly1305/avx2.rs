//! Room avx2 of chacha20_poly1305: two blocks to a row, and scalar Poly1305. Secret-independent.
#![allow(unsafe_code, reason = "room: doors, loads and stores")]

use core::arch::asm;
use core::arch::x86_64::*;
use core::ops::Range;

use widelane_cpu::Avx2;
use widelane_secret::{wipe, wipe_ymm_registers as wipe_registers};

use super::single::Single;
use super::woven::{Frame, absorb_blocks, absorb_bytes, blocks_beside, rounds_beside, rounds_for};
use super::{
    BESIDE_KEY, BESIDE_STACK, BLOCK_BYTES, CONSTANTS, DOUBLE_ROUNDS, Key, LONG_STACK, Message,
    NARROW_LONG_STACK, NARROW_SETS_STACK, NONCE_BYTES, Pace, Poly1305, SEALED_LONG_STACK,
    SEALED_STACK, SHORT_STACK, SHORTEST_STACK, TAG_BYTES, Ways, close, fills_a_set, last_block,
    last_words, whole_blocks,
};
use crate::stack::wipe_stack;
use crate::text::{Direction, Text};

engine! {
    Avx2,
    #[target_feature(enable = "avx2,bmi2")]
}

abreast! {
    Avx2,
    #[target_feature(enable = "avx2,bmi2")]
}

by_words! {
    #[target_feature(enable = "avx2,bmi2")]
}

/// A chunk of key stream, beside any number of groups. `SEAL` and `WHOLE` identify the caller.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn chunk_beside<const SEAL: bool, const WHOLE: bool>(
    key: &Key,
    nonce: &[u8; NONCE_BYTES],
    counter: u32,
    running: &mut Running,
    groups: &[[u8; GROUP_BYTES]],
) -> [Set; SETS] {
    let (blocks, _) = groups.as_flattened().as_chunks();
    let rounds = rounds_for(blocks.len()).min(DOUBLE_ROUNDS);
    let (first, beside) = blocks.split_at(blocks.len() - blocks_beside(rounds));
    absorb_blocks(running, first);
    let mut frame = Frame::new(words_before(key, nonce, counter));
    let words = rounds_beside(&mut frame, running, beside);
    words_after(&words, &frame.before)
}

/// Encrypts (`SEAL`) or decrypts a chunk of a text, while groups of it are authenticated, a chunk
/// of them. First come the first halves of all blocks: there are not registers for both.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn crypt_chunk<const SEAL: bool>(
    key: &Key,
    nonce: &[u8; NONCE_BYTES],
    counter: u32,
    chunk: Text<'_>,
    text: Text<'_>,
    running: &mut Running,
    groups: Range<usize>,
) {
    let mut frame = Frame::new(words_before(key, nonce, counter));
    let words = text.with_ciphertext::<SEAL, _>(|bytes| {
        let (blocks, _) = bytes[groups].as_chunks();
        let beside = blocks.as_array::<{ blocks_beside(DOUBLE_ROUNDS) }>();
        rounds_beside(&mut frame, running, beside.expect("a chunk of groups"))
    });
    let [first, mut second] = *words.as_chunks().0 else { unreachable!("two halves") };
    let [before_first, before_second] = frame.before.as_chunks().0 else {
        unreachable!("two halves")
    };
    add_halves(0, &first, before_first, chunk);
    // SAFETY: touches `second` at most, which the compiler has to leave in memory until here.
    unsafe { asm!("/* {} */", in(reg) &raw mut second, options(nostack, preserves_flags)) }
    add_halves(1, &second, before_second, chunk);
}

/// Adds one half of each block of a chunk to a text, which one half of the words make.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn add_halves(half: usize, words: &[Row; 8], before: &[Row; 8], chunk: Text<'_>) {
    let mut sums = *words;
    for (sum, before) in sums.iter_mut().zip(before) {
        *sum = add(*sum, *before);
    }
    let [a, b, c, d, e, f, g, h] = sums;
    let quarters = transpose([a, b, c, d]).into_iter().zip(transpose([e, f, g, h]));
    for (column, (left, right)) in quarters.enumerate() {
        let [first, _, second, _] = in_order([left, right, left, right]);
        for (block, row) in [(column, first), (column + 4, second)] {
            let offset = block * BLOCK_BYTES + half * ROW_BYTES;
            store(chunk, offset, add_bits(load(chunk, offset), row));
        }
    }
}

/// Whether registers are too few for a chunk and what goes beside it.
const FEW_REGISTERS: bool = true;
const SHORT_OPENING: usize = SETS;
const OPENING: usize = 1 + SETS;

/// The sets that a message begins with: a chunk, or one behind a set. `SEAL` and `LONG` identify
/// the caller: each has code of its own, where the sets that are sealed stay in registers.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn opening<const COUNT: usize, const SEAL: bool, const LONG: bool>(
    key: &Key,
    nonce: &[u8; NONCE_BYTES],
) -> [Set; COUNT] {
    let rotations = Rotations::here();
    let mut sets = [[splat(0); 4]; COUNT];
    if COUNT == SHORT_OPENING {
        let mut words = words_before(key, nonce, 0);
        for _ in 0..DOUBLE_ROUNDS {
            double_round_of_words(&mut words, &rotations);
        }
        sets.copy_from_slice(&words_after(&words, &words_before(key, nonce, 0)));
        return sets;
    }
    let before = before_rounds::<1>(key, nonce, 0);
    let mut states = before;
    let mut words = words_before(key, nonce, BLOCKS as u32);
    for _ in 0..DOUBLE_ROUNDS {
        double_round_of_words(&mut words, &rotations);
        double_round(&mut states, &rotations);
    }
    [sets[0]] = after_rounds(states, &before);
    sets[1..].copy_from_slice(&words_after(&words, &words_before(key, nonce, BLOCKS as u32)));
    sets
}

scalar! {
    Avx2,
    #[target_feature(enable = "avx2,bmi2")],
    blocks = absorb_blocks,
    bytes = absorb_bytes,
}

rows256! {
    #[target_feature(enable = "avx2,bmi2")]
}

/// Adds the first bytes of a row to a text. Not inlined, so that its callers stay short.
#[inline(never)]
#[target_feature(enable = "avx2,bmi2")]
fn add_part(text: Text<'_>, offset: usize, bytes: usize, row: Row) {
    let mut stream = [0; ROW_BYTES / 8];
    // SAFETY: the words have as many bytes as a row.
    unsafe { _mm256_storeu_si256(stream.as_mut_ptr().cast(), row) };
    let (_, rest) = text.split_at(offset);
    rest.split_at(bytes).0.add_words(&stream);
}

/// A word from memory everywhere, by one instruction: the compiler would load several words at once
/// and take them apart by two or three each.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn splat_from<const INDEX: usize>(words: &[u32; 4]) -> Row {
    const { assert!(INDEX < 4) };
    let row;
    // SAFETY: reads one of the words and touches no other memory.
    unsafe {
        asm!(
            "vpbroadcastd {}, dword ptr [{} + 4*{}]",
            out(ymm_reg) row,
            in(reg) words,
            const INDEX,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    row
}

/// Rotations of words. Those by whole bytes are moves, whose orders lie in the frame beside what is
/// spilled: anywhere else they would, in some processes, have the same address in a page as a word
/// that is spilled, and wait for it.
#[repr(C, align(32))]
pub(super) struct Rotations {
    /// Where each byte comes from.
    pub(super) by_16: [u128; 2],
    pub(super) by_8: [u128; 2],
}

/// Moves the bytes of a row by one instruction, for which the compiler would put two, with an order
/// that stays in memory.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn move_bytes(row: Row, order: &[u128; 2]) -> Row {
    let mut moved = row;
    // SAFETY: reads the order of bytes and touches no other memory.
    unsafe {
        asm!(
            "vpshufb {0}, {0}, ymmword ptr [{1}]",
            inout(ymm_reg) moved,
            in(reg) order,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    moved
}

impl Rotations {
    #[inline]
    pub(super) fn here() -> Self {
        Rotations {
            by_16: [0x0d0c_0f0e_0908_0b0a_0504_0706_0100_0302; 2],
            by_8: [0x0e0d_0c0f_0a09_080b_0605_0407_0201_0003; 2],
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    fn by_16(&self, row: Row) -> Row {
        move_bytes(row, &self.by_16)
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    fn by_12(&self, row: Row) -> Row {
        _mm256_or_si256(_mm256_slli_epi32::<12>(row), _mm256_srli_epi32::<20>(row))
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    fn by_8(&self, row: Row) -> Row {
        move_bytes(row, &self.by_8)
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    fn by_7(&self, row: Row) -> Row {
        _mm256_or_si256(_mm256_slli_epi32::<7>(row), _mm256_srli_epi32::<25>(row))
    }
}
