//! The number-theoretic transform (FIPS 203, 4.3), and products of what it makes.
//!
//! Bounds are in `docs/design/ml-kem.md`; those of each step stand beside it.

use super::group::Group;
use super::numbers::{
    BARRETT, FIRST_LAYER, FORWARD, FactorRows, Factors, GAMMAS, INVERSE, LAST_LAYER, Q, Q_INVERSE,
    RESTORING, ROWS, SCALING,
};
use crate::coefficients::{Coefficients, Row};
use crate::registers::Task;

/// q, in both coefficients.
#[inline(always)]
pub(super) fn modulus<C: Coefficients>(room: C::Room) -> C {
    C::splat(room, Q | Q << 16)
}

/// Factors in registers.
#[derive(Clone, Copy)]
struct Multiplier<C> {
    factors: C,
    over_q: C,
}

impl<C: Coefficients> Multiplier<C> {
    #[inline(always)]
    fn new(room: C::Room, factors: Factors) -> Self {
        Multiplier {
            factors: C::splat(room, factors.factors),
            over_q: C::splat(room, factors.over_q),
        }
    }

    #[inline(always)]
    fn load(room: C::Room, rows: &FactorRows) -> Self {
        Multiplier { factors: C::load(room, &rows[0]), over_q: C::load(room, &rows[1]) }
    }

    /// The product modulo q, between −q and q.
    #[inline(always)]
    fn times(self, number: C, q: C) -> C {
        let quotient = number.mul_low(self.over_q);
        number.mul_high(self.factors).sub_each(quotient.mul_high(q))
    }
}

/// The same number modulo q, between −2q/3 and 2q/3.
#[inline(always)]
pub(super) fn reduce<C: Coefficients>(room: C::Room, number: C, q: C) -> C {
    let quotient = number.mul_rounded(C::splat(room, BARRETT | BARRETT << 16));
    number.sub_each(quotient.mul_low(q))
}

/// The same number modulo q, from 0 to q − 1.
#[inline(always)]
pub(super) fn canonical<C: Coefficients>(room: C::Room, number: C, q: C) -> C {
    let reduced = reduce(room, number, q);
    reduced.add_each(reduced.shr_signed(15).and(q))
}

/// A step of Cooley and Tukey: both bounds grow by q.
#[inline(always)]
fn forward<C: Coefficients>(a: C, b: C, factor: Multiplier<C>, q: C) -> (C, C) {
    let product = factor.times(b, q);
    (a.add_each(product), a.sub_each(product))
}

/// A step of Gentleman and Sande: the sum's bound is that of both, the product's is q.
#[inline(always)]
fn inverse<C: Coefficients>(a: C, b: C, factor: Multiplier<C>, q: C) -> (C, C) {
    (a.add_each(b), factor.times(b.sub_each(a), q))
}

/// Transforms polynomials whose coefficients are below q: then they are between −2q/3 and 2q/3.
pub(super) struct Forward<'a>(pub(super) &'a mut Group);

impl<C: Coefficients> Task<C> for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: C::Room) {
        let rows = &mut self.0.0;
        let q = modulus::<C>(room);
        let factor = Multiplier::new(room, FIRST_LAYER);
        for [x, y] in rows.as_chunks_mut().0 {
            let (a, b) = C::load(room, x).unzip(C::load(room, y));
            let (a, b) = forward(a, b, factor, q);
            let (a, b) = a.unzip(b);
            *x = a.row();
            *y = b.row();
        }
        two_layers::<C, 16, false>(room, rows, q);
        two_layers::<C, 4, false>(room, rows, q);
        // Seven layers: 8·q.
        two_layers::<C, 1, true>(room, rows, q);
    }
}

/// Two layers, whose steps are of `2·STEP` and of `STEP` rows; `REDUCED` behind them.
#[inline(always)]
fn two_layers<C: Coefficients, const STEP: usize, const REDUCED: bool>(
    room: C::Room,
    rows: &mut [Row; ROWS],
    q: C,
) {
    for (block, rows) in rows.chunks_exact_mut(4 * STEP).enumerate() {
        let first = ROWS / (4 * STEP) + block;
        let outer = Multiplier::load(room, &FORWARD[first]);
        let left = Multiplier::load(room, &FORWARD[2 * first]);
        let right = Multiplier::load(room, &FORWARD[2 * first + 1]);
        for index in 0..STEP {
            let load = |part: usize| C::load(room, &rows[index + part * STEP]);
            let (a, b, c, d) = (load(0), load(1), load(2), load(3));
            let (a, c) = forward(a, c, outer, q);
            let (b, d) = forward(b, d, outer, q);
            let (a, b) = forward(a, b, left, q);
            let (c, d) = forward(c, d, right, q);
            let mut store = |part: usize, number: C| {
                let number = if REDUCED { reduce(room, number, q) } else { number };
                rows[index + part * STEP] = number.row();
            };
            store(0, a);
            store(1, b);
            store(2, c);
            store(3, d);
        }
    }
}

/// Transforms sums of products, whose coefficients are up to q, back: then they are below q.
pub(super) struct Inverse<'a>(pub(super) &'a mut Group);

impl<C: Coefficients> Task<C> for Inverse<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: C::Room) {
        let rows = &mut self.0.0;
        let q = modulus::<C>(room);
        // From q to 4·q, and by reduction to q again, where two sums of sums are.
        two_layers_back::<C, 1, true>(room, rows, q);
        two_layers_back::<C, 4, true>(room, rows, q);
        two_layers_back::<C, 16, false>(room, rows, q);
        let scale = Multiplier::new(room, SCALING);
        let factor = Multiplier::new(room, LAST_LAYER);
        for [x, y] in rows.as_chunks_mut().0 {
            let (a, b) = C::load(room, x).unzip(C::load(room, y));
            // From 4·q to 8·q.
            let (a, b) = (scale.times(a.add_each(b), q), factor.times(b.sub_each(a), q));
            let (a, b) = a.unzip(b);
            *x = a.row();
            *y = b.row();
        }
    }
}

