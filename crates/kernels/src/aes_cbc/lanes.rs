//! Room vaes512 of aes_cbc: four texts per instruction, each with a key of its own, encrypted alone
//! or while they are hashed. Secret-independent.
//!
//! A round of a hash in lanes is many instructions, and a block of the cipher is few that wait for
//! one another: beside each quarter of a block of the hash goes one block of the cipher.
#![allow(unsafe_code, reason = "room: door, loads, stores and intrinsics")]

use core::arch::x86_64 as arch;
use core::hint::black_box;
use core::marker::PhantomData;

use widelane_cpu::Vaes512;
use widelane_secret::{wipe, wipe_vector_registers};

use super::{BLOCK_BYTES, Block, HASH_BLOCK_BYTES, Key, ROUND_KEYS_MAX};
use crate::hash::{self, Beside, Hash, States};
use crate::text::Text;
use crate::words::{Task, Words};

/// Texts that a row encrypts.
pub const LANES: usize = 4;

type Row = arch::__m512i;

/// The round keys of all lanes, side by side; wiped when dropped.
#[repr(C, align(64))]
pub struct LaneKeys<const LANE_ROWS: usize> {
    keys: [[[[u64; 2]; LANES]; LANE_ROWS]; ROUND_KEYS_MAX],
    rounds: usize,
}

impl<const LANE_ROWS: usize> Default for LaneKeys<LANE_ROWS> {
    fn default() -> Self {
        LaneKeys { keys: [[[[0; 2]; LANES]; LANE_ROWS]; ROUND_KEYS_MAX], rounds: 0 }
    }
}

impl<const LANE_ROWS: usize> LaneKeys<LANE_ROWS> {
    /// Gives a lane its key, which has as many rounds as those of the others.
    pub fn set(&mut self, lane: usize, key: &Key) {
        self.rounds = key.rounds;
        for (lanes, round_key) in self.keys.iter_mut().zip(&key.encrypt) {
            lanes.as_flattened_mut()[lane] = *round_key;
        }
    }

    /// Gives a lane the key of another one.
    pub fn copy(&mut self, from: usize, to: usize) {
        for lanes in &mut self.keys {
            lanes.as_flattened_mut().copy_within(from..=from, to);
        }
    }
}

impl<const LANE_ROWS: usize> Drop for LaneKeys<LANE_ROWS> {
    fn drop(&mut self) {
        self.keys.iter_mut().for_each(|lanes| wipe(lanes.as_flattened_mut().as_flattened_mut()));
    }
}

/// Encrypts the first `blocks` blocks of each lane's text behind its block of `last`, and leaves
/// the last one there. Rows of lanes hide the latency of one another: four where a round is done
/// every cycle, eight where two are.
///
/// A lane that is not in use takes key, block and text of another one.
///
/// # Panics
///
/// Panics if a text is shorter.
pub fn encrypt<const LANE_ROWS: usize>(
    room: Vaes512,
    keys: &LaneKeys<LANE_ROWS>,
    last: &mut [[Block; LANES]; LANE_ROWS],
    texts: &[[Text<'_>; LANES]; LANE_ROWS],
    blocks: usize,
) {
    // SAFETY: the token exists only if every feature of its room was detected.
    unsafe { encrypt_body(room, keys, last, texts, blocks) }
}

#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn encrypt_body<const LANE_ROWS: usize>(
    room: Vaes512,
    keys: &LaneKeys<LANE_ROWS>,
    last: &mut [[Block; LANES]; LANE_ROWS],
    texts: &[[Text<'_>; LANES]; LANE_ROWS],
    blocks: usize,
) {
    let mut chains = Chains::begin(room, keys, last);
    for block in 0..blocks {
        chains.step(texts, block * BLOCK_BYTES);
    }
    chains.end(last);
    wipe_vector_registers();
}

/// Encrypts the first `blocks` blocks of the hash of each lane's text behind its block of `last`,
/// and leaves the last one there, while it adds as many blocks from byte `ahead` on to its state.
///
/// A lane that is not in use takes key, block and text of another one.
///
/// # Panics
///
/// Panics if a text is shorter.
pub fn encrypt_hashed<H, W, const LANE_ROWS: usize>(
    room: Vaes512,
    keys: &LaneKeys<LANE_ROWS>,
    last: &mut [[Block; LANES]; LANE_ROWS],
    states: &mut States<W>,
    ahead: usize,
    texts: &[[Text<'_>; LANES]; LANE_ROWS],
    blocks: usize,
) where
    H: Hash<W>,
    W: Words<Word = u32, Room = Vaes512>,
{
    const { assert!(W::LANES == LANE_ROWS * LANES, "each lane is hashed and encrypted") };
    let hash = PhantomData::<H>;
    W::call(room, Stitched { keys, last, states, ahead, texts, blocks, hash });
}

struct Stitched<'a, H, W: Words, const LANE_ROWS: usize> {
    keys: &'a LaneKeys<LANE_ROWS>,
    last: &'a mut [[Block; LANES]; LANE_ROWS],
    states: &'a mut States<W>,
    ahead: usize,
    texts: &'a [[Text<'a>; LANES]; LANE_ROWS],
    blocks: usize,
    hash: PhantomData<H>,
}

impl<H, W, const LANE_ROWS: usize> Task<W> for Stitched<'_, H, W, LANE_ROWS>
where
    H: Hash<W>,
    W: Words<Word = u32, Room = Vaes512>,
{
    type Output = ();
    const FEEDS: bool = true;

    #[inline(always)]
    fn run(self, room: Vaes512) {
        let mut state = hash::load(room, self.states);
        let chains = Chains::begin(room, self.keys, self.last);
        let messages = self.texts.as_flattened();
        let mut step = Step { chains, texts: self.texts, offset: 0 };
        hash::compress_fed::<H, W>(room, &mut state, messages, self.ahead, self.blocks, &mut step);
        hash::store(&state, self.states);
        step.chains.end(self.last);
    }
}

/// The blocks of the cipher from byte `offset` on, one beside each quarter of a block of the hash.
struct Step<'a, const LANE_ROWS: usize> {
    chains: Chains<'a, LANE_ROWS>,
    texts: &'a [[Text<'a>; LANES]; LANE_ROWS],
    offset: usize,
}

