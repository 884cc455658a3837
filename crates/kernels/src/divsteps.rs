//! Inversion modulo a prime by divsteps, one number per lane: the same steps whatever the number.
//!
//! Bernstein and Yang, "Fast constant-time gcd computation and modular inversion", in the variant
//! whose δ begins at 1/2. `docs/design/nist-curves.md` has the number of steps and the bounds.
//!
//! Secrets: the numbers. Branches and addresses depend on none.

use crate::digits::{CurveModulus, DIGIT_BITS, DIGIT_MASK};
use crate::lanes::{LaneMask, Lanes};

/// Steps that are taken with the lowest digits alone before all digits follow.
const ROUND_STEPS: u32 = 50;

/// Rounds after which every number below a modulus of `bits` bits is inverted.
const fn round_count(bits: usize) -> usize {
    let steps = (45_907 * bits + 26_313) / 19_929;
    steps.div_ceil(ROUND_STEPS as usize)
}

/// By which power of two [`Inversion::quotient`] has to be multiplied: d and e are divided by more
/// in a round than f and g are.
pub(crate) const fn excess_bits(bits: usize) -> usize {
    (DIGIT_BITS - ROUND_STEPS) as usize * round_count(bits)
}

/// Takes all the steps that numbers below moduli of `bits` bits need.
#[inline(always)]
pub(crate) fn completed<L: Lanes, const N: usize, const D: usize>(
    mut inversions: [Inversion<L, D>; N],
    bits: usize,
) -> [Inversion<L, D>; N] {
    for _ in 0..round_count(bits) {
        let mut rounds = [inversions[0].round(); N];
        for index in 1..N {
            rounds[index] = inversions[index].round();
        }
        for _ in 0..ROUND_STEPS {
            for round in &mut rounds {
                round.step();
            }
        }
        for (inversion, round) in inversions.iter_mut().zip(&rounds) {
            inversion.follow(round);
        }
    }
    inversions
}

/// The inversion of x modulo m. At the end, f is 1 or −1. After each of the rounds, f = d·x·2^(2·i)
/// and g = e·x·2^(2·i) modulo m, where i of them have passed.
///
/// The highest digit of each number is signed. d and e are between −m/3 and 4/3·m.
pub(crate) struct Inversion<L, const D: usize> {
    f: [L; D],
    g: [L; D],
    d: [L; D],
    e: [L; D],
    /// −δ − 1/2.
    zeta: L,
    m: [L; D],
    k0: L,
}

impl<L: Lanes, const D: usize> Inversion<L, D> {
    /// Begins to invert a number below a prime.
    #[inline(always)]
    pub(crate) fn of(number: [L; D], modulus: &CurveModulus<D>) -> Self {
        let room = number[0].room();
        let zero = [L::splat(room, 0); D];
        let (mut one, mut m) = (zero, zero);
        one[0] = L::splat(room, 1);
        each_digit!(D, i => m[i] = L::splat(room, modulus.m[i]));
        let (k0, zeta) = (L::splat(room, modulus.k0), L::splat(room, u64::MAX));
        Inversion { f: m, g: number, d: zero, e: one, zeta, m, k0 }
    }

    /// self where the mask is set, other elsewhere; none of them has begun.
    #[inline(always)]
    pub(crate) fn select(mut self, mask: LaneMask, other: Self) -> Self {
        let pairs = [(&mut self.f, other.f), (&mut self.g, other.g), (&mut self.m, other.m)];
        for (digits, others) in pairs {
            for (digit, other) in digits.iter_mut().zip(others) {
                *digit = digit.select(mask, other);
            }
        }
        self.k0 = self.k0.select(mask, other.k0);
        self
    }

    /// A round of which no step has been taken.
    #[inline(always)]
    fn round(&self) -> Round<L> {
        let room = self.zeta.room();
        let (zero, one) = (L::splat(room, 0), L::splat(room, 1));
        let (f, g) = (self.f[0], self.g[0]);
        Round { f, g, u: one, v: zero, q: zero, r: one, zeta: self.zeta }
    }

    /// Has all digits follow the lowest ones through a round.
    #[inline(always)]
    fn follow(&mut self, round: &Round<L>) {
        let Round { u, v, q, r, zeta, .. } = *round;
        let (f, g) = (combined([u, v], [&self.f, &self.g]), combined([q, r], [&self.f, &self.g]));
        let (d, e) = (combined([u, v], [&self.d, &self.e]), combined([q, r], [&self.d, &self.e]));
        (self.f, self.g) = (f.shifted(), g.shifted());
        (self.d, self.e) = (d.reduced(&self.m, self.k0), e.reduced(&self.m, self.k0));
        self.zeta = zeta;
    }

    /// d with the sign of f, and 2·m: positive and below 4·m.
    #[inline(always)]
    pub(crate) fn quotient(self) -> [L; D] {
        let negative = self.f[D - 1].top_bit();
        let mut columns = self.m;
        for (column, d) in columns.iter_mut().zip(self.d) {
            let twice = column.add(*column);
            *column = twice.sub(d).select(negative, twice.add(d));
        }
        carried(columns)
    }
}