/// Two layers back, whose steps are of `STEP` and of `2·STEP` rows; sums are `REDUCED` behind them.
#[inline(always)]
fn two_layers_back<C: Coefficients, const STEP: usize, const REDUCED: bool>(
    room: C::Room,
    rows: &mut [Row; ROWS],
    q: C,
) {
    for (block, rows) in rows.chunks_exact_mut(4 * STEP).enumerate() {
        let first = ROWS / (4 * STEP) + block;
        let outer = Multiplier::load(room, &INVERSE[first]);
        let left = Multiplier::load(room, &INVERSE[2 * first]);
        let right = Multiplier::load(room, &INVERSE[2 * first + 1]);
        for index in 0..STEP {
            let load = |part: usize| C::load(room, &rows[index + part * STEP]);
            let (a, b, c, d) = (load(0), load(1), load(2), load(3));
            let (a, b) = inverse(a, b, left, q);
            let (c, d) = inverse(c, d, right, q);
            let (a, c) = inverse(a, c, outer, q);
            let (b, d) = inverse(b, d, outer, q);
            let reduced = |number: C| if REDUCED { reduce(room, number, q) } else { number };
            let mut store = |part: usize, number: C| rows[index + part * STEP] = number.row();
            store(0, reduced(a));
            store(1, reduced(b));
            store(2, c);
            store(3, d);
        }
    }
}

/// Multiplies second coefficients by the roots γ of their pairs, for [`Products`].
pub(super) struct TimesGamma<'a> {
    pub(super) source: &'a Group,
    pub(super) target: &'a mut Group,
}

impl<C: Coefficients> Task<C> for TimesGamma<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: C::Room) {
        let q = modulus::<C>(room);
        let rows = self.source.0.iter().zip(&GAMMAS);
        for ((source, factors), target) in rows.zip(&mut self.target.0) {
            let factors = Multiplier::load(room, factors);
            *target = factors.times(C::load(room, source), q).row();
        }
    }
}

/// The sums of `K` products modulo x² − γ, over R, between −q and q.
///
/// Multipliers are between −q and q, and are taken from the polynomial of their group that
/// `choices` names, if it names any; multiplicands are below 2^12.
pub(super) struct Products<'a, const K: usize, const CHOOSE: bool> {
    pub(super) multiplicands: &'a [Group; K],
    pub(super) multipliers: [&'a Group; K],
    pub(super) times_gamma: [&'a Group; K],
    pub(super) choices: &'a [Row; K],
    pub(super) target: &'a mut Group,
}

impl<C: Coefficients, const K: usize, const CHOOSE: bool> Task<C> for Products<'_, K, CHOOSE> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: C::Room) {
        for index in 0..ROWS {
            let mut first = C::splat(room, 0);
            let mut second = C::splat(room, 0);
            for j in 0..K {
                let a = C::load(room, &self.multiplicands[j].0[index]);
                let mut b = C::load(room, &self.multipliers[j].0[index]);
                let mut scaled = C::load(room, &self.times_gamma[j].0[index]);
                if CHOOSE {
                    let choice = C::load(room, &self.choices[j]);
                    (b, scaled) = (b.choose(choice), scaled.choose(choice));
                }
                // Each sum of two is below 2^12·q·2.
                first = first.add(a.mul_pairs(scaled));
                second = second.add(a.mul_pairs(b.shl(16).or(b.shr(16))));
            }
            let first = over_r(room, first).shr(16);
            self.target.0[index] = first.or(over_r(room, second)).row();
        }
    }
}

/// A word below q·2^15 over R modulo q: in its upper half, with zeros below.
#[inline(always)]
fn over_r<C: Coefficients>(room: C::Room, word: C) -> C {
    let quotient = word.mul_low(C::splat(room, Q_INVERSE));
    word.sub(quotient.mul_pairs(C::splat(room, Q)))
}

/// Adds one group to another.
pub(super) struct Add<'a> {
    pub(super) target: &'a mut Group,
    pub(super) source: &'a Group,
}

impl<C: Coefficients> Task<C> for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: C::Room) {
        for (target, source) in self.target.0.iter_mut().zip(&self.source.0) {
            *target = C::load(room, target).add_each(C::load(room, source)).row();
        }
    }
}

/// Replaces a group by another one minus it.
pub(super) struct SubtractFrom<'a> {
    pub(super) target: &'a mut Group,
    pub(super) source: &'a Group,
}

impl<C: Coefficients> Task<C> for SubtractFrom<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: C::Room) {
        for (target, source) in self.target.0.iter_mut().zip(&self.source.0) {
            *target = C::load(room, source).sub_each(C::load(room, target)).row();
        }
    }
}

/// Multiplies sums of products by the R that they lack, and adds another group.
pub(super) struct RestoreAndAdd<'a> {
    pub(super) target: &'a mut Group,
    pub(super) source: &'a Group,
}

impl<C: Coefficients> Task<C> for RestoreAndAdd<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: C::Room) {
        let q = modulus::<C>(room);
        let restoring = Multiplier::new(room, RESTORING);
        for (target, source) in self.target.0.iter_mut().zip(&self.source.0) {
            let product = restoring.times(C::load(room, target), q);
            *target = product.add_each(C::load(room, source)).row();
        }
    }
}