impl<const LANE_ROWS: usize> Beside for Step<'_, LANE_ROWS> {
    #[inline(always)]
    fn quarter(&mut self) {
        self.chains.step(self.texts, self.offset);
        self.offset += BLOCK_BYTES;
    }
}

const _: () = assert!(HASH_BLOCK_BYTES == 4 * BLOCK_BYTES, "each quarter has its block");

/// A chain of blocks under encryption in each lane: the last blocks, made from the room's token.
struct Chains<'a, const LANE_ROWS: usize> {
    keys: &'a LaneKeys<LANE_ROWS>,
    rows: [Row; LANE_ROWS],
    room: Vaes512,
}

impl<'a, const LANE_ROWS: usize> Chains<'a, LANE_ROWS> {
    /// Begins behind the blocks `last`.
    #[inline(always)]
    fn begin(
        room: Vaes512,
        keys: &'a LaneKeys<LANE_ROWS>,
        last: &[[Block; LANES]; LANE_ROWS],
    ) -> Self {
        let mut rows = [intrinsic!(_mm512_setzero_si512()); LANE_ROWS];
        for (row, last) in rows.iter_mut().zip(last) {
            // SAFETY: the blocks are as many as a row has.
            *row = unsafe { arch::_mm512_loadu_si512(last.as_ptr().cast()) };
        }
        Chains { keys, rows, room }
    }

    /// Encrypts a block of each text.
    #[inline(always)]
    fn step(&mut self, texts: &[[Text<'_>; LANES]; LANE_ROWS], offset: usize) {
        // So that the compiler reads keys where they are, and does not copy them all to the stack.
        let LaneKeys { keys, rounds } = black_box(self.keys);
        for ((row, texts), keys) in self.rows.iter_mut().zip(texts).zip(&keys[0]) {
            let plain = gather(self.room, texts, offset);
            *row = intrinsic!(_mm512_ternarylogic_epi64::<0x96>(*row, plain, row_of(keys)));
        }
        for keys in &keys[1..*rounds] {
            for (row, keys) in self.rows.iter_mut().zip(keys) {
                *row = intrinsic!(_mm512_aesenc_epi128(*row, row_of(keys)));
            }
        }
        for ((row, texts), keys) in self.rows.iter_mut().zip(texts).zip(&keys[*rounds]) {
            *row = intrinsic!(_mm512_aesenclast_epi128(*row, row_of(keys)));
            scatter(self.room, texts, offset, *row);
        }
    }

    /// Leaves the last blocks in `last`.
    #[inline(always)]
    fn end(self, last: &mut [[Block; LANES]; LANE_ROWS]) {
        for (row, last) in self.rows.iter().zip(last) {
            // SAFETY: the blocks are as many as a row has.
            unsafe { arch::_mm512_storeu_si512(last.as_mut_ptr().cast(), *row) };
        }
    }
}

/// The keys of one round for a row of lanes.
#[inline(always)]
fn row_of(keys: &[[u64; 2]; LANES]) -> Row {
    // SAFETY: the keys are as many bytes as a row has.
    unsafe { arch::_mm512_loadu_si512(keys.as_ptr().cast()) }
}

/// A block of each of four texts.
#[inline(always)]
fn gather(_room: Vaes512, texts: &[Text<'_>; LANES], offset: usize) -> Row {
    let load = |lane: usize| {
        let source = texts[lane].source(offset, BLOCK_BYTES);
        // SAFETY: `source` names as many readable bytes as a block has.
        unsafe { arch::_mm_loadu_si128(source.cast()) }
    };
    let row = intrinsic!(_mm512_zextsi128_si512(load(0)));
    let row = intrinsic!(_mm512_inserti32x4::<1>(row, load(1)));
    let row = intrinsic!(_mm512_inserti32x4::<2>(row, load(2)));
    intrinsic!(_mm512_inserti32x4::<3>(row, load(3)))
}

/// Writes a block to each of four texts.
#[inline(always)]
fn scatter(_room: Vaes512, texts: &[Text<'_>; LANES], offset: usize, row: Row) {
    let store = |lane: usize, block| {
        let target = texts[lane].target(offset, BLOCK_BYTES);
        // SAFETY: `target` names as many writable bytes as a block has.
        unsafe { arch::_mm_storeu_si128(target.cast(), block) }
    };
    store(0, intrinsic!(_mm512_castsi512_si128(row)));
    store(1, intrinsic!(_mm512_extracti32x4_epi32::<1>(row)));
    store(2, intrinsic!(_mm512_extracti32x4_epi32::<2>(row)));
    store(3, intrinsic!(_mm512_extracti32x4_epi32::<3>(row)));
}
