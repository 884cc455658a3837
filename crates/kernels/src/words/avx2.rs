//! Room avx2 of words: eight or four words in a ymm register, or one in a plain one.
//! Secret-independent.
#![allow(unsafe_code, reason = "room: door, loads and intrinsics")]

use core::arch::asm;
use core::arch::x86_64 as arch;
use core::mem::transmute;

use widelane_cpu::Avx2;
use widelane_secret::wipe_ymm_registers;

use super::message::{Message, chunks_at};
use super::portable::SPILLED_WORDS;
use super::{BLOCK_WORDS, PIECE_BYTES, Task, Words, wide};
use crate::stack::{wipe_frame, wipe_stack};

wide_words! {
    Avx2x8(__m256i in ymm_reg as "y", Avx2), 8 of u32,
    features = "avx2,bmi2",
    splat = _mm256_set1_epi32, add = _mm256_add_epi32,
    and = _mm256_and_si256, xor = _mm256_xor_si256, or = _mm256_or_si256,
    left = _mm256_sllv_epi32, right = _mm256_srlv_epi32,
    gather = gather, shuffle = _mm256_shuffle_epi8,
    broadcast = _mm256_broadcastsi128_si256,
    order = (0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203),
    transpose = transpose4, wipe = wipe_ymm_registers, spilled = 128, fed = 376,
    and_not = _mm256_andnot_si256,
}

wide_words! {
    Avx2x4(__m256i in ymm_reg as "y", Avx2), 4 of u64,
    features = "avx2,bmi2",
    splat = _mm256_set1_epi64x, add = _mm256_add_epi64,
    and = _mm256_and_si256, xor = _mm256_xor_si256, or = _mm256_or_si256,
    left = _mm256_sllv_epi64, right = _mm256_srlv_epi64,
    gather = gather, shuffle = _mm256_shuffle_epi8,
    broadcast = _mm256_broadcastsi128_si256,
    order = (0x0809_0a0b_0c0d_0e0f, 0x0001_0203_0405_0607),
    transpose = transpose2, wipe = wipe_ymm_registers, spilled = 144, fed = 376,
    and_not = _mm256_andnot_si256,
}

pieces_in_ymm!(Avx2);

/// A plain register, with the rotations of BMI2: they leave their source alone.
#[derive(Clone, Copy)]
pub struct Avx2x1<W>(W, Avx2);

impl<W: Words<Room = ()>> Words for Avx2x1<W> {
    type Room = Avx2;
    type Word = W::Word;
    type Row = W::Row;
    const LANES: usize = 1;

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
    fn add(self, other: Self) -> Self {
        Avx2x1(self.0.add(other.0), self.1)
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Avx2x1(self.0.and(other.0), self.1)
    }

    #[inline(always)]
    fn and_not(self, other: Self) -> Self {
        Avx2x1(self.0.and_not(other.0), self.1)
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Avx2x1(self.0.xor(other.0), self.1)
    }

    #[inline(always)]
    fn rotate<const BITS: u32>(self) -> Self {
        Avx2x1(self.0.rotate::<BITS>(), self.1)
    }

    #[inline(always)]
    fn shift<const BITS: u32>(self) -> Self {
        Avx2x1(self.0.shift::<BITS>(), self.1)
    }

    #[inline(always)]
    fn enter<T: Task<Self>>(room: Avx2, task: T) -> T::Output {
        #[target_feature(enable = "avx2,bmi2")]
        #[inline(never)]
        fn body<W: Words<Room = ()>, T: Task<Avx2x1<W>>>(room: Avx2, task: T) -> T::Output {
            task.run(room)
        }
        // SAFETY: the token exists only where the machine has every feature of the room.
        unsafe { body(room, task) }
    }

    #[inline(always)]
    fn call<T: Task<Self>>(room: Avx2, task: T) -> T::Output {
        let output = Self::enter(room, task);
        wipe_stack::<SPILLED_WORDS>();
        output
    }
}
