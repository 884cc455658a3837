//! Room avx2 of coefficients: each half of a register in a ymm register. Secret-independent, except
//! where a name ends in `_vartime`.
#![allow(unsafe_code, reason = "room: door, loads, stores and intrinsics")]

use core::arch::x86_64 as arch;
use core::mem::transmute;

use widelane_cpu::Avx2;
use widelane_secret::wipe_ymm_registers;

use super::{BLOCK_WORDS, Coefficients, PAIRS, POLYNOMIALS, Row};
use crate::registers::Register;
use crate::words::Avx2x4;

/// A register of room avx2: two of the machine's.
#[derive(Clone, Copy)]
pub struct Avx2Pairs([arch::__m256i; 2], Avx2);

/// Implements operations of two registers by an intrinsic each.
macro_rules! of_two {
    ($($name:ident = $intrinsic:ident),* $(,)?) => {
        $(
            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                let ([a, b], [c, d]) = (self.0, other.0);
                let (first, second) = (intrinsic!($intrinsic(a, c)), intrinsic!($intrinsic(b, d)));
                Avx2Pairs([first, second], self.1)
            }
        )*
    };
}

/// Candidates in half a register.
const HALF: usize = PAIRS / 2;

/// For each choice among eight candidates, where in them the bytes of those chosen are.
static CHOSEN: [[u8; 2 * HALF]; 256] = {
    let (mut table, mut chosen) = ([[0x80; 2 * HALF]; 256], 0);
    while chosen < 256 {
        let (mut place, mut candidate) = (0, 0);
        while candidate < 8 {
            if chosen >> candidate & 1 == 1 {
                table[chosen][2 * place] = 2 * candidate;
                table[chosen][2 * place + 1] = 2 * candidate + 1;
                place += 1;
            }
            candidate += 1;
        }
        chosen += 1;
    }
    table
};

/// Where in two words the two bytes are that each candidate begins or ends in: candidates begin
/// with the first byte in the first half, and with the fifth in the second.
const BYTES: [i64; 4] =
    [0x0504_0403_0201_0100, 0x0b0a_0a09_0807_0706, 0x0908_0807_0605_0504, 0x0f0e_0e0d_0c0b_0b0a];

/// Four registers, with the words of each piece of 16 bytes transposed.
#[inline(always)]
fn transpose4([a, b, c, d]: [arch::__m256i; 4], _room: Avx2) -> [arch::__m256i; 4] {
    let ab_low = intrinsic!(_mm256_unpacklo_epi32(a, b));
    let ab_high = intrinsic!(_mm256_unpackhi_epi32(a, b));
    let cd_low = intrinsic!(_mm256_unpacklo_epi32(c, d));
    let cd_high = intrinsic!(_mm256_unpackhi_epi32(c, d));
    [
        intrinsic!(_mm256_unpacklo_epi64(ab_low, cd_low)),
        intrinsic!(_mm256_unpackhi_epi64(ab_low, cd_low)),
        intrinsic!(_mm256_unpacklo_epi64(ab_high, cd_high)),
        intrinsic!(_mm256_unpackhi_epi64(ab_high, cd_high)),
    ]
}

impl Register for Avx2Pairs {
    type Room = Avx2;
    type Word = u32;
    type Row = Row;
    const LANES: usize = PAIRS;
    const ZEROS: Row = Row::ZERO;

    #[inline(always)]
    fn splat(room: Avx2, word: u32) -> Self {
        Avx2Pairs([intrinsic!(_mm256_set1_epi32(word.cast_signed())); 2], room)
    }

    #[inline(always)]
    fn load(room: Avx2, row: &Row) -> Self {
        // SAFETY: both types are the same number of bytes, and all their values are valid.
        Avx2Pairs(unsafe { transmute::<Row, [arch::__m256i; 2]>(*row) }, room)
    }

    #[inline(always)]
    fn row(self) -> Row {
        // SAFETY: both types are the same number of bytes, and all their values are valid.
        unsafe { transmute::<[arch::__m256i; 2], Row>(self.0) }
    }

    #[inline(always)]
    fn room(self) -> Avx2 {
        self.1
    }

    of_two! {
        add = _mm256_add_epi32, sub = _mm256_sub_epi32, and = _mm256_and_si256,
        or = _mm256_or_si256, xor = _mm256_xor_si256,
    }

    #[inline(always)]
    fn shl(self, bits: u32) -> Self {
        let bits = intrinsic!(_mm_cvtsi32_si128(bits.cast_signed()));
        let [a, b] = self.0;
        let (first, second) =
            (intrinsic!(_mm256_sll_epi32(a, bits)), intrinsic!(_mm256_sll_epi32(b, bits)));
        Avx2Pairs([first, second], self.1)
    }

    #[inline(always)]
    fn shr(self, bits: u32) -> Self {
        let bits = intrinsic!(_mm_cvtsi32_si128(bits.cast_signed()));
        let [a, b] = self.0;
        let (first, second) =
            (intrinsic!(_mm256_srl_epi32(a, bits)), intrinsic!(_mm256_srl_epi32(b, bits)));
        Avx2Pairs([first, second], self.1)
    }

    call_in_room!(Avx2, features = "avx2,bmi2", wipe = wipe_ymm_registers);
}

impl Coefficients for Avx2Pairs {
    type Words = Avx2x4;

    #[inline(always)]
    fn halves(room: Avx2, first: u32, second: u32) -> Self {
        let first = intrinsic!(_mm256_set1_epi32(first.cast_signed()));
        let second = intrinsic!(_mm256_set1_epi32(second.cast_signed()));
        Avx2Pairs([first, second], room)
    }

