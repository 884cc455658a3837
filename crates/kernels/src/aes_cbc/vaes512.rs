//! Room vaes512 of aes_cbc: four blocks per instruction, of one text that is decrypted or of four
//! that are encrypted. Secret-independent.
#![allow(unsafe_code, reason = "room: doors, loads and stores")]

use core::arch::x86_64::*;
use core::hint::black_box;

use widelane_cpu::Vaes512;
use widelane_secret::{wipe, wipe_vector_registers as wipe_registers};

use super::{BLOCK_BYTES, Block, Key, KeyBytes, ROUND_KEYS_MAX, chain};
use crate::text::{Text, rows_of_text};

/// Blocks of a row.
const BLOCKS: usize = 4;
/// Rows at a time: enough to hide the latency of an AES round.
const ROWS: usize = 8;

/// Texts that a row encrypts.
pub const LANES: usize = BLOCKS;

type Row = __m512i;

cbc_doors! {
    Vaes512,
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
}

/// The round keys of all lanes, side by side; wiped when dropped.
#[repr(C, align(64))]
pub struct LaneKeys<const LANE_ROWS: usize> {
    rounds: [[[[u64; 2]; LANES]; LANE_ROWS]; ROUND_KEYS_MAX],
}

impl<const LANE_ROWS: usize> Default for LaneKeys<LANE_ROWS> {
    fn default() -> Self {
        LaneKeys { rounds: [[[[0; 2]; LANES]; LANE_ROWS]; ROUND_KEYS_MAX] }
    }
}

impl<const LANE_ROWS: usize> LaneKeys<LANE_ROWS> {
    /// Gives a lane its key.
    pub fn set(&mut self, lane: usize, key: &Key) {
        for (lanes, round_key) in self.rounds.iter_mut().zip(&key.encrypt) {
            lanes.as_flattened_mut()[lane] = *round_key;
        }
    }

    /// Gives a lane the key of another one.
    pub fn copy(&mut self, from: usize, to: usize) {
        for lanes in &mut self.rounds {
            lanes.as_flattened_mut().copy_within(from..=from, to);
        }
    }
}

impl<const LANE_ROWS: usize> Drop for LaneKeys<LANE_ROWS> {
    fn drop(&mut self) {
        self.rounds.iter_mut().for_each(|lanes| wipe(lanes.as_flattened_mut().as_flattened_mut()));
    }
}

