//! Numbers modulo a prime, one per lane: carried elements, sums still to be carried, products.
//!
//! Three types keep carries honest. An [`Element`] has digits below 2^52 and may be multiplied; a
//! [`Columns`] is a sum of elements with signed digits; a [`Product`] is a sum of products. Only
//! [`Columns::carry`] and [`Field::settle`] lead back to an element. `docs/design/nist-curves.md`
//! has the bounds.

use core::array;
use core::marker::PhantomData;

use crate::digits::{CurveModulus, DIGIT_MASK};
use crate::lanes::{LaneMask, Lanes};
use crate::registers::Task;

/// A prime modulus m of `D` digits, below R/16 for R = 2^(52·D).
pub(super) trait Prime<const D: usize>: Sized {
    /// The prime.
    const MODULUS: CurveModulus<D>;

    /// Computes product·R^-1 mod m, between product/R and product/R + 1.1·m, not carried.
    fn reduce<L: Lanes>(product: Product<Self, L, D>) -> Columns<Self, L, D>;
}

/// The prime of a curve's coordinates.
pub(super) trait Field<const D: usize>: Prime<D> {
    /// Brings a number between −2^10·m and 2^10·m, its columns below 2^61, to an element congruent
    /// to it.
    fn settle<L: Lanes>(columns: Columns<Self, L, D>) -> Element<Self, L, D>;
}

/// A number below 4·m in each lane, in digits below 2^52; mostly in Montgomery form.
pub(super) struct Element<P, L, const D: usize>(pub [L; D], PhantomData<P>);

/// A sum of elements in each lane: signed digits of up to 61 bits, not carried.
pub(super) struct Columns<P, L, const D: usize>(pub [L; D], PhantomData<P>);

/// A sum of products of elements in each lane: signed digits of up to 61 bits, not carried.
pub(super) struct Product<P, L, const D: usize> {
    pub low: [L; D],
    pub high: [L; D],
    prime: PhantomData<P>,
}

impl<P, L: Lanes, const D: usize> Clone for Element<P, L, D> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<P, L: Lanes, const D: usize> Copy for Element<P, L, D> {}

impl<P, L: Lanes, const D: usize> Clone for Columns<P, L, D> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<P, L: Lanes, const D: usize> Copy for Columns<P, L, D> {}

impl<P: Prime<D>, L: Lanes, const D: usize> Element<P, L, D> {
    /// Takes digits as they are: carried, and below 4·m.
    #[inline(always)]
    pub fn from_digits(digits: [L; D]) -> Self {
        Element(digits, PhantomData)
    }

    /// The same number in all lanes.
    #[inline(always)]
    pub fn splat(room: L::Room, digits: &[u64; D]) -> Self {
        Self::from_digits(array::from_fn(|index| L::splat(room, digits[index])))
    }

    /// The number that `digits` says for each lane.
    #[inline(always)]
    pub fn from_lanes(room: L::Room, digits: impl Fn(usize) -> [u64; D]) -> Self {
        Self::from_digits(array::from_fn(|index| L::from_fn(room, |lane| digits(lane)[index])))
    }

    /// Zero.
    #[inline(always)]
    pub fn zero(room: L::Room) -> Self {
        Self::splat(room, &[0; D])
    }

    /// The Montgomery form of one.
    #[inline(always)]
    pub fn one(room: L::Room) -> Self {
        Self::splat(room, &P::MODULUS.one)
    }

    #[inline(always)]
    pub fn room(self) -> L::Room {
        self.0[0].room()
    }

    /// The number as a sum.
    #[inline(always)]
    pub fn columns(self) -> Columns<P, L, D> {
        Columns::from_digits(self.0)
    }

    /// self + other, not carried.
    #[inline(always)]
    pub fn plus(self, other: Self) -> Columns<P, L, D> {
        self.columns().plus(other)
    }

    /// self − other, not carried.
    #[inline(always)]
    pub fn minus(self, other: Self) -> Columns<P, L, D> {
        self.columns().minus(other)
    }

    /// The product self·other·R^-1.
    #[inline(always)]
    pub fn times(self, other: Self) -> Self {
        L::call(self.room(), Times(&self, &other))
    }

    /// The product self²·R^-1.
    #[inline(always)]
    pub fn squared(self) -> Self {
        L::call(self.room(), Squared(&self))
    }

    /// The columns of self·other.
    #[inline(always)]
    pub fn product(self, other: Self) -> Product<P, L, D> {
        let mut product = Product::<P, L, D>::zero(self.room());
        each_digit!(D, i => each_digit!(D, j => {
            product.add_product(i + j, self.0[i], other.0[j]);
        }));
        product
    }

