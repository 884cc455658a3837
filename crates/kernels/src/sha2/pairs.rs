//! SHA-512 of one message, two blocks at a time: the text of the rooms that do it in vectors.
//! Secret-independent.
//!
//! The rounds are a chain in plain registers; the schedules of both blocks are computed beside that
//! of the first, two words of each in a ymm register (Gueron and Krasnov, "Parallelizing message
//! schedules to accelerate the computations of hash functions", 2012). Two
//! words of a schedule need none that is made with them, of which four of one block would need two.
#![allow(unsafe_code, reason = "room: loads and stores")]

use core::arch::asm;
use core::arch::x86_64::*;

use super::{Member, ROUNDS_64, Sha512, choice};
use crate::hash::{STATE_WORDS, each_word};
use crate::registers::Register;
use crate::words::{BLOCK_WORDS, Words};

/// Bytes of a block.
pub(super) const BLOCK_BYTES: usize = 128;

/// Words that a register has of each block.
const ROW_WORDS: usize = 2;

/// Registers that sixteen words of both schedules fill.
pub(super) const ROWS: usize = BLOCK_WORDS / ROW_WORDS;

/// Sixteen constants.
type Constants = [[u64; ROW_WORDS]; ROWS];

/// The constants of all rounds.
pub(super) const CONSTANTS: &[Constants] = ROUNDS_64.as_chunks().0.as_chunks().0;

/// Words of stack that are cleared behind all blocks: all sums, and what registers did not hold.
pub(super) const SPILLED_WORDS: usize = 240;

/// The variables of the rounds.
pub(super) type Variables = [u64; STATE_WORDS];

/// Sixteen sums of words and constants of each block.
type Group = [[[u64; ROW_WORDS]; 2]; ROWS];

/// All sums of words and constants, on their way from vectors to plain registers.
#[repr(align(32))]
pub(super) struct Sums(pub(super) [Group; ROUNDS_64.len() / BLOCK_WORDS]);

impl Sums {
    pub(super) const ZERO: Self = Sums([[[[0; ROW_WORDS]; 2]; ROWS]; _]);
}

/// Puts the sums of a row of both schedules in their place.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
pub(super) fn put(sums: &mut Group, row: usize, words: __m256i, constants: &Constants) {
    // SAFETY: the constants are as many words as half a register has.
    let constants = unsafe { _mm_loadu_si128(constants[row].as_ptr().cast()) };
    let sum = _mm256_add_epi64(words, _mm256_broadcastsi128_si256(constants));
    // SAFETY: the sums are as many words as a register has.
    unsafe { _mm256_storeu_si256(sums[row].as_mut_ptr().cast(), sum) };
}

/// Adds one of the sums to a word, from memory: left to itself, the compiler takes the words out of
/// the vectors one by one, which costs more than it saves.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn add_sum<const ROW: usize, const BLOCK: usize, const PLACE: usize>(
    sums: &Group,
    word: u64,
) -> u64 {
    const { assert!(ROW < ROWS && BLOCK < 2 && PLACE < ROW_WORDS) };
    let mut sum = word;
    // SAFETY: reads one of the sums and touches no other memory.
    unsafe {
        asm!(
            "add {0}, qword ptr [{1} + {2}]",
            inout(reg) sum,
            in(reg) sums,
            const ((ROW * 2 + BLOCK) * ROW_WORDS + PLACE) * size_of::<u64>(),
            options(pure, readonly, nostack),
        );
    }
    sum
}

/// The two rounds of one block that a row is for.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
pub(super) fn two_rounds<const ROW: usize, const BLOCK: usize>(
    variables: Variables,
    sums: &Group,
) -> Variables {
    let mut variables = variables;
    each_word!(PLACE => {
        let [a, b, c, d, e, f, g, h] = variables;
        // What is there first is added first, and nothing is added twice: the rounds are bound by
        // how many additions there are before they are by how they wait for each other.
        let early = apart(add_sum::<ROW, BLOCK, PLACE>(sums, h).add(choice(e, f, g)));
        let sum = apart(early.add(Sha512::big1(e)));
        let next_a = apart(apart(sum.add(a.majority(b, c))).add(Sha512::big0(a)));
        variables = [next_a, a, b, c, apart(d.add(sum)), e, f, g];
    }, 0 1);
    variables
}

/// The word itself, so that the compiler does not take its sum apart to add in another order.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn apart(word: u64) -> u64 {
    let mut word = word;
    // SAFETY: an empty block changes no state.
    unsafe { asm!("/* {0} */", inout(reg) word, options(pure, nomem, nostack, preserves_flags)) };
    word
}

