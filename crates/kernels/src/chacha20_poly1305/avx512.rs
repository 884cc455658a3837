//! Room avx512 of chacha20_poly1305: four blocks to a row, and scalar Poly1305. Secret-independent.
#![allow(unsafe_code, reason = "room: door, loads and intrinsics")]

use core::arch::x86_64 as arch;
use core::mem::{transmute, zeroed};

use widelane_cpu::Avx512;
use widelane_secret::wipe_vector_registers;

use super::abreast::{self, ABREAST};
use super::chunk::{
    double_round_of_words, half_of_columns, half_of_diagonals, words_after, words_before,
};
use super::engine::{self, Engine, Pieces};
use super::poly1305::ScalarGroup;
use super::rows::{Row, SETS, Set, Steps};
use super::{
    BLOCK_BYTES, DOUBLE_ROUNDS, Key, Message, NONCE_BYTES, Pace, Poly1305, TAG_BYTES, Ways,
};
use crate::registers::{Register, Task};
use crate::text::{Direction, Text};

doors!(Avx512Row, Avx512);

row512!(Avx512Row, Avx512, features = "avx512f,avx512dq,avx512vl,avx512bw,bmi2");

impl Engine for Avx512Row {
    type Running = Poly1305;

    /// The groups of a whole chunk go in three places of each double round, others one after the
    /// other as the rounds go. A block waits for the one before: of more than two in one place the
    /// core does not see the rounds behind.
    #[inline(always)]
    fn chunk_beside(
        room: Avx512,
        key: &Key,
        nonce: &[u8; NONCE_BYTES],
        counter: u32,
        running: &mut Poly1305,
        groups: &[ScalarGroup],
    ) -> [Set<Self>; SETS] {
        let Some(groups) = groups.as_array::<{ CHUNK_BLOCKS / GROUP_BLOCKS }>() else {
            return Self::call(room, ChunkAtPace { key, nonce, counter, running, groups });
        };
        // Of its own, and not in memory between two places.
        let mut sum = running.h;
        let mut words = words_before::<Self>(room, key, nonce, counter);
        let (blocks, _) = groups.as_flattened().as_chunks();
        let (beside_rounds, rest) = blocks.as_chunks::<{ 3 * THIRD }>();
        for beside_round in beside_rounds {
            let (first, others) = beside_round.split_at(THIRD);
            let (second, third) = others.split_at(THIRD);
            half_of_columns::<16, 12, Self>(&mut words, &());
            sum = running.after_blocks(sum, first);
            half_of_columns::<8, 7, Self>(&mut words, &());
            half_of_diagonals::<16, 12, Self>(&mut words, &());
            sum = running.after_blocks(sum, second);
            half_of_diagonals::<8, 7, Self>(&mut words, &());
            sum = running.after_blocks(sum, third);
        }
        running.h = running.after_blocks(sum, rest);
        words_after(&words, &words_before(room, key, nonce, counter))
    }
}

const CHUNK_BLOCKS: usize = Avx512Row::CHUNK_BYTES / TAG_BYTES;
const GROUP_BLOCKS: usize = size_of::<ScalarGroup>() / TAG_BYTES;

/// Blocks of a whole chunk that go with a third of a double round.
const THIRD: usize = CHUNK_BLOCKS / DOUBLE_ROUNDS / 3;
const _: () = assert!(CHUNK_BLOCKS / THIRD / 3 == DOUBLE_ROUNDS);

/// A chunk beside any number of groups. A task of its own, so that the registers of whole chunks
/// are given out without a look at it.
struct ChunkAtPace<'a> {
    key: &'a Key,
    nonce: &'a [u8; NONCE_BYTES],
    counter: u32,
    running: &'a mut Poly1305,
    groups: &'a [ScalarGroup],
}

impl Task<Avx512Row> for ChunkAtPace<'_> {
    type Output = [Set<Avx512Row>; SETS];

    #[inline(always)]
    fn run(self, room: Avx512) -> [Set<Avx512Row>; SETS] {
        let ChunkAtPace { key, nonce, counter, running, groups } = self;
        let mut words = words_before(room, key, nonce, counter);
        let mut pace = Pace::new(groups);
        for _ in 0..DOUBLE_ROUNDS {
            double_round_of_words::<Avx512Row>(&mut words, &());
            running.absorb_blocks(pace.due().as_flattened().as_chunks().0);
        }
        words_after(&words, &words_before(room, key, nonce, counter))
    }
}
