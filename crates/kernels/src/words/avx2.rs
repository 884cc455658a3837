//! Room avx2 of words: eight or four words in a ymm register, or one in a plain one.
//! Secret-independent.
#![allow(unsafe_code, reason = "room: door, loads and intrinsics")]

use core::arch::asm;
use core::arch::x86_64 as arch;
use core::mem::{transmute, zeroed};

use widelane_cpu::Avx2;
use widelane_secret::stack::{wipe_frame, wipe_stack};
use widelane_secret::wipe_ymm_registers;

use super::message::{Message, chunks_at};
use super::portable::SPILLED_WORDS;
use super::{BLOCK_WORDS, PIECE_BYTES, Words, wide};
use crate::registers::{Register, Task};

wide_words! {
    Avx2x8: 8 of u32 in ymm, Avx2,
    features = "avx2,bmi2", wipe = wipe_ymm_registers,
    vector = __m256i in ymm_reg as "y",
    gather = gather, shuffle = _mm256_shuffle_epi8,
    broadcast = _mm256_broadcastsi128_si256,
    order = (0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203),
    transpose = transpose4, spilled = 128, fed = 376,
    and_not = _mm256_andnot_si256,
}

wide_words! {
    Avx2x4: 4 of u64 in ymm, Avx2,
    features = "avx2,bmi2", wipe = wipe_ymm_registers,
    vector = __m256i in ymm_reg as "y",
    gather = gather, shuffle = _mm256_shuffle_epi8,
    broadcast = _mm256_broadcastsi128_si256,
    order = (0x0809_0a0b_0c0d_0e0f, 0x0001_0203_0405_0607),
    transpose = transpose2, spilled = 144, fed = 376,
    and_not = _mm256_andnot_si256,
}

pieces_in_ymm!(Avx2);

/// A plain register, with the rotations of BMI2: they leave their source alone.
#[derive(Clone, Copy)]
pub struct Avx2x1<W>(W, Avx2);

/// Implements operations of two registers by those of the plain ones.
macro_rules! of_plain {
    ($($name:ident)*) => {
        $(
            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                Avx2x1(self.0.$name(other.0), self.1)
            }
        )*
    };
}

impl<W: Register<Room = ()>> Register for Avx2x1<W> {
    type Room = Avx2;
    type Word = W::Word;
    type Row = W::Row;
    const LANES: usize = 1;
    const ZEROS: W::Row = W::ZEROS;

    #[inline(always)]
    fn splat(room: Avx2, word: W::Word) -> Self {
        Avx2x1(W::splat((), word), room)
    }

    #[inline(always)]
    fn load(room: Avx2, row: &W::Row) -> Self {
        Avx2x1(W::load((), row), room)
    }

    #[inline(always)]
    fn row(self) -> W::Row {
        self.0.row()
    }

    #[inline(always)]
    fn room(self) -> Avx2 {
        self.1
    }

    of_plain!(add sub and or xor);

    #[inline(always)]
    fn shl(self, bits: u32) -> Self {
        Avx2x1(self.0.shl(bits), self.1)
    }

    #[inline(always)]
    fn shr(self, bits: u32) -> Self {
        Avx2x1(self.0.shr(bits), self.1)
    }

    call_in_room!(Avx2, features = "avx2,bmi2", wipe = wipe_ymm_registers);
}

impl<W: Words<Room = ()>> Words for Avx2x1<W> {
    of_plain!(and_not);

    #[inline(always)]
    fn block(room: Avx2, messages: &[impl Message], offset: usize) -> [Self; BLOCK_WORDS] {
        let words = W::block((), messages, offset);
        let mut block = [Avx2x1(words[0], room); BLOCK_WORDS];
        for (register, word) in block.iter_mut().zip(words) {
            register.0 = word;
        }
        block
    }

    #[inline(always)]
    fn in_order(self) -> Self {
        Avx2x1(self.0.in_order(), self.1)
    }

    #[inline(always)]
    fn rotate_right(self, bits: u32) -> Self {
        Avx2x1(self.0.rotate_right(bits), self.1)
    }

    #[inline(always)]
    fn call_and_wipe<const FEEDS: bool, T: Task<Self>>(room: Avx2, task: T) -> T::Output {
        let output = Self::call(room, task);
        wipe_stack::<SPILLED_WORDS>();
        output
    }
}
