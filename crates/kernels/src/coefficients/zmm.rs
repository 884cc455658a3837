//! What the rooms of coefficients in zmm registers have in common: the text of their
//! implementation.
#![allow(unsafe_code, reason = "text of rooms: loads, and registers as arrays")]

use super::PAIRS;

/// The first pieces of 16 bytes of each half of two registers.
pub(super) const LOWER_PIECES: [u32; PAIRS] = [0, 0, 1, 0, 8, 0, 9, 0, 4, 0, 5, 0, 12, 0, 13, 0];

/// Their second pieces.
pub(super) const UPPER_PIECES: [u32; PAIRS] = [2, 0, 3, 0, 10, 0, 11, 0, 6, 0, 7, 0, 14, 0, 15, 0];

/// Implements [`Coefficients`](super::Coefficients) for a zmm register: two pairs of eight
/// polynomials. `$accept` rejects candidates.
macro_rules! coefficients_in_zmm {
    (
        $register:ident, $token:ident, words = $words:ident, features = $features:literal,
        accept = $accept:ident
    ) => {
        /// A register made of words, first word first.
        #[inline(always)]
        fn vector(words: [u32; PAIRS]) -> arch::__m512i {
            // SAFETY: both types are the same number of bytes, and all their values are valid.
            unsafe { transmute::<[u32; PAIRS], arch::__m512i>(words) }
        }

        /// Four registers, with the words of each piece of 16 bytes transposed.
        #[inline(always)]
        fn transpose4([a, b, c, d]: [arch::__m512i; 4], _room: $token) -> [arch::__m512i; 4] {
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

        register! {
            $register: 16 of u32 in zmm as Row, $token, features = $features,
            wipe = wipe_vector_registers
        }

        impl Coefficients for $register {
            type Words = $words;

            #[inline(always)]
            fn halves(room: $token, first: u32, second: u32) -> Self {
                let first = intrinsic!(_mm512_set1_epi32(first.cast_signed()));
                let mixed = intrinsic!(_mm512_mask_set1_epi32(first, 0xff00, second.cast_signed()));
                $register(mixed, room)
            }

            #[inline(always)]
            fn load_halves(room: $token, first: &[u16; PAIRS], second: &[u16; PAIRS]) -> Self {
                // SAFETY: as many bytes as are read.
                let first = unsafe { arch::_mm256_loadu_si256(first.as_ptr().cast()) };
                // SAFETY: as above.
                let second = unsafe { arch::_mm256_loadu_si256(second.as_ptr().cast()) };
                let first = intrinsic!(_mm512_castsi256_si512(first));
                $register(intrinsic!(_mm512_inserti64x4::<1>(first, second)), room)
            }

            #[inline(always)]
            fn to_halves(self) -> [[u16; PAIRS]; 2] {
                // SAFETY: both types are the same number of bytes, and all their values are valid.
                unsafe { transmute::<arch::__m512i, [[u16; PAIRS]; 2]>(self.0) }
            }

            #[inline(always)]
            fn add_each(self, other: Self) -> Self {
                Self(intrinsic!(_mm512_add_epi16(self.0, other.0)), self.1)
            }

            #[inline(always)]
            fn sub_each(self, other: Self) -> Self {
                Self(intrinsic!(_mm512_sub_epi16(self.0, other.0)), self.1)
            }

            #[inline(always)]
            fn mul_low(self, other: Self) -> Self {
                Self(intrinsic!(_mm512_mullo_epi16(self.0, other.0)), self.1)
            }

            #[inline(always)]
            fn mul_high(self, other: Self) -> Self {
                Self(intrinsic!(_mm512_mulhi_epi16(self.0, other.0)), self.1)
            }

            #[inline(always)]
            fn mul_rounded(self, other: Self) -> Self {
                Self(intrinsic!(_mm512_mulhrs_epi16(self.0, other.0)), self.1)
            }

            #[inline(always)]
            fn mul_high_unsigned(self, other: Self) -> Self {
                Self(intrinsic!(_mm512_mulhi_epu16(self.0, other.0)), self.1)
            }

            #[inline(always)]
            fn mul_pairs(self, other: Self) -> Self {
                Self(intrinsic!(_mm512_madd_epi16(self.0, other.0)), self.1)
            }

            #[inline(always)]
            fn shr_signed(self, bits: u32) -> Self {
                let bits = intrinsic!(_mm_cvtsi32_si128(bits.cast_signed()));
                $register(intrinsic!(_mm512_sra_epi16(self.0, bits)), self.1)
            }

            #[inline(always)]
            fn unzip(self, other: Self) -> (Self, Self) {
                let first = intrinsic!(_mm512_shuffle_i64x2::<0x44>(self.0, other.0));
                let second = intrinsic!(_mm512_shuffle_i64x2::<0xee>(self.0, other.0));
                ($register(first, self.1), $register(second, self.1))
            }

            #[inline(always)]
            fn transpose(registers: [Self; POLYNOMIALS]) -> [Self; POLYNOMIALS] {
                let room = registers[0].1;
                let [a, b, c, d, e, f, g, h] = registers;
                let [a, b, c, d] = transpose4([a.0, b.0, c.0, d.0], room);
                let [e, f, g, h] = transpose4([e.0, f.0, g.0, h.0], room);
                let (lower, upper) = (vector(LOWER_PIECES), vector(UPPER_PIECES));
                let low = |left, right| {
                    $register(intrinsic!(_mm512_permutex2var_epi64(left, lower, right)), room)
                };
                let high = |left, right| {
                    $register(intrinsic!(_mm512_permutex2var_epi64(left, upper, right)), room)
                };
                [
                    low(a, e),
                    low(b, f),
                    low(c, g),
                    low(d, h),
                    high(a, e),
                    high(b, f),
                    high(c, g),
                    high(d, h),
                ]
            }

            #[inline(always)]
            fn choose(self, from: Self) -> Self {
                let twice = intrinsic!(_mm512_shuffle_i64x2::<0x44>(from.0, from.0));
                let above = Self::halves(self.1, 0, 8);
                let from = intrinsic!(_mm512_or_si512(twice, above.0));
                $register(intrinsic!(_mm512_permutexvar_epi32(from, self.0)), self.1)
            }

            #[inline(always)]
            fn accept_vartime(
                room: $token,
                word: impl Fn(usize) -> u64,
                bound: u16,
                accepted: &mut [u16],
                count: usize,
            ) -> usize {
                $accept(room, word, bound, accepted, count)
            }
        }
    };
}
