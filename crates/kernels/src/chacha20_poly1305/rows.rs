//! Rows of blocks for the rooms of chacha20_poly1305, in registers of either width.
#![allow(unsafe_code, reason = "text of rooms: intrinsics behind safe methods, loads and stores")]

use super::{BLOCK_BYTES, Poly1305, TAG_BYTES};
use crate::registers::Register;
use crate::text::Text;

/// Four rows: the state of `BLOCKS` blocks.
pub(super) type Set<R> = [R; 4];

/// Sets on the way at a time: sixteen registers, as many as a block has words.
pub(super) const SETS: usize = 4;

/// A row: a register with four words of the state of each of `BLOCKS` blocks.
pub(super) trait Row: Register<Word = u32> {
    /// Blocks of a row.
    const BLOCKS: usize = Self::LANES / 4;
    /// Bytes of a row.
    const ROW_BYTES: usize = 16 * Self::BLOCKS;
    /// Rows that a block fills.
    const ROWS_OF_BLOCK: usize = BLOCK_BYTES / Self::ROW_BYTES;
    /// Bytes of a set: whole blocks.
    const SET_BYTES: usize = 4 * Self::ROW_BYTES;
    /// Bytes of a chunk.
    const CHUNK_BYTES: usize = SETS * Self::SET_BYTES;

