//! Room fma256_x4 of lanes: four words in a ymm register, multiplied as double-precision numbers.
//! Secret-independent.
//!
//! A fused multiply-add rounds once, so two of them split a product of digits exactly into a high
//! and a low half. The low half is from −1/2 to 1/2 of the high half's unit, since the first one
//! rounds to nearest. No operand or result is subnormal, which is what the time of these
//! instructions would depend on. `docs/design/curve25519.md` and `docs/design/nist-curves.md` have
//! the bounds.
#![allow(unsafe_code, reason = "room: door and intrinsics")]

use core::arch::{asm, x86_64 as arch};
use core::mem::{transmute, zeroed};

use widelane_cpu::Fma256;
use widelane_secret::wipe_ymm_registers;

use super::{LaneMask, Lanes};
use crate::digits::{DIGIT_BITS, DIGIT_MASK};
use crate::registers::{Register, Task};

register! {
    Fma256x4: 4 of u64 in ymm, Fma256, features = "avx2,fma", wipe = wipe_ymm_registers
}

/// Four words as double-precision numbers.
pub(crate) type Doubles = arch::__m256d;

/// The bits of 2^`exponent`.
const fn power_of_two(exponent: u64) -> u64 {
    (1023 + exponent) << 52
}

/// 2^52: the lowest bits of its sum with an integer below 2^52 are that integer.
const INTEGER: u64 = power_of_two(52);
/// 2^52 + 2^51: the bits of its sum with an integer from −2^51 to 2^51, less its own, are that
/// integer.
const SIGNED: u64 = power_of_two(52) | 1 << 51;
/// 2^104: the sum with a product of two digits of 52 bits is rounded to a multiple of 2^52.
const HIGH: u64 = power_of_two(2 * DIGIT_BITS as u64);

/// What is added to a product of limbs so that its high half rounds to a multiple of 2^51: 2^103 +
/// 2^101. The sum has the exponent of 2^103 for every product from −2^101 to 2^103 − 2^101.
pub(crate) const SHORT_HIGH: u64 = power_of_two(103) | 1 << 50;
/// `SHORT_HIGH` and `SIGNED` added: the next double but two.
pub(crate) const SHORT_BOTH: u64 = SHORT_HIGH + 3;
/// By how much the bits of a low half of [`Fma256x4::short_product`] exceed that half.
pub(crate) const SHORT_LOW: u64 = SIGNED;

/// Four numbers in memory.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct Row(pub(crate) [f64; 4]);

impl Row {
    pub(crate) const ZERO: Self = Row([0.0; 4]);

    #[inline(always)]
    pub(crate) fn load(&self) -> Doubles {
        // SAFETY: both types are the same number of bytes, and all their values are valid.
        unsafe { transmute::<[f64; 4], Doubles>(self.0) }
    }

    #[inline(always)]
    pub(crate) fn store(&mut self, doubles: Doubles) {
        // SAFETY: as above.
        self.0 = unsafe { transmute::<Doubles, [f64; 4]>(doubles) };
    }
}

impl Fma256x4 {
    #[inline(always)]
    pub(crate) fn of_bits(room: Fma256, doubles: Doubles) -> Self {
        Fma256x4(intrinsic!(_mm256_castpd_si256(doubles)), room)
    }

    #[inline(always)]
    pub(crate) fn bits(self) -> Doubles {
        intrinsic!(_mm256_castsi256_pd(self.0))
    }

    /// The number whose bits are these, in all lanes.
    #[inline(always)]
    fn number(room: Fma256, bits: u64) -> Doubles {
        Self::splat(room, bits).bits()
    }

    /// Words below 2^52 as numbers.
    #[inline(always)]
    pub(crate) fn to_numbers(self) -> Doubles {
        let integer = Self::splat(self.1, INTEGER);
        intrinsic!(_mm256_sub_pd(self.or(integer).bits(), integer.bits()))
    }

    /// The product of two digits below 2^52 is 2^52·high + low, −2^51 ≤ low ≤ 2^51.
    #[inline(always)]
    fn product(self, other: Self) -> [Self; 2] {
        let room = self.1;
        let mask = Self::splat(room, DIGIT_MASK);
        let (a, b) = (self.and(mask).to_numbers(), other.and(mask).to_numbers());
        let (unit, signed) = (Self::number(room, HIGH), Self::number(room, SIGNED));
        let high = intrinsic!(_mm256_fmadd_pd(a, b, unit));
        let rest = intrinsic!(_mm256_sub_pd(unit, high));
        let low = intrinsic!(_mm256_fmadd_pd(a, b, rest));
        let low = intrinsic!(_mm256_add_pd(low, signed));
        [
            Self::of_bits(room, low).sub(Self::splat(room, SIGNED)),
            Self::of_bits(room, high).sub(Self::splat(room, HIGH)),
        ]
    }

