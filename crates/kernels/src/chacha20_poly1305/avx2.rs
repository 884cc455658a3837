//! Room avx2 of chacha20_poly1305: two blocks to a row, and scalar Poly1305. Secret-independent.
#![allow(unsafe_code, reason = "room: door, loads and intrinsics")]

use core::arch::asm;
use core::arch::x86_64 as arch;
use core::mem::{transmute, zeroed};

use widelane_cpu::Avx2;
use widelane_secret::wipe_ymm_registers;

use super::abreast::{self, ABREAST};
use super::chunk::{double_round_of_words, words_after, words_before};
use super::engine::{self, Engine, Pieces};
use super::poly1305::ScalarGroup;
use super::rounds::{after_rounds, before_rounds, double_round};
use super::rows::{Row, Running, SETS, Set, Steps};
use super::woven::{Frame, absorb_blocks, absorb_bytes, blocks_beside, rounds_beside, rounds_for};
use super::{BLOCK_BYTES, DOUBLE_ROUNDS, Key, Message, NONCE_BYTES, Poly1305, Ways};
use crate::registers::Register;
use crate::text::{Direction, Text};

doors!(Avx2Row, Avx2);

row256!(Avx2Row, Avx2, features = "avx2,bmi2", wipe = wipe_ymm_registers);

impl Engine for Avx2Row {
    const FEW_REGISTERS: bool = true;
    const OPENINGS: [usize; 2] = [SETS, 1 + SETS];

    type Running = Woven;

    /// A chunk, or one behind a set.
    #[inline(always)]
    fn opening<const COUNT: usize>(
        room: Avx2,
        key: &Key,
        nonce: &[u8; NONCE_BYTES],
    ) -> [Set<Self>; COUNT] {
        let rotations = Self::rotations();
        let mut sets = [[Self::splat(room, 0); 4]; COUNT];
        if COUNT == SETS {
            let mut words = words_before::<Self>(room, key, nonce, 0);
            for _ in 0..DOUBLE_ROUNDS {
                double_round_of_words(&mut words, &rotations);
            }
            sets.copy_from_slice(&words_after(&words, &words_before(room, key, nonce, 0)));
            return sets;
        }
        let before = before_rounds::<Self, 1>(room, key, nonce, 0);
        let mut states = before;
        let mut words = words_before::<Self>(room, key, nonce, Self::BLOCKS as u32);
        for _ in 0..DOUBLE_ROUNDS {
            double_round_of_words(&mut words, &rotations);
            double_round(&mut states, &rotations);
        }
        [sets[0]] = after_rounds(states, &before);
        let before = words_before::<Self>(room, key, nonce, Self::BLOCKS as u32);
        sets[1..].copy_from_slice(&words_after(&words, &before));
        sets
    }

    #[inline(always)]
    fn chunk_beside(
        room: Avx2,
        key: &Key,
        nonce: &[u8; NONCE_BYTES],
        counter: u32,
        running: &mut Woven,
        groups: &[ScalarGroup],
    ) -> [Set<Self>; SETS] {
        let (blocks, _) = groups.as_flattened().as_chunks();
        let rounds = rounds_for(blocks.len()).min(DOUBLE_ROUNDS);
        let (first, beside) = blocks.split_at(blocks.len() - blocks_beside(rounds));
        // SAFETY: the token exists only where the machine has every feature of the room.
        unsafe { absorb_blocks(&mut running.0, first) };
        let mut frame = Frame::new(words_before(room, key, nonce, counter));
        // SAFETY: as above.
        let words = unsafe { rounds_beside(&mut frame, &mut running.0, beside) };
        words_after(&words, &frame.before)
    }

    /// First come the first halves of all blocks: there are not registers for both.
    #[inline(always)]
    fn crypt_chunk(
        room: Avx2,
        key: &Key,
        nonce: &[u8; NONCE_BYTES],
        counter: u32,
        chunk: Text<'_>,
        running: &mut Woven,
        groups: &[ScalarGroup],
    ) {
        let mut frame = Frame::new(words_before(room, key, nonce, counter));
        let (blocks, _) = groups.as_flattened().as_chunks();
        let beside = blocks.as_array::<{ blocks_beside(DOUBLE_ROUNDS) }>();
        let beside = beside.expect("a chunk of groups");
        // SAFETY: the token exists only where the machine has every feature of the room.
        let words = unsafe { rounds_beside(&mut frame, &mut running.0, beside) };
        let [first, mut second] = *words.as_chunks().0 else { unreachable!("two halves") };
        let [before_first, before_second] = frame.before.as_chunks().0 else {
            unreachable!("two halves")
        };
        add_halves(0, &first, before_first, chunk);
        // SAFETY: touches `second` at most, which the compiler has to leave in memory until here.
        unsafe { asm!("/* {} */", in(reg) &raw mut second, options(nostack, preserves_flags)) }
        add_halves(1, &second, before_second, chunk);
    }
}