    /// The row at `offset` of a text.
    fn read(room: Self::Room, text: Text<'_>, offset: usize) -> Self;

    /// Stores the row at `offset` of a text.
    fn write(self, text: Text<'_>, offset: usize);

    /// The first block of a set that is in order.
    fn first_block(set: Set<Self>) -> [u8; BLOCK_BYTES];

    /// Four words in all blocks.
    fn broadcast(room: Self::Room, words: &[u32; 4]) -> Self;

    /// The last row some blocks later.
    fn count(self, blocks: u32) -> Self;

    /// Numbers the blocks of a last row.
    fn count_blocks(self) -> Self;

    /// 0, 1, 2 and so on.
    fn numbers(room: Self::Room) -> Self;

    /// Moves the words of each block around.
    fn turn<const ORDER: i32>(self) -> Self;

    /// Transposes each quarter of four registers, word by word.
    fn transpose(set: Set<Self>) -> Set<Self>;

    /// Brings the rows of each block together.
    fn in_order(set: Set<Self>) -> Set<Self>;
}

/// What AVX-512 has instructions for, and room `avx2` does in a way of its own.
pub(super) trait Steps: Row {
    /// What rotations have in memory.
    type Rotations;

    /// The same, in the frame of the caller.
    fn rotations() -> Self::Rotations;

    /// Each word rotated left.
    fn rotate<const BITS: i32>(self, rotations: &Self::Rotations) -> Self;

    /// A word from memory everywhere.
    fn splat_from<const INDEX: usize>(room: Self::Room, words: &[u32; 4]) -> Self;

    /// Adds the first bytes of the row to a text.
    fn add_part(self, text: Text<'_>, offset: usize, bytes: usize);
}

/// An authenticator on its way through a text, group by group.
pub(super) trait Running<Room>: Sized {
    /// The blocks of a group, which are absorbed at a time.
    type Group;
    /// Bytes of a group.
    const GROUP_BYTES: usize = size_of::<Self::Group>();

    /// The whole groups of some bytes.
    fn groups(bytes: &[u8]) -> &[Self::Group];

    /// Goes on where `poly` stands.
    fn begin(room: Room, poly: &Poly1305) -> Self;

    /// Takes the first blocks: up to a group of them.
    fn absorb_first(&mut self, blocks: &[u8]);

    /// Takes groups one after the other.
    fn absorb_groups(&mut self, groups: &[Self::Group]);

    /// Brings the sum back to where it came from.
    fn end(&self, poly: &mut Poly1305);

    /// Adds blocks to `poly`; the last one is filled up with zeros.
    fn authenticate(room: Room, poly: &mut Poly1305, bytes: &[u8]);

    /// Bytes of the first group of a text of whole blocks, so that the others are whole.
    #[inline(always)]
    fn first_bytes(bytes: usize) -> usize {
        (bytes - TAG_BYTES) % Self::GROUP_BYTES + TAG_BYTES
    }
}

/// Implements [`Row`] for a new register, by these intrinsics.
macro_rules! row {
    (
        $row:ident: $words:tt of u32 in $class:ident, $token:ident,
        features = $features:literal, wipe = $wipe:ident,
        load = $load:ident, store = $store:ident, broadcast = $broadcast:ident,
        shuffle = $shuffle:ident,
        unpack32 = ($low32:ident, $high32:ident), unpack64 = ($low64:ident, $high64:ident),
        numbers = $numbers:expr, blocks = $blocks:expr,
        in_order = |$a:ident, $b:ident, $c:ident, $d:ident| $in_order:expr,
    ) => {
        register! {
            $row: $words of u32 in $class, $token, features = $features, wipe = $wipe
        }

        impl Row for $row {
            #[inline(always)]
            fn read(room: $token, text: Text<'_>, offset: usize) -> Self {
                let source = text.source(offset, Self::ROW_BYTES);
                // SAFETY: `source` names as many readable bytes as a row has.
                $row(unsafe { arch::$load(source.cast()) }, room)
            }

            #[inline(always)]
            fn write(self, text: Text<'_>, offset: usize) {
                let target = text.target(offset, Self::ROW_BYTES);
                // SAFETY: `target` names as many writable bytes as a row has.
                unsafe { arch::$store(target.cast(), self.0) }
            }

            #[inline(always)]
            fn first_block(set: Set<Self>) -> [u8; BLOCK_BYTES] {
                let mut block = [0; BLOCK_BYTES];
                for (bytes, row) in block.as_chunks_mut::<{ 4 * $words }>().0.iter_mut().zip(set) {
                    // SAFETY: the bytes are as many as a row has.
                    unsafe { arch::$store(bytes.as_mut_ptr().cast(), row.0) };
                }
                block
            }

            #[inline(always)]
            fn broadcast(room: $token, words: &[u32; 4]) -> Self {
                let [w0, w1, w2, w3] = *words;
                let words = intrinsic!(_mm_set_epi32(
                    w3.cast_signed(),
                    w2.cast_signed(),
                    w1.cast_signed(),
                    w0.cast_signed()
                ));
                $row(intrinsic!($broadcast(words)), room)
            }

            #[inline(always)]
            fn count(self, blocks: u32) -> Self {
                let blocks = intrinsic!(_mm_cvtsi32_si128(blocks.cast_signed()));
                self.add($row(intrinsic!($broadcast(blocks)), self.1))
            }

            #[inline(always)]
            fn count_blocks(self) -> Self {
                self.add(Self::load(self.1, &$blocks))
            }

            #[inline(always)]
            fn numbers(room: $token) -> Self {
                Self::load(room, &$numbers)
            }

            #[inline(always)]
            fn turn<const ORDER: i32>(self) -> Self {
                // SAFETY: a register holds the token of its room.
                $row(unsafe { arch::$shuffle::<ORDER>(self.0) }, self.1)
            }

            #[inline(always)]
            fn transpose([a, b, c, d]: Set<Self>) -> Set<Self> {
                let room = a.1;
                let (ab_low, ab_high) =
                    (intrinsic!($low32(a.0, b.0)), intrinsic!($high32(a.0, b.0)));
                let (cd_low, cd_high) =
                    (intrinsic!($low32(c.0, d.0)), intrinsic!($high32(c.0, d.0)));
                [
                    $row(intrinsic!($low64(ab_low, cd_low)), room),
                    $row(intrinsic!($high64(ab_low, cd_low)), room),
                    $row(intrinsic!($low64(ab_high, cd_high)), room),
                    $row(intrinsic!($high64(ab_high, cd_high)), room),
                ]
            }

            #[inline(always)]
            fn in_order([$a, $b, $c, $d]: Set<Self>) -> Set<Self> {
                let room = $a.1;
                let [a, b, c, d] = {
                    let ($a, $b, $c, $d) = ($a.0, $b.0, $c.0, $d.0);
                    $in_order
                };
                [$row(a, room), $row(b, room), $row(c, room), $row(d, room)]
            }
        }
    };
}

/// Implements [`Steps`] for a row of a room with AVX-512.
macro_rules! masked_row {
    (
        $row:ident, $token:ident,
        load = $load_masked:ident, store = $store_masked:ident, rotate = $rotate:ident,
    ) => {
        impl Steps for $row {
            /// Each is an instruction.
            type Rotations = ();

            #[inline(always)]
            fn rotations() {}

            #[inline(always)]
            fn rotate<const BITS: i32>(self, (): &()) -> Self {
                // SAFETY: a register holds the token of its room.
                $row(unsafe { arch::$rotate::<BITS>(self.0) }, self.1)
            }

            #[inline(always)]
            fn splat_from<const INDEX: usize>(room: $token, words: &[u32; 4]) -> Self {
                Self::splat(room, words[INDEX])
            }

            #[inline(always)]
            fn add_part(self, text: Text<'_>, offset: usize, bytes: usize) {
                let mask = (u64::MAX >> (64 - bytes)) as _;
                let (source, target) = (text.source(offset, bytes), text.target(offset, bytes));
                // SAFETY: `source` names `bytes` readable bytes, and the mask selects no others.
                let part = unsafe { arch::$load_masked(mask, source.cast()) };
                let sum = $row(part, self.1).xor(self);
                // SAFETY: `target` names `bytes` writable bytes, and the mask selects no others.
                unsafe { arch::$store_masked(target.cast(), mask, sum.0) };
            }
        }
    };
}

/// Defines a row in a register of 512 bits.
macro_rules! row512 {
    ($row:ident, $token:ident, features = $features:literal) => {
        row! {
            $row: 16 of u32 in zmm, $token,
            features = $features, wipe = wipe_vector_registers,
            load = _mm512_loadu_si512, store = _mm512_storeu_si512,
            broadcast = _mm512_broadcast_i32x4, shuffle = _mm512_shuffle_epi32,
            unpack32 = (_mm512_unpacklo_epi32, _mm512_unpackhi_epi32),
            unpack64 = (_mm512_unpacklo_epi64, _mm512_unpackhi_epi64),
            numbers = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
            blocks = [0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0],
            in_order = |a, b, c, d| {
                let ab_low = intrinsic!(_mm512_shuffle_i32x4::<0x44>(a, b));
                let ab_high = intrinsic!(_mm512_shuffle_i32x4::<0xee>(a, b));
                let cd_low = intrinsic!(_mm512_shuffle_i32x4::<0x44>(c, d));
                let cd_high = intrinsic!(_mm512_shuffle_i32x4::<0xee>(c, d));
                [
                    intrinsic!(_mm512_shuffle_i32x4::<0x88>(ab_low, cd_low)),
                    intrinsic!(_mm512_shuffle_i32x4::<0xdd>(ab_low, cd_low)),
                    intrinsic!(_mm512_shuffle_i32x4::<0x88>(ab_high, cd_high)),
                    intrinsic!(_mm512_shuffle_i32x4::<0xdd>(ab_high, cd_high)),
                ]
            },
        }

        masked_row! {
            $row, $token,
            load = _mm512_maskz_loadu_epi8, store = _mm512_mask_storeu_epi8,
            rotate = _mm512_rol_epi32,
        }
    };
}

/// Defines a row in a register of 256 bits.
macro_rules! row256 {
    ($row:ident, $token:ident, features = $features:literal, wipe = $wipe:ident) => {
        row! {
            $row: 8 of u32 in ymm, $token,
            features = $features, wipe = $wipe,
            load = _mm256_loadu_si256, store = _mm256_storeu_si256,
            broadcast = _mm256_broadcastsi128_si256, shuffle = _mm256_shuffle_epi32,
            unpack32 = (_mm256_unpacklo_epi32, _mm256_unpackhi_epi32),
            unpack64 = (_mm256_unpacklo_epi64, _mm256_unpackhi_epi64),
            numbers = [0, 1, 2, 3, 4, 5, 6, 7],
            blocks = [0, 0, 0, 0, 1, 0, 0, 0],
            in_order = |a, b, c, d| [
                intrinsic!(_mm256_permute2x128_si256::<0x20>(a, b)),
                intrinsic!(_mm256_permute2x128_si256::<0x20>(c, d)),
                intrinsic!(_mm256_permute2x128_si256::<0x31>(a, b)),
                intrinsic!(_mm256_permute2x128_si256::<0x31>(c, d)),
            ],
        }
    };
}
