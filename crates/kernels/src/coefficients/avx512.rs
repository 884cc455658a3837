//! Room avx512 of coefficients: two pairs of eight polynomials in a zmm register.
//! Secret-independent, except where a name ends in `_vartime`.
#![allow(unsafe_code, reason = "room: door, loads, stores and intrinsics")]

use core::arch::x86_64 as arch;
use core::mem::transmute;

use widelane_cpu::Avx512;
use widelane_secret::wipe_vector_registers;

use super::{CANDIDATES, Coefficients, PAIRS, POLYNOMIALS, Row, Task};
use crate::words::Avx512x8;

/// A register of room avx512.
#[derive(Clone, Copy)]
pub struct Avx512Pairs(arch::__m512i, Avx512);

/// Implements operations of two registers by an intrinsic each.
macro_rules! of_two {
    ($($name:ident = $intrinsic:ident),* $(,)?) => {
        $(
            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                Avx512Pairs(intrinsic!($intrinsic(self.0, other.0)), self.1)
            }
        )*
    };
}

/// A register made of words, first word first.
#[inline(always)]
fn vector(words: [u32; PAIRS]) -> arch::__m512i {
    // SAFETY: both types are the same number of bytes, and all their values are valid.
    unsafe { transmute::<[u32; PAIRS], arch::__m512i>(words) }
}

/// Which words of 32 candidates' bytes each piece of 16 bytes begins with, to have four candidates.
const SPREAD: [u32; PAIRS] = [0, 1, 1, 1, 1, 2, 2, 2, 3, 4, 4, 4, 4, 5, 5, 5];

/// The bytes of a piece with the two that each candidate begins or ends in.
const GATHERED: [u32; PAIRS] = {
    let even = [0x8080_0100, 0x8080_0201, 0x8080_0403, 0x8080_0504];
    let odd = [0x8080_0302, 0x8080_0403, 0x8080_0605, 0x8080_0706];
    let (mut words, mut index) = ([0; PAIRS], 0);
    while index < PAIRS {
        words[index] = if index / 4 % 2 == 0 { even[index % 4] } else { odd[index % 4] };
        index += 1;
    }
    words
};

/// How many bits lie in front of each candidate there.
const SHIFTS: [u32; PAIRS] = [0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4];

/// The first pieces of 16 bytes of each half of two registers.
const LOWER_PIECES: [u32; PAIRS] = [0, 0, 1, 0, 8, 0, 9, 0, 4, 0, 5, 0, 12, 0, 13, 0];

/// Their second pieces.
const UPPER_PIECES: [u32; PAIRS] = [2, 0, 3, 0, 10, 0, 11, 0, 6, 0, 7, 0, 14, 0, 15, 0];

/// Four registers, with the words of each piece of 16 bytes transposed.
#[inline(always)]
fn transpose4([a, b, c, d]: [arch::__m512i; 4], _room: Avx512) -> [arch::__m512i; 4] {
    let ab_low = intrinsic!(_mm512_unpacklo_epi32(a, b));
    let ab_high = intrinsic!(_mm512_unpackhi_epi32(a, b));
    let cd_low = intrinsic!(_mm512_unpacklo_epi32(c, d));
    let cd_high = intrinsic!(_mm512_unpackhi_epi32(c, d));
    [
        intrinsic!(_mm512_unpacklo_epi64(ab_low, cd_low)),
        intrinsic!(_mm512_unpackhi_epi64(ab_low, cd_low)),
        intrinsic!(_mm512_unpacklo_epi64(ab_high, cd_high)),
        intrinsic!(_mm512_unpackhi_epi64(ab_high, cd_high)),
    ]
}

impl Coefficients for Avx512Pairs {
    type Room = Avx512;
    type Words = Avx512x8;

    #[inline(always)]
    fn splat(room: Avx512, word: u32) -> Self {
        Avx512Pairs(intrinsic!(_mm512_set1_epi32(word.cast_signed())), room)
    }

    #[inline(always)]
    fn halves(room: Avx512, first: u32, second: u32) -> Self {
        let first = intrinsic!(_mm512_set1_epi32(first.cast_signed()));
        let mixed = intrinsic!(_mm512_mask_set1_epi32(first, 0xff00, second.cast_signed()));
        Avx512Pairs(mixed, room)
    }

    #[inline(always)]
    fn load(room: Avx512, row: &Row) -> Self {
        Avx512Pairs(vector(row.0), room)
    }

    #[inline(always)]
    fn load_halves(room: Avx512, first: &[u16; PAIRS], second: &[u16; PAIRS]) -> Self {
        // SAFETY: as many bytes as are read.
        let first = unsafe { arch::_mm256_loadu_si256(first.as_ptr().cast()) };
        // SAFETY: as above.
        let second = unsafe { arch::_mm256_loadu_si256(second.as_ptr().cast()) };
        let first = intrinsic!(_mm512_castsi256_si512(first));
        Avx512Pairs(intrinsic!(_mm512_inserti64x4::<1>(first, second)), room)
    }