/// Adds one half of each block of a chunk to a text, which one half of the words make.
#[inline(always)]
fn add_halves(half: usize, words: &[Avx2Row; 8], before: &[Avx2Row; 8], chunk: Text<'_>) {
    let mut sums = *words;
    for (sum, before) in sums.iter_mut().zip(before) {
        *sum = sum.add(*before);
    }
    let [a, b, c, d, e, f, g, h] = sums;
    let (lefts, rights) = (Avx2Row::transpose([a, b, c, d]), Avx2Row::transpose([e, f, g, h]));
    for (column, (left, right)) in lefts.into_iter().zip(rights).enumerate() {
        let [first, _, second, _] = Avx2Row::in_order([left, right, left, right]);
        for (block, row) in [(column, first), (column + 4, second)] {
            let offset = block * BLOCK_BYTES + half * Avx2Row::ROW_BYTES;
            Avx2Row::read(row.1, chunk, offset).xor(row).write(chunk, offset);
        }
    }
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
fn move_bytes(row: arch::__m256i, order: &[u128; 2]) -> arch::__m256i {
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

/// A word from memory everywhere, by one instruction: the compiler would load several words at once
/// and take them apart by two or three each.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn splat_from<const INDEX: usize>(words: &[u32; 4]) -> arch::__m256i {
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

/// Adds the first bytes of a row to a text. Not inlined, so that its callers stay short.
#[inline(never)]
#[target_feature(enable = "avx2,bmi2")]
fn add_part(text: Text<'_>, offset: usize, bytes: usize, row: arch::__m256i) {
    let mut stream = [0; Avx2Row::ROW_BYTES / 8];
    // SAFETY: the words have as many bytes as a row.
    unsafe { arch::_mm256_storeu_si256(stream.as_mut_ptr().cast(), row) };
    let (_, rest) = text.split_at(offset);
    rest.split_at(bytes).0.add_words(&stream);
}

impl Steps for Avx2Row {
    type Rotations = Rotations;

    #[inline(always)]
    fn rotations() -> Rotations {
        Rotations {
            by_16: [0x0d0c_0f0e_0908_0b0a_0504_0706_0100_0302; 2],
            by_8: [0x0e0d_0c0f_0a09_080b_0605_0407_0201_0003; 2],
        }
    }

    #[inline(always)]
    fn rotate<const BITS: i32>(self, rotations: &Rotations) -> Self {
        let order = match BITS {
            16 => &rotations.by_16,
            8 => &rotations.by_8,
            _ => return self.shl(BITS as u32).or(self.shr(32 - BITS as u32)),
        };
        // SAFETY: a register holds the token of its room.
        Avx2Row(unsafe { move_bytes(self.0, order) }, self.1)
    }

    #[inline(always)]
    fn splat_from<const INDEX: usize>(room: Avx2, words: &[u32; 4]) -> Self {
        // SAFETY: the token exists only where the machine has every feature of the room.
        Avx2Row(unsafe { splat_from::<INDEX>(words) }, room)
    }

    #[inline(always)]
    fn add_part(self, text: Text<'_>, offset: usize, bytes: usize) {
        // SAFETY: a register holds the token of its room.
        unsafe { add_part(text, offset, bytes, self.0) }
    }
}

/// Poly1305 as [`woven`](super::woven) has it where nothing goes beside.
pub(super) struct Woven(Poly1305);

impl Running<Avx2> for Woven {
    type Group = ScalarGroup;

    #[inline(always)]
    fn groups(bytes: &[u8]) -> &[ScalarGroup] {
        bytes.as_chunks().0
    }

    #[inline(always)]
    fn begin(_room: Avx2, poly: &Poly1305) -> Self {
        Woven(poly.clone())
    }

    #[inline(always)]
    fn absorb_first(&mut self, blocks: &[u8]) {
        // SAFETY: made from a token, which exists only where the machine has every feature.
        unsafe { absorb_bytes(&mut self.0, blocks) }
    }

    #[inline(always)]
    fn absorb_groups(&mut self, groups: &[ScalarGroup]) {
        // SAFETY: as above.
        unsafe { absorb_blocks(&mut self.0, groups.as_flattened().as_chunks().0) }
    }

    #[inline(always)]
    fn end(&self, poly: &mut Poly1305) {
        poly.clone_from(&self.0);
    }

    #[inline(always)]
    fn authenticate(_room: Avx2, poly: &mut Poly1305, bytes: &[u8]) {
        // SAFETY: the token exists only where the machine has every feature of the room.
        unsafe { absorb_bytes(poly, bytes) }
    }
}
