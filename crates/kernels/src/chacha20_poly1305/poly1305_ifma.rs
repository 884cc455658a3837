//! Poly1305 with VPMADD52: one block in each of eight lanes. Secret-independent.
//!
//! Numbers have limbs of 44, 44 and 42 bits, carried with one bit to spare. A product is nine pairs
//! of multiply-adds; the upper half of each has weight 2^52 = 2^8·2^44 and goes one limb up. What
//! lies above 2^130 comes back five times.
#![allow(unsafe_code, reason = "loads")]

use core::arch::x86_64::*;

use super::Poly1305;

/// Bytes that eight lanes take at a time.
const GROUP_BYTES: usize = 128;

/// From here on the lanes are quicker than scalar products, their powers included.
pub(super) const LANES_BYTES_MIN: usize = 512;

const LOW: u64 = (1 << 44) - 1;
const TOP: u64 = (1 << 42) - 1;

type Limbs = [__m512i; 3];

/// Adds groups of eight blocks: lane i takes block i of each, by steps of r^8, and its sum is
/// multiplied by r^(8−i) in the end.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma")]
pub(super) fn absorb_groups(poly: &mut Poly1305, groups: &[[u8; GROUP_BYTES]]) {
    let Some((first, others)) = groups.split_first() else { return };
    let powers = powers([poly.r[0], poly.r[1], 0]);
    let step = powers.map(|limb| _mm512_permutexvar_epi64(_mm512_setzero_si512(), limb));
    let before = limbs_of(poly.h);
    let mut sum = group_limbs(first);
    for (limb, before) in sum.iter_mut().zip(before) {
        let before = _mm512_maskz_set1_epi64(1, before.cast_signed());
        *limb = _mm512_add_epi64(*limb, before);
    }
    for group in others {
        let product = multiply(sum, step);
        for ((limb, product), message) in sum.iter_mut().zip(product).zip(group_limbs(group)) {
            *limb = _mm512_add_epi64(product, message);
        }
    }
    let [l0, l1, l2] =
        multiply(sum, powers).map(|limb| _mm512_reduce_add_epi64(limb).cast_unsigned());
    let l1 = l1 + (l0 >> 44);
    let l2 = l2 + (l1 >> 44);
    let l0 = (l0 & LOW) + 5 * (l2 >> 42);
    let (l1, l2) = (l1 & LOW, l2 & TOP);
    let low = u128::from(l0) + (u128::from(l1) << 44);
    let (low, carry) = low.overflowing_add(u128::from(l2) << 88);
    poly.h = [low as u64, (low >> 64) as u64, (l2 >> 40) + u64::from(carry)];
}

/// A number of three words, the last one small, in limbs.
fn limbs_of([h0, h1, h2]: [u64; 3]) -> [u64; 3] {
    [h0 & LOW, (h0 >> 44 | h1 << 20) & LOW, h1 >> 24 | h2 << 40]
}

/// r^8 in lane 0 to r^1 in lane 7.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma")]
fn powers(r: [u64; 3]) -> Limbs {
    let r1 = limbs_of(r).map(|limb| _mm512_set1_epi64(limb.cast_signed()));
    let r2 = multiply(r1, r1);
    let r4 = multiply(r2, r2);
    let one = [_mm512_set1_epi64(1), _mm512_setzero_si512(), _mm512_setzero_si512()];
    let ones_and_twos = pick(0b0101_0101, r1, r2);
    let up_to_four = multiply(ones_and_twos, pick(0b0011_0011, one, r2));
    multiply(up_to_four, pick(0b0000_1111, one, r4))
}

/// `yes` in the lanes of the mask, `no` in the others.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma")]
fn pick(lanes: __mmask8, no: Limbs, yes: Limbs) -> Limbs {
    [
        _mm512_mask_blend_epi64(lanes, no[0], yes[0]),
        _mm512_mask_blend_epi64(lanes, no[1], yes[1]),
        _mm512_mask_blend_epi64(lanes, no[2], yes[2]),
    ]
}

/// Eight blocks in limbs, each with its 2^128.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma")]
fn group_limbs(group: &[u8; GROUP_BYTES]) -> Limbs {
    let (halves, _) = group.as_chunks::<64>();
    // SAFETY: half a group is as long as a register.
    let left = unsafe { _mm512_loadu_si512(halves[0].as_ptr().cast()) };
    // SAFETY: as above.
    let right = unsafe { _mm512_loadu_si512(halves[1].as_ptr().cast()) };
    let even = _mm512_set_epi64(14, 12, 10, 8, 6, 4, 2, 0);
    let odd = _mm512_set_epi64(15, 13, 11, 9, 7, 5, 3, 1);
    let low = _mm512_permutex2var_epi64(left, even, right);
    let high = _mm512_permutex2var_epi64(left, odd, right);
    let mask = _mm512_set1_epi64(LOW.cast_signed());
    let middle = _mm512_or_si512(_mm512_srli_epi64::<44>(low), _mm512_slli_epi64::<20>(high));
    let top = _mm512_or_si512(_mm512_srli_epi64::<24>(high), _mm512_set1_epi64(1 << 40));
    [_mm512_and_si512(low, mask), _mm512_and_si512(middle, mask), top]
}

/// The product in each lane, carried. Limbs of the factors are below 2^46.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma")]
fn multiply(a: Limbs, b: Limbs) -> Limbs {
    // 2^132 = 20.
    let twenty =
        |limb| _mm512_add_epi64(_mm512_slli_epi64::<4>(limb), _mm512_slli_epi64::<2>(limb));
    let (s1, s2) = (twenty(b[1]), twenty(b[2]));
    let zero = _mm512_setzero_si512();
    let low = |x: Limbs| {
        let sum = _mm512_madd52lo_epu64(zero, a[0], x[0]);
        let sum = _mm512_madd52lo_epu64(sum, a[1], x[1]);
        _mm512_madd52lo_epu64(sum, a[2], x[2])
    };
    let high = |x: Limbs| {
        let sum = _mm512_madd52hi_epu64(zero, a[0], x[0]);
        let sum = _mm512_madd52hi_epu64(sum, a[1], x[1]);
        _mm512_madd52hi_epu64(sum, a[2], x[2])
    };
    let columns = [[b[0], s2, s1], [b[1], b[0], s2], [b[2], b[1], b[0]]];
    let mask = _mm512_set1_epi64(LOW.cast_signed());
    let d0 = low(columns[0]);
    let d1 = _mm512_add_epi64(low(columns[1]), _mm512_slli_epi64::<8>(high(columns[0])));
    let d1 = _mm512_add_epi64(d1, _mm512_srli_epi64::<44>(d0));
    let d2 = _mm512_add_epi64(low(columns[2]), _mm512_slli_epi64::<8>(high(columns[1])));
    let d2 = _mm512_add_epi64(d2, _mm512_srli_epi64::<44>(d1));
    let above =
        _mm512_add_epi64(_mm512_srli_epi64::<42>(d2), _mm512_slli_epi64::<10>(high(columns[2])));
    let five = _mm512_add_epi64(above, _mm512_slli_epi64::<2>(above));
    let d0 = _mm512_add_epi64(_mm512_and_si512(d0, mask), five);
    let d1 = _mm512_add_epi64(_mm512_and_si512(d1, mask), _mm512_srli_epi64::<44>(d0));
    let top = _mm512_set1_epi64(TOP.cast_signed());
    [_mm512_and_si512(d0, mask), d1, _mm512_and_si512(d2, top)]
}