    /// The columns of self².
    #[inline(always)]
    pub fn square(self) -> Product<P, L, D> {
        let mut product = Product::<P, L, D>::zero(self.room());
        each_digit!(D, i => each_digit!(D, j => if i < j {
            product.add_product(i + j, self.0[i], self.0[j]);
        }));
        let mut product = product.doubled();
        each_digit!(D, i => product.add_product(2 * i, self.0[i], self.0[i]));
        product
    }

    /// The number in plain form, below m.
    #[inline(always)]
    pub fn leave_montgomery(self) -> Self {
        let mut one = [0; D];
        one[0] = 1;
        self.times(Self::splat(self.room(), &one)).canonical()
    }

    /// The Montgomery form of a number in plain form.
    #[inline(always)]
    pub fn enter_montgomery(self) -> Self {
        self.times(Self::splat(self.room(), &P::MODULUS.rr))
    }

    /// The number below m that is congruent.
    #[inline(always)]
    pub fn canonical(self) -> Self {
        L::call(self.room(), Canonical(&self))
    }

    /// In which lanes a canonical number is zero.
    #[inline(always)]
    pub fn is_zero(self) -> LaneMask {
        let seen = self.0.into_iter().reduce(L::or).expect("a number has digits");
        seen.equals(L::splat(seen.room(), 0))
    }

    /// In which lanes two canonical numbers are equal.
    #[inline(always)]
    pub fn equals(self, other: Self) -> LaneMask {
        let mut equal = LaneMask::ALL;
        for index in 0..D {
            equal = equal & self.0[index].equals(other.0[index]);
        }
        equal
    }

    /// self where the mask is set, other elsewhere.
    #[inline(always)]
    pub fn select(self, mask: LaneMask, other: Self) -> Self {
        let mut digits = self.0;
        for (digit, other) in digits.iter_mut().zip(other.0) {
            *digit = digit.select(mask, other);
        }
        Self::from_digits(digits)
    }

    /// The number of lane `index` in each lane.
    #[inline(always)]
    pub fn permute(self, index: L) -> Self {
        let mut digits = self.0;
        for digit in &mut digits {
            *digit = digit.permute(index);
        }
        Self::from_digits(digits)
    }

    /// The digits of one lane.
    pub fn lane(self, lane: usize) -> [u64; D] {
        self.0.map(|digit| digit.row().as_ref()[lane])
    }
}

impl<P: Field<D>, L: Lanes, const D: usize> Element<P, L, D> {
    /// −self where the mask is set, self elsewhere.
    #[inline(always)]
    pub fn negated(self, mask: LaneMask) -> Self {
        Self::zero(self.room()).minus(self).settle().select(mask, self)
    }
}

impl<P: Prime<D>, L: Lanes, const D: usize> Columns<P, L, D> {
    #[inline(always)]
    pub fn from_digits(digits: [L; D]) -> Self {
        Columns(digits, PhantomData)
    }

    /// self + other.
    #[inline(always)]
    pub fn plus(self, other: Element<P, L, D>) -> Self {
        let mut columns = self.0;
        for (column, other) in columns.iter_mut().zip(other.0) {
            *column = column.add(other);
        }
        Self::from_digits(columns)
    }

    /// self − other.
    #[inline(always)]
    pub fn minus(self, other: Element<P, L, D>) -> Self {
        let mut columns = self.0;
        for (column, other) in columns.iter_mut().zip(other.0) {
            *column = column.sub(other);
        }
        Self::from_digits(columns)
    }

    /// self + other.
    #[inline(always)]
    pub fn plus_columns(self, other: Self) -> Self {
        let mut columns = self.0;
        for (column, other) in columns.iter_mut().zip(other.0) {
            *column = column.add(other);
        }
        Self::from_digits(columns)
    }

    /// self − other.
    #[inline(always)]
    pub fn minus_columns(self, other: Self) -> Self {
        let mut columns = self.0;
        for (column, other) in columns.iter_mut().zip(other.0) {
            *column = column.sub(other);
        }
        Self::from_digits(columns)
    }

    /// self·2^`bits`.
    #[inline(always)]
    pub fn shl(self, bits: u32) -> Self {
        Self::from_digits(self.0.map(|column| column.shl(bits)))
    }

    /// The element that these columns say already: below 4·m and not negative.
    #[inline(always)]
    pub fn carry(self) -> Element<P, L, D> {
        let mut digits = self.0;
        let mask = L::splat(digits[0].room(), DIGIT_MASK);
        for index in 1..D {
            digits[index] = digits[index].add(digits[index - 1].shr_signed(52));
            digits[index - 1] = digits[index - 1].and(mask);
        }
        Element::from_digits(digits)
    }
}

