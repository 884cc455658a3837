//! Room avx2 of sha2: SHA-512 of one message, its schedule four words at a time.
//! Secret-independent.
//!
//! The rounds are a chain in plain registers; the schedule is computed beside it in others
//! (Gueron and Krasnov, "Parallelizing message schedules to accelerate the computations of hash
//! functions", 2012).
#![allow(unsafe_code, reason = "room: door, loads and stores")]

use core::arch::asm;
use core::arch::x86_64::*;

use widelane_cpu::Avx2;
use widelane_secret::{wipe, wipe_ymm_registers};

use super::{Member, ROUNDS_64, Sha512, choice};
use crate::hash::{STATE_WORDS, each_word};
use crate::words::{BLOCK_WORDS, Words};

/// Bytes of a block.
const BLOCK_BYTES: usize = 128;

/// Words of a register.
const ROW_WORDS: usize = 4;

/// Registers that sixteen words of the schedule fill.
const ROWS: usize = BLOCK_WORDS / ROW_WORDS;

/// The variables of the rounds.
type Variables = [u64; STATE_WORDS];

/// Adds blocks to the state of one message.
pub fn compress(_room: Avx2, state: &mut [u64; STATE_WORDS], blocks: &[[u8; BLOCK_BYTES]]) {
    // SAFETY: the token exists only if every feature of its room was detected.
    unsafe { compress_body(state, blocks) }
}

#[target_feature(enable = "avx2,bmi2")]
fn compress_body(state: &mut [u64; STATE_WORDS], blocks: &[[u8; BLOCK_BYTES]]) {
    let (first, groups) =
        ROUNDS_64.as_chunks::<BLOCK_WORDS>().0.split_first().expect("five groups");
    let mut sums = Sums([0; BLOCK_WORDS]);
    for block in blocks {
        let mut schedule = load(block);
        each_word!(ROW => sums.put(ROW, schedule[ROW], first), 0 1 2 3);
        let mut variables = *state;
        for constants in groups {
            each_word!(ROW => {
                variables = four_rounds::<ROW>(variables, &sums);
                let [a, b, c, d] = schedule;
                let next = next_row(a, b, c, d);
                sums.put(ROW, next, constants);
                schedule = [b, c, d, next];
            }, 0 1 2 3);
        }
        each_word!(ROW => variables = four_rounds::<ROW>(variables, &sums), 0 1 2 3);
        for (word, variable) in state.iter_mut().zip(variables) {
            *word = word.wrapping_add(variable);
        }
    }
    wipe(&mut sums.0);
    wipe_ymm_registers();
}

/// The sums of words and constants of sixteen rounds, on their way from vectors to plain registers.
#[repr(align(32))]
struct Sums([u64; BLOCK_WORDS]);

impl Sums {
    /// Puts four words of the schedule in their place.
    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    fn put(&mut self, row: usize, words: __m256i, constants: &[u64; BLOCK_WORDS]) {
        let constants = &constants.as_chunks::<ROW_WORDS>().0[row];
        let sums = &mut self.0.as_chunks_mut::<ROW_WORDS>().0[row];
        // SAFETY: the constants are as many words as a register has.
        let constants = unsafe { _mm256_loadu_si256(constants.as_ptr().cast()) };
        let sum = _mm256_add_epi64(words, constants);
        // SAFETY: the sums are as many words as a register has.
        unsafe { _mm256_storeu_si256(sums.as_mut_ptr().cast(), sum) };
    }

    /// Adds one of the sums to a word, from memory: left to itself, the compiler takes the words
    /// out of the vectors one by one, which costs more than it saves.
    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    fn add_to<const ROW: usize, const PLACE: usize>(&self, word: u64) -> u64 {
        const { assert!(ROW < ROWS && PLACE < ROW_WORDS) };
        let mut sum = word;
        // SAFETY: reads one of the sums and touches no other memory.
        unsafe {
            asm!(
                "add {0}, qword ptr [{1} + {2}]",
                inout(reg) sum,
                in(reg) self,
                const (ROW * ROW_WORDS + PLACE) * size_of::<u64>(),
                options(pure, readonly, nostack),
            );
        }
        sum
    }
}

#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn four_rounds<const ROW: usize>(variables: Variables, sums: &Sums) -> Variables {
    let mut variables = variables;
    each_word!(PLACE => {
        let [a, b, c, d, e, f, g, h] = variables;
        // What is there first is added first, since the next round waits for e and then for a.
        let (word, choice) = (sums.add_to::<ROW, PLACE>(h), choice(e, f, g));
        let ahead = apart(apart(d.add(word)).add(choice));
        let sum = apart(word.add(choice).add(a.majority(b, c)));
        let sum = apart(sum.add(Sha512::big0(a)));
        let late = Sha512::big1(e);
        variables = [sum.add(late), a, b, c, ahead.add(late), e, f, g];
    }, 0 1 2 3);
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

/// The words of a block.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn load(block: &[u8; BLOCK_BYTES]) -> [__m256i; ROWS] {
    let order = _mm_set_epi64x(0x0809_0a0b_0c0d_0e0f, 0x0001_0203_0405_0607);
    let order = _mm256_broadcastsi128_si256(order);
    let mut words = [order; ROWS];
    for (words, bytes) in words.iter_mut().zip(block.as_chunks::<32>().0) {
        // SAFETY: the bytes are as many as a register has.
        let loaded = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
        *words = _mm256_shuffle_epi8(loaded, order);
    }
    words
}

/// The four words behind sixteen.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn next_row(a: __m256i, b: __m256i, c: __m256i, d: __m256i) -> __m256i {
    let sum = _mm256_add_epi64(a, small0(one_later(a, b)));
    let sum = _mm256_add_epi64(sum, one_later(c, d));
    // σ1 of the last two words makes the first two, and these the others.
    let zero = _mm256_setzero_si256();
    let low = small1(_mm256_permute4x64_epi64::<0xee>(d));
    let sum = _mm256_add_epi64(sum, _mm256_blend_epi32::<0x0f>(zero, low));
    let high = small1(_mm256_permute4x64_epi64::<0x44>(sum));
    _mm256_add_epi64(sum, _mm256_blend_epi32::<0xf0>(zero, high))
}

/// The words of a register but for the first, and the first of the next register.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn one_later(words: __m256i, next: __m256i) -> __m256i {
    _mm256_permute4x64_epi64::<0x39>(_mm256_blend_epi32::<0x03>(words, next))
}

/// The function σ0.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn small0(x: __m256i) -> __m256i {
    let one = _mm256_xor_si256(_mm256_srli_epi64::<1>(x), _mm256_slli_epi64::<63>(x));
    let eight = _mm256_xor_si256(_mm256_srli_epi64::<8>(x), _mm256_slli_epi64::<56>(x));
    _mm256_xor_si256(_mm256_xor_si256(one, eight), _mm256_srli_epi64::<7>(x))
}

/// The function σ1.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn small1(x: __m256i) -> __m256i {
    let nineteen = _mm256_xor_si256(_mm256_srli_epi64::<19>(x), _mm256_slli_epi64::<45>(x));
    let sixty_one = _mm256_xor_si256(_mm256_srli_epi64::<61>(x), _mm256_slli_epi64::<3>(x));
    _mm256_xor_si256(_mm256_xor_si256(nineteen, sixty_one), _mm256_srli_epi64::<6>(x))
}