    /// The product of two limbs is 2^51·(high − `SHORT_HIGH`) + (low − `SHORT_LOW`).
    ///
    /// Requires: −2^15 < a, b < 2^51 + 2^16; rounding to nearest.
    /// Ensures:  −2^50 ≤ low − `SHORT_LOW` ≤ 2^50.
    /// Secrets:  a, b. No operand or result is subnormal, which is what the time of these
    ///           instructions would depend on.
    /// Cost:     two multiply-adds, one subtraction.
    /// Source:   Dekker 1971 by fused multiply-adds; Emmart, Zheng, Weems 2018 for integers.
    #[inline(always)]
    pub(crate) fn short_product(room: Fma256, a: Doubles, b: Doubles) -> [Self; 2] {
        let (high, both) = (Self::number(room, SHORT_HIGH), Self::number(room, SHORT_BOTH));
        let high = intrinsic!(_mm256_fmadd_pd(a, b, high));
        let rest = intrinsic!(_mm256_sub_pd(both, high));
        let low = intrinsic!(_mm256_fmadd_pd(a, b, rest));
        [low, high].map(|half| Self::of_bits(room, half))
    }

    /// Adds a [`short_product`](Self::short_product) to sums of low and of high halves.
    #[inline(always)]
    pub(crate) fn add_short_product(
        [low, high]: [Self; 2],
        digit: Doubles,
        factor: &Row,
    ) -> [Self; 2] {
        // SAFETY: the token exists only where the machine has AVX2 and FMA.
        unsafe { add_short_product([low, high], digit, factor) }
    }

    /// Runs a kernel while MXCSR rounds to nearest and masks all exceptions, and restores it. In
    /// another rounding mode of the program, halves of products would leave their range; and if it
    /// has unmasked the exception for inexact results, the first product would end it.
    #[inline(always)]
    pub(crate) fn in_own_mode<T>(kernel: impl FnOnce() -> T) -> T {
        let before = mxcsr();
        // SAFETY: as the function requires.
        unsafe { set_mxcsr(MXCSR) };
        let output = kernel();
        // SAFETY: as the function requires.
        unsafe { set_mxcsr(before) };
        output
    }

    /// The product of the low halves of words.
    #[inline(always)]
    pub(crate) fn mul_low(self, other: Self) -> Self {
        Fma256x4(intrinsic!(_mm256_mul_epu32(self.0, other.0)), self.1)
    }

    /// All bits of each lane where the mask is set.
    #[inline(always)]
    fn expand(room: Fma256, mask: LaneMask) -> arch::__m256i {
        let lanes = Self::load(room, &[1, 2, 4, 8]);
        let set = Self::splat(room, u64::from(mask.bits())).and(lanes);
        intrinsic!(_mm256_cmpeq_epi64(set.0, lanes.0))
    }

    /// The mask of the lanes whose top bit is set.
    #[inline(always)]
    fn top_bits(lanes: arch::__m256i) -> LaneMask {
        let lanes = intrinsic!(_mm256_castsi256_pd(lanes));
        LaneMask::from_bits(intrinsic!(_mm256_movemask_pd(lanes)) as u8)
    }
}

/// As [`Fma256x4::add_short_product`]. LLVM would add up in another order, for which there are too
/// few registers.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn add_short_product(
    [mut low, mut high]: [Fma256x4; 2],
    digit: Doubles,
    factor: &Row,
) -> [Fma256x4; 2] {
    let room = low.1;
    // SAFETY: the function has the instructions; a row is read.
    unsafe {
        asm!(
            "vmovapd {0}, {high_common}",
            "vfmadd231pd {0}, {digit}, [{factor}]",
            "vsubpd {1}, {both_common}, {0}",
            "vfmadd231pd {1}, {digit}, [{factor}]",
            "vpaddq {high}, {high}, {0}",
            "vpaddq {low}, {low}, {1}",
            out(ymm_reg) _, out(ymm_reg) _,
            high_common = in(ymm_reg) Fma256x4::splat(room, SHORT_HIGH).0,
            both_common = in(ymm_reg) Fma256x4::splat(room, SHORT_BOTH).0,
            digit = in(ymm_reg) digit,
            factor = in(reg) factor,
            high = inout(ymm_reg) high.0,
            low = inout(ymm_reg) low.0,
            // Not `preserves_flags`: a rounded sum is noted in MXCSR.
            options(pure, readonly, nostack),
        );
    }
    [low, high]
}

/// The value of MXCSR that every thread begins with: rounding to nearest, all exceptions masked.
const MXCSR: u32 = 0x1f80;

/// Reads MXCSR, the control and status register of floating-point vector arithmetic.
fn mxcsr() -> u32 {
    let mut value = 0u32;
    // SAFETY: four bytes are written, to a variable.
    unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut value, options(nostack, preserves_flags)) };
    value
}

/// Writes MXCSR.
///
/// # Safety
///
/// `value` is [`MXCSR`], or the caller's own, which is written back before the caller computes
/// anything.
unsafe fn set_mxcsr(value: u32) {
    // SAFETY: four bytes are read, of a variable.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const value, options(nostack, preserves_flags)) };
}

