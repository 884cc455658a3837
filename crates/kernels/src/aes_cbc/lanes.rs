//! Rooms vaes512 and vaes256 of aes_cbc: four texts per instruction or two, each with a key of its
//! own, encrypted alone or, in vaes512, while they are hashed. Secret-independent.
//!
//! A round of a hash in lanes is many instructions, and a block of the cipher is few that wait for
//! one another: beside each quarter of a block of the hash goes one block of the cipher.
#![allow(unsafe_code, reason = "room: door, loads, stores and intrinsics")]

use core::arch::x86_64 as arch;
use core::hint::black_box;
use core::marker::PhantomData;
use core::ptr::{null, null_mut};

use widelane_cpu::{Vaes256, Vaes512};
use widelane_secret::{wipe, wipe_vector_registers, wipe_ymm_registers};

use super::{BLOCK_BYTES, Block, HASH_BLOCK_BYTES, Key, ROUND_KEYS_MAX};
use crate::hash::{self, Beside, Hash, States};
use crate::registers::Task;
use crate::text::Text;
use crate::words::{Words, in_pieces};

/// Texts that a row encrypts.
pub const LANES: usize = 4;

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
    run::<arch::__m512i, LANE_ROWS>(room, keys, last, texts, blocks);
    wipe_vector_registers();
}

