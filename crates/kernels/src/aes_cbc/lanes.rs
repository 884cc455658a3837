//! Room vaes512 of aes_cbc: four texts per instruction, each with a key of its own, encrypted alone
//! or while they are hashed. Secret-independent.
//!
//! A round of a hash in lanes is many instructions, and a block of the cipher is few that wait for
//! one another: beside each quarter of a block of the hash goes one block of the cipher.
#![allow(unsafe_code, reason = "room: door, loads, stores and intrinsics")]

use core::arch::x86_64 as arch;
use core::hint::black_box;
use core::marker::PhantomData;
use core::ptr::{null, null_mut};

use widelane_cpu::Vaes512;
use widelane_secret::{wipe, wipe_vector_registers};

use super::{BLOCK_BYTES, Block, HASH_BLOCK_BYTES, Key, ROUND_KEYS_MAX};
use crate::hash::{self, Beside, Hash, States};
use crate::text::Text;
use crate::words::{Task, Words, in_pieces};

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
    let mut chains = Chains::begin(room, keys, last, texts, blocks);
    for _ in 0..blocks {
        chains.step();
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
    if in_pieces::<W>() {
        encrypt_hashed_by::<H, W, LANE_ROWS, true>(room, keys, last, states, ahead, texts, blocks);
    } else {
        encrypt_hashed_by::<H, W, LANE_ROWS, false>(room, keys, last, states, ahead, texts, blocks);
    }
}

/// As [`encrypt_hashed`], with blocks that come to the hash in pieces or by words.
pub(super) fn encrypt_hashed_by<H, W, const LANE_ROWS: usize, const PIECES: bool>(
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
    let stitched = Stitched::<_, _, _, PIECES> { keys, last, states, ahead, texts, blocks, hash };
    W::call(room, stitched);
}

struct Stitched<'a, H, W: Words, const LANE_ROWS: usize, const PIECES: bool> {
    keys: &'a LaneKeys<LANE_ROWS>,
    last: &'a mut [[Block; LANES]; LANE_ROWS],
    states: &'a mut States<W>,
    ahead: usize,
    texts: &'a [[Text<'a>; LANES]; LANE_ROWS],
    blocks: usize,
    hash: PhantomData<H>,
}

impl<H, W, const LANE_ROWS: usize, const PIECES: bool> Task<W>
    for Stitched<'_, H, W, LANE_ROWS, PIECES>
where
    H: Hash<W>,
    W: Words<Word = u32, Room = Vaes512>,
{
    type Output = ();
    const FEEDS: bool = true;

    #[inline(always)]
    fn run(self, room: Vaes512) {
        let Stitched { keys, last, states, ahead, texts, blocks, .. } = self;
        let mut state = hash::load(room, states);
        let encrypted = blocks * (HASH_BLOCK_BYTES / BLOCK_BYTES);
        let mut chains = Chains::begin(room, keys, last, texts, encrypted);
        let (messages, beside) = (texts.as_flattened(), &mut chains);
        hash::compress_fed::<H, W, PIECES>(room, &mut state, messages, ahead, blocks, beside);
        hash::store(&state, states);
        chains.end(last);
    }
}

/// A block of the cipher goes beside each quarter of a block of the hash.
impl<const LANE_ROWS: usize> Beside for Chains<'_, LANE_ROWS> {
    #[inline(always)]
    fn quarter(&mut self) {
        self.step();
    }
}

const _: () = assert!(HASH_BLOCK_BYTES == 4 * BLOCK_BYTES, "each quarter has its block");

/// A chain of blocks under encryption in each lane: the last blocks, made from the room's token.
struct Chains<'a, const LANE_ROWS: usize> {
    keys: &'a LaneKeys<LANE_ROWS>,
    rows: [Row; LANE_ROWS],
    /// Where the blocks of each lane are read and written.
    sources: [[*const u8; LANES]; LANE_ROWS],
    targets: [[*mut u8; LANES]; LANE_ROWS],
    /// Bytes that can be read and written there, and how many are done.
    bytes: usize,
    done: usize,
    room: Vaes512,
}