/// The words of two blocks, two of each in a register.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
pub(super) fn load(first: &[u8; BLOCK_BYTES], second: &[u8; BLOCK_BYTES]) -> [__m256i; ROWS] {
    let order = _mm_set_epi64x(0x0809_0a0b_0c0d_0e0f, 0x0001_0203_0405_0607);
    let order = _mm256_broadcastsi128_si256(order);
    let mut words = [order; ROWS];
    let bytes = first.as_chunks::<16>().0.iter().zip(second.as_chunks::<16>().0);
    for (words, (first, second)) in words.iter_mut().zip(bytes) {
        // SAFETY: the bytes are as many as half a register has.
        let first = unsafe { _mm_loadu_si128(first.as_ptr().cast()) };
        // SAFETY: as above.
        let second = unsafe { _mm_loadu_si128(second.as_ptr().cast()) };
        *words = _mm256_shuffle_epi8(_mm256_set_m128i(second, first), order);
    }
    words
}

/// Defines the door of a room and what is behind it, with the functions σ0 and σ1 of the room.
macro_rules! pairs_of_blocks {
    ($token:ident, features = $features:literal, wipe = $wipe:ident) => {
        /// Adds blocks to the state of one message.
        pub fn compress(
            _room: $token,
            state: &mut [u64; STATE_WORDS],
            blocks: &[[u8; BLOCK_BYTES]],
        ) {
            // SAFETY: the token exists only if every feature of its room was detected.
            unsafe { compress_body(state, blocks) }
            // SAFETY: as above.
            unsafe { wipe_spilled() }
        }

        #[target_feature(enable = $features)]
        #[inline(never)]
        fn wipe_spilled() {
            wipe_frame::<SPILLED_WORDS>();
        }

        #[target_feature(enable = $features)]
        #[inline(never)]
        fn compress_body(state: &mut [u64; STATE_WORDS], blocks: &[[u8; BLOCK_BYTES]]) {
            let (first, others) = CONSTANTS.split_first().expect("five groups");
            let mut sums = Sums::ZERO;
            for pair in blocks.chunks(2) {
                // A last one without another goes beside itself.
                let mut rows = load(&pair[0], &pair[pair.len() - 1]);
                each_word!(ROW => put(&mut sums.0[0], ROW, rows[ROW], first), 0 1 2 3 4 5 6 7);
                let mut variables = *state;
                for (group, constants) in others.iter().enumerate() {
                    let (done, next) = sums.0.split_at_mut(group + 1);
                    let (now, next) = (&done[group], &mut next[0]);
                    each_word!(ROW => {
                        variables = two_rounds::<ROW, 0>(variables, now);
                        rows[ROW] = next_row::<ROW>(&rows);
                        put(next, ROW, rows[ROW], constants);
                    }, 0 1 2 3 4 5 6 7);
                }
                let last = &sums.0[others.len()];
                each_word!(ROW => {
                    variables = two_rounds::<ROW, 0>(variables, last);
                }, 0 1 2 3 4 5 6 7);
                add(state, variables);
                if pair.len() == 2 {
                    let mut variables = *state;
                    for group in &sums.0 {
                        each_word!(ROW => {
                            variables = two_rounds::<ROW, 1>(variables, group);
                        }, 0 1 2 3 4 5 6 7);
                    }
                    add(state, variables);
                }
            }
            $wipe();
        }

        /// The row behind the last eight, of which the one in place `ROW` is the oldest.
        #[inline]
        #[target_feature(enable = $features)]
        fn next_row<const ROW: usize>(rows: &[__m256i; ROWS]) -> __m256i {
            let row = |later| rows[(ROW + later) % ROWS];
            let one_later = _mm256_alignr_epi8::<8>(row(1), row(0));
            let nine_later = _mm256_alignr_epi8::<8>(row(5), row(4));
            let sum = _mm256_add_epi64(_mm256_add_epi64(row(0), nine_later), small0(one_later));
            _mm256_add_epi64(sum, small1(row(7)))
        }
    };
}
pub(super) use pairs_of_blocks;

/// Adds the variables behind all rounds to a state.
#[inline]
pub(super) fn add(state: &mut [u64; STATE_WORDS], variables: Variables) {
    for (word, variable) in state.iter_mut().zip(variables) {
        *word = word.wrapping_add(variable);
    }
}