impl<P: Field<D>, L: Lanes, const D: usize> Columns<P, L, D> {
    /// An element congruent to these columns, which may be negative.
    #[inline(always)]
    pub fn settle(self) -> Element<P, L, D> {
        P::settle(self)
    }
}

impl<P: Prime<D>, L: Lanes, const D: usize> Product<P, L, D> {
    #[inline(always)]
    fn zero(room: L::Room) -> Self {
        let zero = [L::splat(room, 0); D];
        Product { low: zero, high: zero, prime: PhantomData }
    }

    /// Column `index`.
    #[inline(always)]
    fn column(&mut self, index: usize) -> &mut L {
        if index < D { &mut self.low[index] } else { &mut self.high[index - D] }
    }

    /// Adds x·y, of whose words the low 52 bits count, to column `index` and to the next one.
    #[inline(always)]
    pub fn add_product(&mut self, index: usize, x: L, y: L) {
        let (low, high) = (*self.column(index), *self.column(index + 1));
        let [low, high] = L::madd52(low, high, x, y);
        *self.column(index) = low;
        *self.column(index + 1) = high;
    }

    /// Replaces column `index`.
    #[inline(always)]
    pub fn update(&mut self, index: usize, change: impl FnOnce(L) -> L) {
        let column = self.column(index);
        *column = change(*column);
    }

    /// A number of twice the length, of carried digits.
    #[inline(always)]
    pub fn from_digits(low: [L; D], high: [L; D]) -> Self {
        Product { low, high, prime: PhantomData }
    }

    /// 2·self.
    #[inline(always)]
    pub fn doubled(self) -> Self {
        let double = |column: L| column.add(column);
        Self::from_digits(self.low.map(double), self.high.map(double))
    }

    /// self − other·2^BITS.
    #[inline(always)]
    pub fn minus<const BITS: u32>(self, other: Self) -> Self {
        let difference = |left: [L; D], right: [L; D]| {
            array::from_fn(|index| left[index].sub(right[index].shl(BITS)))
        };
        Self::from_digits(difference(self.low, other.low), difference(self.high, other.high))
    }

    /// The sum divided by R.
    #[inline(always)]
    pub fn reduce(self) -> Columns<P, L, D> {
        P::reduce(self)
    }
}

/// A product in a function of its own: where one is not the hottest spot, there should be one only.
struct Times<'a, P, L, const D: usize>(&'a Element<P, L, D>, &'a Element<P, L, D>);

impl<P: Prime<D>, L: Lanes, const D: usize> Task<L> for Times<'_, P, L, D> {
    type Output = Element<P, L, D>;

    #[inline(always)]
    fn run(self, _room: L::Room) -> Self::Output {
        self.0.product(*self.1).reduce().carry()
    }
}

/// A square in a function of its own.
struct Squared<'a, P, L, const D: usize>(&'a Element<P, L, D>);

impl<P: Prime<D>, L: Lanes, const D: usize> Task<L> for Squared<'_, P, L, D> {
    type Output = Element<P, L, D>;

    #[inline(always)]
    fn run(self, _room: L::Room) -> Self::Output {
        self.0.square().reduce().carry()
    }
}

/// The number below m that is congruent, in a function of its own as well.
struct Canonical<'a, P, L, const D: usize>(&'a Element<P, L, D>);

impl<P: Prime<D>, L: Lanes, const D: usize> Task<L> for Canonical<'_, P, L, D> {
    type Output = Element<P, L, D>;

    #[inline(always)]
    fn run(self, room: L::Room) -> Element<P, L, D> {
        let m = Element::splat(room, &P::MODULUS.m);
        let zero = L::splat(room, 0);
        let mut number = *self.0;
        for _ in 0..3 {
            let difference = number.minus(m).carry();
            let negative = difference.0[D - 1].shr(63);
            number = number.select(!negative.equals(zero), difference);
        }
        number
    }
}

/// Montgomery's reduction for a prime without a special form.
#[inline(always)]
pub(super) fn reduce_dense<P: Prime<D>, L: Lanes, const D: usize>(
    mut product: Product<P, L, D>,
) -> Columns<P, L, D> {
    let room = product.low[0].room();
    let k0 = L::splat(room, P::MODULUS.k0);
    let zero = L::splat(room, 0);
    each_digit!(D, i => {
        let quotient = zero.madd52lo(product.low[i], k0);
        each_digit!(D, j => {
            product.add_product(i + j, quotient, L::splat(room, P::MODULUS.m[j]));
        });
        let carry = product.low[i].shr_signed(52);
        product.update(i + 1, |column| column.add(carry));
    });
    Columns::from_digits(product.high)
}