/// Runs kernels as in a program that has set a rounding mode, 0 to 3, and unmasked all exceptions:
/// a product that is computed so ends the process. Returns whether MXCSR is what it was.
#[cfg(test)]
pub(crate) fn with_rounding<T>(mode: u32, kernels: impl FnOnce() -> T) -> (T, bool) {
    let of_program = mode << 13;
    // SAFETY: the kernels set what they need, and nothing else computes before it is put back.
    unsafe { set_mxcsr(of_program) };
    let output = kernels();
    let is_kept = mxcsr() == of_program;
    // SAFETY: what every thread begins with.
    unsafe { set_mxcsr(MXCSR) };
    (output, is_kept)
}

impl Lanes for Fma256x4 {
    #[inline(always)]
    fn enter<T: Task<Self>>(room: Fma256, task: T) -> T::Output {
        Self::in_own_mode(|| Self::call(room, task))
    }

    #[inline(always)]
    fn splat_pair(room: Fma256, pair: [u64; 2]) -> Self {
        // SAFETY: both types are the same number of bytes, and all their values are valid.
        let pair = unsafe { transmute::<[u64; 2], arch::__m128i>(pair) };
        Fma256x4(intrinsic!(_mm256_broadcastsi128_si256(pair)), room)
    }

    #[inline(always)]
    fn flatten(registers: &[[u64; 4]]) -> &[u64] {
        registers.as_flattened()
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        let crossed = self.shr(32).mul_low(other).add(self.mul_low(other.shr(32)));
        self.mul_low(other).add(crossed.shl(32))
    }

    #[inline(always)]
    fn shr_signed(self, bits: u32) -> Self {
        let sign = 1 << 63;
        let shifted = self.xor(Self::splat(self.1, sign)).shr(bits);
        shifted.sub(Self::splat(self.1, sign >> bits))
    }

    #[inline(always)]
    fn madd52lo(self, a: Self, b: Self) -> Self {
        let [low, _] = a.product(b);
        self.add(low.and(Self::splat(self.1, DIGIT_MASK)))
    }

    #[inline(always)]
    fn madd52hi(self, a: Self, b: Self) -> Self {
        let [low, high] = a.product(b);
        let zero = Self::splat(self.1, 0);
        // −1 where the high half was rounded up.
        let excess = Fma256x4(intrinsic!(_mm256_cmpgt_epi64(zero.0, low.0)), self.1);
        self.add(high.add(excess))
    }

    #[inline(always)]
    fn madd52(low: Self, high: Self, a: Self, b: Self) -> [Self; 2] {
        let [l, h] = a.product(b);
        [low.add(l), high.add(h)]
    }

    #[inline(always)]
    fn equals(self, other: Self) -> LaneMask {
        Self::top_bits(intrinsic!(_mm256_cmpeq_epi64(self.0, other.0)))
    }

    #[inline(always)]
    fn less_than(self, other: Self) -> LaneMask {
        let sign = Self::splat(self.1, 1 << 63);
        Self::top_bits(intrinsic!(_mm256_cmpgt_epi64(other.xor(sign).0, self.xor(sign).0)))
    }

    #[inline(always)]
    fn top_bit(self) -> LaneMask {
        Self::top_bits(self.0)
    }

    #[inline(always)]
    fn pick(row: &[u64; 16], index: Self) -> Self {
        let room = index.1;
        let index = index.and(Self::splat(room, 15));
        let mut picked = Self::splat(room, 0);
        for (position, word) in (0..).zip(row) {
            let wanted = intrinsic!(_mm256_cmpeq_epi64(index.0, Self::splat(room, position).0));
            picked = picked.or(Self::splat(room, *word).and(Fma256x4(wanted, room)));
        }
        picked
    }

    #[inline(always)]
    fn permute(self, index: Self) -> Self {
        // Both halves of a word are moved apart.
        let index = index.and(Self::splat(self.1, 3)).shl(1);
        let index = index.or(index.shl(32)).or(Self::splat(self.1, 1 << 32));
        Fma256x4(intrinsic!(_mm256_permutevar8x32_epi32(self.0, index.0)), self.1)
    }

    #[inline(always)]
    fn select(self, mask: LaneMask, other: Self) -> Self {
        let mask = Self::expand(self.1, mask);
        Fma256x4(intrinsic!(_mm256_blendv_epi8(other.0, self.0, mask)), self.1)
    }

    #[inline(always)]
    fn shift_in(self, below: Self, count: usize) -> Self {
        let middle = intrinsic!(_mm256_permute2x128_si256::<0x21>(below.0, self.0));
        let vector = match count {
            0 => self.0,
            1 => intrinsic!(_mm256_alignr_epi8::<8>(self.0, middle)),
            2 => middle,
            3 => intrinsic!(_mm256_alignr_epi8::<8>(middle, below.0)),
            _ => unreachable!("there are four lanes"),
        };
        Fma256x4(vector, self.1)
    }
}