    #[inline(always)]
    fn store(self, row: &mut Row) {
        // SAFETY: both types are the same number of bytes, and all their values are valid.
        row.0 = unsafe { transmute::<arch::__m512i, [u32; PAIRS]>(self.0) };
    }

    of_two! {
        add = _mm512_add_epi16, sub = _mm512_sub_epi16, mul_low = _mm512_mullo_epi16,
        mul_high = _mm512_mulhi_epi16, mul_high_unsigned = _mm512_mulhi_epu16,
        mul_pairs = _mm512_madd_epi16, add_words = _mm512_add_epi32, sub_words = _mm512_sub_epi32,
        and = _mm512_and_si512, or = _mm512_or_si512,
    }

    #[inline(always)]
    fn shr_signed<const BITS: u32>(self) -> Self {
        Avx512Pairs(intrinsic!(_mm512_srai_epi16::<BITS>(self.0)), self.1)
    }

    #[inline(always)]
    fn shl(self, bits: u32) -> Self {
        let bits = intrinsic!(_mm_cvtsi32_si128(bits.cast_signed()));
        Avx512Pairs(intrinsic!(_mm512_sll_epi32(self.0, bits)), self.1)
    }

    #[inline(always)]
    fn shr(self, bits: u32) -> Self {
        let bits = intrinsic!(_mm_cvtsi32_si128(bits.cast_signed()));
        Avx512Pairs(intrinsic!(_mm512_srl_epi32(self.0, bits)), self.1)
    }

    #[inline(always)]
    fn unzip(self, other: Self) -> (Self, Self) {
        let first = intrinsic!(_mm512_shuffle_i64x2::<0x44>(self.0, other.0));
        let second = intrinsic!(_mm512_shuffle_i64x2::<0xee>(self.0, other.0));
        (Avx512Pairs(first, self.1), Avx512Pairs(second, self.1))
    }

    #[inline(always)]
    fn transpose(registers: [Self; POLYNOMIALS]) -> [Self; POLYNOMIALS] {
        let room = registers[0].1;
        let [a, b, c, d, e, f, g, h] = registers;
        let [a, b, c, d] = transpose4([a.0, b.0, c.0, d.0], room);
        let [e, f, g, h] = transpose4([e.0, f.0, g.0, h.0], room);
        let (lower, upper) = (vector(LOWER_PIECES), vector(UPPER_PIECES));
        let low = |left, right| {
            Avx512Pairs(intrinsic!(_mm512_permutex2var_epi64(left, lower, right)), room)
        };
        let high = |left, right| {
            Avx512Pairs(intrinsic!(_mm512_permutex2var_epi64(left, upper, right)), room)
        };
        [low(a, e), low(b, f), low(c, g), low(d, h), high(a, e), high(b, f), high(c, g), high(d, h)]
    }

    #[inline(always)]
    fn choose(self, from: Self) -> Self {
        let twice = intrinsic!(_mm512_shuffle_i64x2::<0x44>(from.0, from.0));
        let above = Self::halves(self.1, 0, 8);
        let from = intrinsic!(_mm512_or_si512(twice, above.0));
        Avx512Pairs(intrinsic!(_mm512_permutexvar_epi32(from, self.0)), self.1)
    }

    #[inline(always)]
    fn accept_vartime(
        room: Avx512,
        candidates: [u64; 3],
        bound: u16,
        accepted: &mut [u16],
        count: usize,
    ) -> usize {
        let [a, b, c] = candidates.map(u64::cast_signed);
        let bytes = intrinsic!(_mm256_set_epi64x(0, c, b, a));
        let bytes = intrinsic!(_mm512_castsi256_si512(bytes));
        let pieces = intrinsic!(_mm512_permutexvar_epi32(vector(SPREAD), bytes));
        let words = intrinsic!(_mm512_shuffle_epi8(pieces, vector(GATHERED)));
        let words = intrinsic!(_mm512_srlv_epi32(words, vector(SHIFTS)));
        let words = intrinsic!(_mm512_and_si512(words, Self::splat(room, 0xfff).0));
        let bounds = Self::splat(room, u32::from(bound));
        let below = intrinsic!(_mm512_cmplt_epu32_mask(words, bounds.0));
        let kept = intrinsic!(_mm512_maskz_compress_epi32(below, words));
        let kept = intrinsic!(_mm512_cvtepi32_epi16(kept));
        let target: &mut [u16; CANDIDATES] =
            accepted[count..].first_chunk_mut().expect("there is room for all candidates");
        // SAFETY: as many bytes as are written.
        unsafe { arch::_mm256_storeu_si256(target.as_mut_ptr().cast(), kept) };
        count + below.count_ones() as usize
    }

    #[inline(always)]
    fn call<T: Task<Self>>(room: Avx512, task: T) -> T::Output {
        #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
        #[inline(never)]
        fn body<T: Task<Avx512Pairs>>(room: Avx512, task: T) -> T::Output {
            task.run(room)
        }
        // SAFETY: the token exists only where the machine has every feature of the room.
        unsafe { body(room, task) }
    }

    fn wipe_registers(_room: Avx512) {
        // SAFETY: the token exists only where the machine has AVX-512.
        unsafe { wipe_vector_registers() }
    }
}