/// Encrypts the first `blocks` blocks of each lane's text behind its block of `last`, and leaves
/// the last one there. All keys have `rounds` rounds. Rows of lanes hide the latency of one
/// another: four where a round is done every cycle, eight where two are.
///
/// A lane that is not in use takes key, block and text of another one.
///
/// # Panics
///
/// Panics if a text is shorter.
pub fn encrypt_lanes<const LANE_ROWS: usize>(
    _room: Vaes512,
    keys: &LaneKeys<LANE_ROWS>,
    rounds: usize,
    last: &mut [[Block; LANES]; LANE_ROWS],
    texts: &[[Text<'_>; LANES]; LANE_ROWS],
    blocks: usize,
) {
    // SAFETY: the token exists only if every feature of its room was detected.
    unsafe { encrypt_lanes_body(keys, rounds, last, texts, blocks) }
}

#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn encrypt_lanes_body<const LANE_ROWS: usize>(
    keys: &LaneKeys<LANE_ROWS>,
    rounds: usize,
    last: &mut [[Block; LANES]; LANE_ROWS],
    texts: &[[Text<'_>; LANES]; LANE_ROWS],
    blocks: usize,
) {
    match rounds {
        10 => encrypt_lanes_by::<10, LANE_ROWS>(keys, last, texts, blocks),
        12 => encrypt_lanes_by::<12, LANE_ROWS>(keys, last, texts, blocks),
        _ => encrypt_lanes_by::<14, LANE_ROWS>(keys, last, texts, blocks),
    }
    wipe_registers();
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn encrypt_lanes_by<const ROUNDS: usize, const LANE_ROWS: usize>(
    keys: &LaneKeys<LANE_ROWS>,
    last: &mut [[Block; LANES]; LANE_ROWS],
    texts: &[[Text<'_>; LANES]; LANE_ROWS],
    blocks: usize,
) {
    let mut states = [_mm512_setzero_si512(); LANE_ROWS];
    for (state, last) in states.iter_mut().zip(&*last) {
        // SAFETY: the blocks are as many as a row has.
        *state = unsafe { _mm512_loadu_si512(last.as_ptr().cast()) };
    }
    for block in 0..blocks {
        // So that the compiler reads keys where they are, and does not copy them all to the stack.
        let (keys, offset) = (black_box(keys), block * BLOCK_BYTES);
        for (row, state) in states.iter_mut().enumerate() {
            let plain = gather(&texts[row], offset);
            *state = add(*state, add(plain, lane_keys(keys, 0, row)));
        }
        for round in 1..ROUNDS {
            for (row, state) in states.iter_mut().enumerate() {
                *state = _mm512_aesenc_epi128(*state, lane_keys(keys, round, row));
            }
        }
        for (row, state) in states.iter_mut().enumerate() {
            *state = _mm512_aesenclast_epi128(*state, lane_keys(keys, ROUNDS, row));
            scatter(&texts[row], offset, *state);
        }
    }
    for (state, last) in states.iter().zip(last) {
        // SAFETY: the blocks are as many as a row has.
        unsafe { _mm512_storeu_si512(last.as_mut_ptr().cast(), *state) };
    }
}

/// The keys of one round for a row of lanes.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn lane_keys<const LANE_ROWS: usize>(keys: &LaneKeys<LANE_ROWS>, round: usize, row: usize) -> Row {
    // SAFETY: the keys are as many bytes as a row has.
    unsafe { _mm512_loadu_si512(keys.rounds[round][row].as_ptr().cast()) }
}

/// A block of each of four texts.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn gather(texts: &[Text<'_>; BLOCKS], offset: usize) -> Row {
    let load = |lane: usize| {
        let source = texts[lane].source(offset, BLOCK_BYTES);
        // SAFETY: `source` names as many readable bytes as a block has.
        unsafe { _mm_loadu_si128(source.cast()) }
    };
    let row = _mm512_zextsi128_si512(load(0));
    let row = _mm512_inserti32x4::<1>(row, load(1));
    let row = _mm512_inserti32x4::<2>(row, load(2));
    _mm512_inserti32x4::<3>(row, load(3))
}

/// Writes a block to each of four texts.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn scatter(texts: &[Text<'_>; BLOCKS], offset: usize, row: Row) {
    let store = |lane: usize, block| {
        let target = texts[lane].target(offset, BLOCK_BYTES);
        // SAFETY: `target` names as many writable bytes as a block has.
        unsafe { _mm_storeu_si128(target.cast(), block) }
    };
    store(0, _mm512_castsi512_si128(row));
    store(1, _mm512_extracti32x4_epi32::<1>(row));
    store(2, _mm512_extracti32x4_epi32::<2>(row));
    store(3, _mm512_extracti32x4_epi32::<3>(row));
}

/// What is less than a row: up to three blocks.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn rest(key: &Key, last: &mut Block, text: Text<'_>) {
    let bytes = text.len() / BLOCK_BYTES * BLOCK_BYTES;
    if bytes == 0 {
        return;
    }
    text.map(|blocks: &mut [u8; ROW_BYTES]| {
        let ciphertext = *blocks;
        rows::<1>(key, first_row(last), Text::in_place(blocks));
        last.copy_from_slice(&ciphertext[bytes - BLOCK_BYTES..bytes]);
    });
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn first_row(last: &Block) -> Row {
    _mm512_inserti32x4::<3>(_mm512_setzero_si512(), chain::from_bytes(last))
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn last_block(row: Row) -> Block {
    chain::to_bytes(_mm512_extracti32x4_epi32::<3>(row))
}

/// The blocks in front of those of a row.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn behind(before: Row, row: Row) -> Row {
    _mm512_alignr_epi64::<6>(row, before)
}

rows_of_text! {
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")],
    load = _mm512_loadu_si512, store = _mm512_storeu_si512
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn broadcast(round_key: &[u64; 2]) -> Row {
    _mm512_broadcast_i32x4(chain::register(round_key))
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn add(left: Row, right: Row) -> Row {
    _mm512_xor_si512(left, right)
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn decrypt_round(state: Row, round_key: Row) -> Row {
    _mm512_aesdec_epi128(state, round_key)
}

#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn decrypt_last(state: Row, round_key: Row) -> Row {
    _mm512_aesdeclast_epi128(state, round_key)
}