impl<'a, const LANE_ROWS: usize> Chains<'a, LANE_ROWS> {
    /// Begins `blocks` blocks behind the blocks `last`.
    ///
    /// # Panics
    ///
    /// Panics if a text is shorter.
    #[inline(always)]
    fn begin(
        room: Vaes512,
        keys: &'a LaneKeys<LANE_ROWS>,
        last: &[[Block; LANES]; LANE_ROWS],
        texts: &[[Text<'a>; LANES]; LANE_ROWS],
        blocks: usize,
    ) -> Self {
        let bytes = blocks * BLOCK_BYTES;
        let (mut sources, mut targets) =
            ([[null(); LANES]; LANE_ROWS], [[null_mut(); LANES]; LANE_ROWS]);
        for ((sources, targets), texts) in sources.iter_mut().zip(&mut targets).zip(texts) {
            for ((source, target), text) in sources.iter_mut().zip(targets).zip(texts) {
                (*source, *target) = (text.source(0, bytes), text.target(0, bytes));
            }
        }
        let mut rows = [intrinsic!(_mm512_setzero_si512()); LANE_ROWS];
        for (row, last) in rows.iter_mut().zip(last) {
            // SAFETY: the blocks are as many as a row has.
            *row = unsafe { arch::_mm512_loadu_si512(last.as_ptr().cast()) };
        }
        Chains { keys, rows, sources, targets, bytes, done: 0, room }
    }

    /// Encrypts the next block of each text.
    ///
    /// # Panics
    ///
    /// Panics if all of them are done.
    #[inline(always)]
    fn step(&mut self) {
        let offset = self.done;
        assert!(offset < self.bytes, "there is a block to encrypt");
        self.done += BLOCK_BYTES;
        // So that the compiler reads keys where they are, and does not copy them all to the stack.
        let LaneKeys { keys, rounds } = black_box(self.keys);
        for ((row, sources), keys) in self.rows.iter_mut().zip(&self.sources).zip(&keys[0]) {
            // SAFETY: each source names as many bytes as all blocks, of which this is one.
            let plain = unsafe { gather(self.room, sources, offset) };
            *row = intrinsic!(_mm512_ternarylogic_epi64::<0x96>(*row, plain, row_of(keys)));
        }
        for keys in &keys[1..*rounds] {
            for (row, keys) in self.rows.iter_mut().zip(keys) {
                *row = intrinsic!(_mm512_aesenc_epi128(*row, row_of(keys)));
            }
        }
        for ((row, targets), keys) in self.rows.iter_mut().zip(&self.targets).zip(&keys[*rounds]) {
            *row = intrinsic!(_mm512_aesenclast_epi128(*row, row_of(keys)));
            // SAFETY: as for the sources.
            unsafe { scatter(self.room, targets, offset, *row) };
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
///
/// # Safety
///
/// Each source names a block at `offset` that can be read.
#[inline(always)]
unsafe fn gather(_room: Vaes512, sources: &[*const u8; LANES], offset: usize) -> Row {
    // SAFETY: see above.
    let load =
        |lane: usize| unsafe { arch::_mm_loadu_si128(sources[lane].wrapping_add(offset).cast()) };
    let row = intrinsic!(_mm512_zextsi128_si512(load(0)));
    let row = intrinsic!(_mm512_inserti32x4::<1>(row, load(1)));
    let row = intrinsic!(_mm512_inserti32x4::<2>(row, load(2)));
    intrinsic!(_mm512_inserti32x4::<3>(row, load(3)))
}

/// Writes a block to each of four texts.
///
/// # Safety
///
/// Each target names a block at `offset` that can be written.
#[inline(always)]
unsafe fn scatter(_room: Vaes512, targets: &[*mut u8; LANES], offset: usize, row: Row) {
    // SAFETY: see above.
    let store = |lane: usize, block| unsafe {
        arch::_mm_storeu_si128(targets[lane].wrapping_add(offset).cast(), block);
    };
    store(0, intrinsic!(_mm512_castsi512_si128(row)));
    store(1, intrinsic!(_mm512_extracti32x4_epi32::<1>(row)));
    store(2, intrinsic!(_mm512_extracti32x4_epi32::<2>(row)));
    store(3, intrinsic!(_mm512_extracti32x4_epi32::<3>(row)));
}