/// As [`encrypt`], in registers of half the width, of which a row takes two.
///
/// # Panics
///
/// As [`encrypt`].
pub fn encrypt_in_halves<const LANE_ROWS: usize>(
    room: Vaes256,
    keys: &LaneKeys<LANE_ROWS>,
    last: &mut [[Block; LANES]; LANE_ROWS],
    texts: &[[Text<'_>; LANES]; LANE_ROWS],
    blocks: usize,
) {
    // SAFETY: as above.
    unsafe { encrypt_in_halves_body(room, keys, last, texts, blocks) }
}

#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx2")]
fn encrypt_in_halves_body<const LANE_ROWS: usize>(
    room: Vaes256,
    keys: &LaneKeys<LANE_ROWS>,
    last: &mut [[Block; LANES]; LANE_ROWS],
    texts: &[[Text<'_>; LANES]; LANE_ROWS],
    blocks: usize,
) {
    run::<Halves, LANE_ROWS>(room, keys, last, texts, blocks);
    wipe_ymm_registers();
}

#[inline(always)]
fn run<R: Row, const LANE_ROWS: usize>(
    room: R::Room,
    keys: &LaneKeys<LANE_ROWS>,
    last: &mut [[Block; LANES]; LANE_ROWS],
    texts: &[[Text<'_>; LANES]; LANE_ROWS],
    blocks: usize,
) {
    let mut chains = Chains::<R, LANE_ROWS>::begin(room, keys, last, texts, blocks);
    for _ in 0..blocks {
        chains.step();
    }
    chains.end(last);
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
    if const { W::MAY_TAKE_PIECES } && in_pieces() {
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
    W::call_and_wipe::<true, _>(room, stitched);
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

    #[inline(always)]
    fn run(self, room: Vaes512) {
        let Stitched { keys, last, states, ahead, texts, blocks, .. } = self;
        let mut state = hash::load(room, states);
        let encrypted = blocks * (HASH_BLOCK_BYTES / BLOCK_BYTES);
        let mut chains =
            Chains::<arch::__m512i, LANE_ROWS>::begin(room, keys, last, texts, encrypted);
        let (messages, beside) = (texts.as_flattened(), &mut chains);
        hash::compress_fed::<H, W, PIECES>(room, &mut state, messages, ahead, blocks, beside);
        hash::store(&state, states);
        chains.end(last);
    }
}

/// A block of the cipher goes beside each quarter of a block of the hash.
impl<const LANE_ROWS: usize> Beside for Chains<'_, arch::__m512i, LANE_ROWS> {
    #[inline(always)]
    fn quarter(&mut self) {
        self.step();
    }
}

const _: () = assert!(HASH_BLOCK_BYTES == 4 * BLOCK_BYTES, "each quarter has its block");

/// A chain of blocks under encryption in each lane: the last blocks, made from the room's token.
struct Chains<'a, R: Row, const LANE_ROWS: usize> {
    keys: &'a LaneKeys<LANE_ROWS>,
    rows: [R; LANE_ROWS],
    /// Where the blocks of each lane are read and written.
    sources: [[*const u8; LANES]; LANE_ROWS],
    targets: [[*mut u8; LANES]; LANE_ROWS],
    /// Bytes that can be read and written there, and how many are done.
    bytes: usize,
    done: usize,
    room: R::Room,
}

impl<'a, R: Row, const LANE_ROWS: usize> Chains<'a, R, LANE_ROWS> {
    /// Begins `blocks` blocks behind the blocks `last`.
    ///
    /// # Panics
    ///
    /// Panics if a text is shorter.
    #[inline(always)]
    fn begin(
        room: R::Room,
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
        let mut rows = [R::load(room, &[[0; BLOCK_BYTES]; LANES]); LANE_ROWS];
        for (row, last) in rows.iter_mut().zip(last) {
            *row = R::load(room, last);
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
        let (room, offset) = (self.room, self.done);
        assert!(offset < self.bytes, "there is a block to encrypt");
        self.done += BLOCK_BYTES;
        // So that the compiler reads keys where they are, and does not copy them all to the stack.
        let LaneKeys { keys, rounds } = black_box(self.keys);
        for ((row, sources), keys) in self.rows.iter_mut().zip(&self.sources).zip(&keys[0]) {
            // SAFETY: each source names as many bytes as all blocks, of which this is one.
            let plain = unsafe { R::gather(room, sources, offset) };
            *row = row.plus(plain, R::keys(room, keys));
        }
        for keys in &keys[1..*rounds] {
            for (row, keys) in self.rows.iter_mut().zip(keys) {
                *row = row.round(R::keys(room, keys));
            }
        }
        for ((row, targets), keys) in self.rows.iter_mut().zip(&self.targets).zip(&keys[*rounds]) {
            *row = row.last_round(R::keys(room, keys));
            // SAFETY: as for the sources.
            unsafe { row.scatter(targets, offset) };
        }
    }

    /// Leaves the last blocks in `last`.
    #[inline(always)]
    fn end(self, last: &mut [[Block; LANES]; LANE_ROWS]) {
        for (row, last) in self.rows.iter().zip(last) {
            row.store(last);
        }
    }
}

/// A block of each of four texts, in registers of a room whose token made them.
trait Row: Copy {
    type Room: Copy;

    fn load(room: Self::Room, blocks: &[Block; LANES]) -> Self;

    fn store(self, blocks: &mut [Block; LANES]);

    /// The keys of one round.
    fn keys(room: Self::Room, keys: &[[u64; 2]; LANES]) -> Self;

    /// The sum with plaintext and first keys.
    fn plus(self, plain: Self, keys: Self) -> Self;

    fn round(self, keys: Self) -> Self;

    fn last_round(self, keys: Self) -> Self;

    /// A block of each text.
    ///
    /// # Safety
    ///
    /// Each source names a block at `offset` that can be read.
    unsafe fn gather(room: Self::Room, sources: &[*const u8; LANES], offset: usize) -> Self;

    /// Writes a block to each text.
    ///
    /// # Safety
    ///
    /// Each target names a block at `offset` that can be written.
    unsafe fn scatter(self, targets: &[*mut u8; LANES], offset: usize);
}

impl Row for arch::__m512i {
    type Room = Vaes512;

    #[inline(always)]
    fn load(_room: Vaes512, blocks: &[Block; LANES]) -> Self {
        // SAFETY: the blocks are as many bytes as a row has.
        unsafe { arch::_mm512_loadu_si512(blocks.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(self, blocks: &mut [Block; LANES]) {
        // SAFETY: as for `load`.
        unsafe { arch::_mm512_storeu_si512(blocks.as_mut_ptr().cast(), self) };
    }

    #[inline(always)]
    fn keys(_room: Vaes512, keys: &[[u64; 2]; LANES]) -> Self {
        // SAFETY: the keys are as many bytes as a row has.
        unsafe { arch::_mm512_loadu_si512(keys.as_ptr().cast()) }
    }

    #[inline(always)]
    fn plus(self, plain: Self, keys: Self) -> Self {
        intrinsic!(_mm512_ternarylogic_epi64::<0x96>(self, plain, keys))
    }

    #[inline(always)]
    fn round(self, keys: Self) -> Self {
        intrinsic!(_mm512_aesenc_epi128(self, keys))
    }

    #[inline(always)]
    fn last_round(self, keys: Self) -> Self {
        intrinsic!(_mm512_aesenclast_epi128(self, keys))
    }

    #[inline(always)]
    unsafe fn gather(_room: Vaes512, sources: &[*const u8; LANES], offset: usize) -> Self {
        // SAFETY: as the caller vouches.
        let load = |lane: usize| unsafe {
            arch::_mm_loadu_si128(sources[lane].wrapping_add(offset).cast())
        };
        let row = intrinsic!(_mm512_zextsi128_si512(load(0)));
        let row = intrinsic!(_mm512_inserti32x4::<1>(row, load(1)));
        let row = intrinsic!(_mm512_inserti32x4::<2>(row, load(2)));
        intrinsic!(_mm512_inserti32x4::<3>(row, load(3)))
    }

    #[inline(always)]
    unsafe fn scatter(self, targets: &[*mut u8; LANES], offset: usize) {
        // SAFETY: as the caller vouches.
        let store = |lane: usize, block| unsafe {
            arch::_mm_storeu_si128(targets[lane].wrapping_add(offset).cast(), block);
        };
        store(0, intrinsic!(_mm512_castsi512_si128(self)));
        store(1, intrinsic!(_mm512_extracti32x4_epi32::<1>(self)));
        store(2, intrinsic!(_mm512_extracti32x4_epi32::<2>(self)));
        store(3, intrinsic!(_mm512_extracti32x4_epi32::<3>(self)));
    }
}

/// A row in two registers.
type Halves = [arch::__m256i; 2];

impl Row for Halves {
    type Room = Vaes256;

    #[inline(always)]
    fn load(_room: Vaes256, blocks: &[Block; LANES]) -> Self {
        let [low, high] = [&blocks[..2], &blocks[2..]];
        // SAFETY: two blocks are as many bytes as a register has.
        let load = |two: &[Block]| unsafe { arch::_mm256_loadu_si256(two.as_ptr().cast()) };
        [load(low), load(high)]
    }

    #[inline(always)]
    fn store(self, blocks: &mut [Block; LANES]) {
        let (low, high) = blocks.split_at_mut(2);
        // SAFETY: as for `load`.
        let store = |two: &mut [Block], half| unsafe {
            arch::_mm256_storeu_si256(two.as_mut_ptr().cast(), half);
        };
        store(low, self[0]);
        store(high, self[1]);
    }

    #[inline(always)]
    fn keys(_room: Vaes256, keys: &[[u64; 2]; LANES]) -> Self {
        let [low, high] = [&keys[..2], &keys[2..]];
        // SAFETY: two keys are as many bytes as a register has.
        let load = |two: &[[u64; 2]]| unsafe { arch::_mm256_loadu_si256(two.as_ptr().cast()) };
        [load(low), load(high)]
    }

    #[inline(always)]
    fn plus(self, plain: Self, keys: Self) -> Self {
        let plus = |half: usize| {
            let sum = intrinsic!(_mm256_xor_si256(plain[half], keys[half]));
            intrinsic!(_mm256_xor_si256(self[half], sum))
        };
        [plus(0), plus(1)]
    }

    #[inline(always)]
    fn round(self, keys: Self) -> Self {
        let round = |half: usize| intrinsic!(_mm256_aesenc_epi128(self[half], keys[half]));
        [round(0), round(1)]
    }

    #[inline(always)]
    fn last_round(self, keys: Self) -> Self {
        let round = |half: usize| intrinsic!(_mm256_aesenclast_epi128(self[half], keys[half]));
        [round(0), round(1)]
    }

    #[inline(always)]
    unsafe fn gather(_room: Vaes256, sources: &[*const u8; LANES], offset: usize) -> Self {
        // SAFETY: as the caller vouches.
        let load = |lane: usize| unsafe {
            arch::_mm_loadu_si128(sources[lane].wrapping_add(offset).cast())
        };
        let half = |lane: usize| {
            let low = intrinsic!(_mm256_castsi128_si256(load(lane)));
            intrinsic!(_mm256_inserti128_si256::<1>(low, load(lane + 1)))
        };
        [half(0), half(2)]
    }

    #[inline(always)]
    unsafe fn scatter(self, targets: &[*mut u8; LANES], offset: usize) {
        // SAFETY: as the caller vouches.
        let store = |lane: usize, block| unsafe {
            arch::_mm_storeu_si128(targets[lane].wrapping_add(offset).cast(), block);
        };
        for (lane, half) in [(0, self[0]), (2, self[1])] {
            store(lane, intrinsic!(_mm256_castsi256_si128(half)));
            store(lane + 1, intrinsic!(_mm256_extracti128_si256::<1>(half)));
        }
    }
}