/// What the steps of a round do to the lowest digits of f and g, and the factors by which all
/// others follow: 2^steps times f becomes u·f + v·g, and g becomes q·f + r·g.
#[derive(Clone, Copy)]
struct Round<L> {
    f: L,
    g: L,
    u: L,
    v: L,
    q: L,
    r: L,
    zeta: L,
}

impl<L: Lanes> Round<L> {
    /// If δ > 0 and g is odd: δ, f, g = 1 − δ, g, (g − f)/2. If not: δ, f, g = 1 + δ, f, (g + f)/2,
    /// or g/2 where that is even.
    #[inline(always)]
    fn step(&mut self) {
        let Round { f, g, u, v, q, r, zeta } = *self;
        let ones = L::splat(f.room(), u64::MAX);
        let lowest_bit = g.shl(63);
        let (odd, positive) = (lowest_bit.top_bit(), zeta.top_bit());
        let exchange = zeta.and(lowest_bit).top_bit();
        let g = g.add(negated(f, positive)).select(odd, g);
        let q = q.add(negated(u, positive)).select(odd, q);
        let r = r.add(negated(v, positive)).select(odd, r);
        let f = f.add(g).select(exchange, f);
        let u = u.add(q).select(exchange, u).shl(1);
        let v = v.add(r).select(exchange, v).shl(1);
        let zeta = zeta.xor(ones).select(exchange, zeta).add(ones);
        *self = Round { f, g: g.shr(1), u, v, q, r, zeta };
    }
}

/// −word where the mask is set, word elsewhere.
#[inline(always)]
fn negated<L: Lanes>(word: L, mask: LaneMask) -> L {
    L::splat(word.room(), 0).sub(word).select(mask, word)
}

/// A sum of two products: digits, not carried, and one more.
struct Sum<L, const D: usize>([L; D], L);

/// The sum of two products of a factor of at most 50 bits and a number, all of them signed.
///
/// A multiply-add takes digits for unsigned: where a factor or a number is negative, it takes 2^52
/// or 2^(52·D) too much of it.
#[inline(always)]
fn combined<L: Lanes, const D: usize>(factors: [L; 2], numbers: [&[L; D]; 2]) -> Sum<L, D> {
    let room = factors[0].room();
    let (mut low, mut top) = ([L::splat(room, 0); D], L::splat(room, 0));
    for (factor, number) in factors.into_iter().zip(numbers) {
        let negative = factor.top_bit();
        each_digit!(D, i => {
            let digit = number[i];
            low[i] = low[i].madd52lo(factor, digit);
            let above = if i + 1 < D { &mut low[i + 1] } else { &mut top };
            let sum = above.madd52hi(factor, digit);
            *above = sum.sub(digit).select(negative, sum);
        });
        let factor = factor.and(L::splat(room, DIGIT_MASK));
        top = top.sub(factor).select(number[D - 1].top_bit(), top);
    }
    Sum(low, top)
}

impl<L: Lanes, const D: usize> Sum<L, D> {
    /// Divides by 2^50, of which the sum is a multiple.
    #[inline(always)]
    fn shifted(self) -> [L; D] {
        let Sum(mut digits, top) = self.carried();
        let mask = L::splat(top.room(), DIGIT_MASK);
        each_digit!(D, i => {
            let above = if i + 1 < D { digits[i + 1].shl(2).and(mask) } else { top.shl(2) };
            digits[i] = digits[i].shr(ROUND_STEPS).or(above);
        });
        digits
    }

    /// Divides by 2^52 modulo m, where k0 is −1/m modulo 2^52.
    #[inline(always)]
    fn reduced(mut self, m: &[L; D], k0: L) -> [L; D] {
        let quotient = L::splat(k0.room(), 0).madd52lo(self.0[0], k0);
        each_digit!(D, i => {
            self.0[i] = self.0[i].madd52lo(quotient, m[i]);
            let above = if i + 1 < D { &mut self.0[i + 1] } else { &mut self.1 };
            *above = above.madd52hi(quotient, m[i]);
        });
        let Sum(mut digits, top) = self.carried();
        each_digit!(D, i => digits[i] = if i + 1 < D { digits[i + 1] } else { top });
        digits
    }

    #[inline(always)]
    fn carried(self) -> Self {
        let Sum(columns, top) = self;
        let mut digits = carried(columns);
        let highest = &mut digits[D - 1];
        let top = top.add(highest.shr_signed(52));
        *highest = highest.and(L::splat(top.room(), DIGIT_MASK));
        Sum(digits, top)
    }
}

/// Carries all columns but the highest.
#[inline(always)]
fn carried<L: Lanes, const D: usize>(mut columns: [L; D]) -> [L; D] {
    let mask = L::splat(columns[0].room(), DIGIT_MASK);
    each_digit!(D, i => if i + 1 < D {
        columns[i + 1] = columns[i + 1].add(columns[i].shr_signed(52));
        columns[i] = columns[i].and(mask);
    });
    columns
}