    #[inline(always)]
    fn load_halves(room: Avx2, first: &[u16; PAIRS], second: &[u16; PAIRS]) -> Self {
        // SAFETY: as many bytes as are read.
        let first = unsafe { arch::_mm256_loadu_si256(first.as_ptr().cast()) };
        // SAFETY: as above.
        let second = unsafe { arch::_mm256_loadu_si256(second.as_ptr().cast()) };
        Avx2Pairs([first, second], room)
    }

    #[inline(always)]
    fn to_halves(self) -> [[u16; PAIRS]; 2] {
        // SAFETY: both types are the same number of bytes, and all their values are valid.
        unsafe { transmute::<[arch::__m256i; 2], [[u16; PAIRS]; 2]>(self.0) }
    }

    of_two! {
        add_each = _mm256_add_epi16, sub_each = _mm256_sub_epi16, mul_low = _mm256_mullo_epi16,
        mul_high = _mm256_mulhi_epi16, mul_rounded = _mm256_mulhrs_epi16,
        mul_high_unsigned = _mm256_mulhi_epu16,
        mul_pairs = _mm256_madd_epi16,
    }

    #[inline(always)]
    fn shr_signed(self, bits: u32) -> Self {
        let bits = intrinsic!(_mm_cvtsi32_si128(bits.cast_signed()));
        let [a, b] = self.0;
        let (first, second) =
            (intrinsic!(_mm256_sra_epi16(a, bits)), intrinsic!(_mm256_sra_epi16(b, bits)));
        Avx2Pairs([first, second], self.1)
    }

    #[inline(always)]
    fn unzip(self, other: Self) -> (Self, Self) {
        let ([a, b], [c, d]) = (self.0, other.0);
        (Avx2Pairs([a, c], self.1), Avx2Pairs([b, d], self.1))
    }

    #[inline(always)]
    fn transpose(registers: [Self; POLYNOMIALS]) -> [Self; POLYNOMIALS] {
        let mut transposed = registers;
        for half in 0..2 {
            let [a, b, c, d, e, f, g, h] = registers;
            let first = [a.0[half], b.0[half], c.0[half], d.0[half]];
            let second = [e.0[half], f.0[half], g.0[half], h.0[half]];
            let (first, second) = (transpose4(first, a.1), transpose4(second, a.1));
            let (lower, upper) = transposed.split_at_mut(POLYNOMIALS / 2);
            let pairs = first.into_iter().zip(second);
            for ((lower, upper), (left, right)) in lower.iter_mut().zip(upper).zip(pairs) {
                lower.0[half] = intrinsic!(_mm256_permute2x128_si256::<0x20>(left, right));
                upper.0[half] = intrinsic!(_mm256_permute2x128_si256::<0x31>(left, right));
            }
        }
        transposed
    }

    #[inline(always)]
    fn choose(self, from: Self) -> Self {
        let ([a, b], [from, _]) = (self.0, from.0);
        let first = intrinsic!(_mm256_permutevar8x32_epi32(a, from));
        let second = intrinsic!(_mm256_permutevar8x32_epi32(b, from));
        Avx2Pairs([first, second], self.1)
    }

    #[inline(always)]
    fn accept_vartime(
        _room: Avx2,
        word: impl Fn(usize) -> u64,
        bound: u16,
        accepted: &mut [u16],
        mut count: usize,
    ) -> usize {
        for index in (0..BLOCK_WORDS).step_by(3) {
            let broadcast =
                |at: usize| intrinsic!(_mm256_set1_epi64x(word(index + at).cast_signed()));
            // Words a and b beside words b and c.
            let read = intrinsic!(_mm256_blend_epi32::<0b0011_1100>(broadcast(0), broadcast(1)));
            let read = intrinsic!(_mm256_blend_epi32::<0b1100_0000>(read, broadcast(2)));
            let bytes = intrinsic!(_mm256_set_epi64x(BYTES[3], BYTES[2], BYTES[1], BYTES[0]));
            let read = intrinsic!(_mm256_shuffle_epi8(read, bytes));
            let mask = intrinsic!(_mm256_set1_epi16(0xfff));
            let even = intrinsic!(_mm256_and_si256(read, mask));
            let odd = intrinsic!(_mm256_srli_epi16::<4>(read));
            let numbers = intrinsic!(_mm256_blend_epi16::<0xaa>(even, odd));
            let bounds = intrinsic!(_mm256_set1_epi16(bound.cast_signed()));
            let below = intrinsic!(_mm256_cmpgt_epi16(bounds, numbers));
            let below = intrinsic!(_mm256_packs_epi16(below, below));
            let below = intrinsic!(_mm256_movemask_epi8(below));
            let chosen = [below as u8, (below >> 16) as u8];
            let order = |of: u8| {
                // SAFETY: as many bytes as are read.
                unsafe { arch::_mm_loadu_si128(CHOSEN[usize::from(of)].as_ptr().cast()) }
            };
            let (first, second) = (order(chosen[0]), order(chosen[1]));
            let orders = intrinsic!(_mm256_set_m128i(second, first));
            let kept = intrinsic!(_mm256_shuffle_epi8(numbers, orders));
            let halves = [
                intrinsic!(_mm256_castsi256_si128(kept)),
                intrinsic!(_mm256_extracti128_si256::<1>(kept)),
            ];
            for (half, chosen) in halves.into_iter().zip(chosen) {
                let target: &mut [u16; HALF] =
                    accepted[count..].first_chunk_mut().expect("there is room for all candidates");
                // SAFETY: as many bytes as are written.
                unsafe { arch::_mm_storeu_si128(target.as_mut_ptr().cast(), half) };
                count += chosen.count_ones() as usize;
            }
        }
        count
    }
}
