//! Multiplications of mont::one: a product, and Montgomery's reduction by two half products.
//!
//! The quotients are the lower half of a product of the lower half of the columns and of −1/m
//! modulo R; then the upper half of quotients times m is all that has to be added, and one carry
//! from the lower half. No quotient waits for the one before it. See `docs/design/radix52.md`.
//!
//! Columns are sums in registers that stay where they are. A digit of one factor, in all lanes,
//! times the digits of the other one that belong to the same columns is added to each of them; low
//! and high halves of products have sums of their own, as they differ in weight by 2^52 while
//! digits have 51 bits.

use core::array;

use widelane_secret::hidden;

use super::super::modulus::{Modulus, ShortModulus};
use super::Operation;
use super::pairs::{
    ABOVE_DIAGONAL, ALL, COUNT, LOWER, Multiplier, Pair, PairTable, SelectPair, Shifted, UPPER,
    each, reversed,
};
use crate::digits::{SHORT_BITS, SHORT_MASK};
use crate::lanes::{LaneMask, Lanes};
use crate::registers::Task;

/// More than the columns below it carry into any column, and less than a digit has.
const CARRY_MAX: u64 = 1 << 10;

/// The most blocks whose sums find place in the registers.
const GROUP_MAX: usize = 11;

/// Factors and moduli m of two multiplications side by side: of `D` digits, an odd number, in `R`
/// registers of `W` digits of each.
#[repr(C, align(64))]
pub(super) struct Products<L: Lanes, const R: usize, const W: usize, const D: usize> {
    /// What is squared or multiplied, and the result, below 2·m.
    x: Shifted<L, R, W>,
    /// The other factor.
    y: Pair<L, R>,
    m: Shifted<L, R, W>,
    /// −1/m modulo R.
    inverse: Shifted<L, R, W>,
    /// What digits of m the quotients meet with low halves in the last column of the lower half,
    /// and with high halves in the column before.
    reversed: [Pair<L, R>; 2],
    /// The lower half of the product, carried.
    product: Pair<L, R>,
    quotients: Pair<L, R>,
}

impl<L: Lanes, const R: usize, const W: usize, const D: usize> Products<L, R, W, D> {
    /// How many more digits the registers have. Blocks of columns begin so far below the lowest
    /// one that those of the upper half begin with it.
    const PADDING: usize = R * W - D;
    /// How many blocks of columns are computed at a time.
    const GROUP: usize = R.div_ceil(R.div_ceil(GROUP_MAX));

    /// The lowest column of a block of a half.
    const fn first_column<const HALF: bool>(block: usize) -> isize {
        let block = if HALF { block + R } else { block };
        (block * W).cast_signed() - Self::PADDING.cast_signed()
    }

    /// The digit that the lowest column of block `member` of a group takes from the factor that is
    /// not taken row by row.
    const fn first_digit<const HALF: bool, const GROUP: usize>(member: usize, row: isize) -> isize {
        Self::first_column::<HALF>(GROUP * Self::GROUP + member) - row
    }

    /// The lowest digit of a block that meets a row, where the first one is digit `first`.
    const fn lowest<const PART: bool>(first: isize, row: isize) -> isize {
        if PART == ABOVE_DIAGONAL && row + 1 > first { row + 1 - first } else { 0 }
    }

    /// Whether a row, or with high halves the one before it, brings anything to a block.
    const fn meets<const HALF: bool, const PART: bool, const GROUP: usize>(
        member: usize,
        row: isize,
    ) -> bool {
        let first = Self::first_digit::<HALF, GROUP>(member, row);
        GROUP * Self::GROUP + member < R
            && first + W.cast_signed() > 0
            && first < D.cast_signed()
            && Self::lowest::<PART>(first, row - 1) < W.cast_signed()
    }

    /// The columns of the lower half of the product, or of the upper one.
    #[inline(always)]
    fn product<const HALF: bool>(
        &self,
        room: L::Room,
        masks: &Masks,
        operation: Operation,
    ) -> [L; R] {
        let mut sums = Sums::<L, R, W, D>::zero(room);
        match operation {
            Operation::Multiply => {
                sums.add_product::<HALF, ALL>(room, masks, self.y.words(), &self.x);
                sums.columns()
            }
            Operation::Square => {
                let digits = self.x.numbers().words();
                sums.add_product::<HALF, ABOVE_DIAGONAL>(room, masks, digits, &self.x);
                let mut columns = sums.columns();
                self.double_and_add_squares::<HALF>(room, masks, &mut columns);
                columns
            }
        }
    }

    /// Doubles columns, and adds the squares of the digits, which belong to two columns each.
    #[inline(always)]
    fn double_and_add_squares<const HALF: bool>(
        &self,
        room: L::Room,
        masks: &Masks,
        columns: &mut [L; R],
    ) {
        // A block begins with an odd column: high half of one digit, low half of the next one.
        let index = L::from_fn(room, |lane| {
            let (digit, number) = (lane / COUNT, lane % COUNT);
            (digit.div_ceil(2) * COUNT + number) as u64
        });
        each!(BLOCK in 0..R => {
            let digit = (Self::first_column::<HALF>(BLOCK) - 1) / 2;
            if digit < D.cast_signed() {
                let mut digits = self.x.digits_from(room, digit);
                if W > 2 {
                    digits = digits.permute(index);
                }
                let sum = columns[BLOCK];
                let sum = sum.madd52hi(digits, digits).select(masks.odd_columns, sum);
                let sum = sum.add(sum);
                columns[BLOCK] = sum.madd52lo(digits, digits).select(masks.even_columns, sum);
            }
        });
    }

    /// Carries what columns have above their digit to the next one. No more than one is then left
    /// above the 51 bits of any. Returns what the last one carries, in the place of the lowest.
    #[inline(always)]
    fn carry(room: L::Room, columns: &mut [L; R]) -> L {
        let mask = L::splat(room, SHORT_MASK);
        let mut below = L::splat(room, 0);
        each!(BLOCK in 0..R => {
            let carry = columns[BLOCK].shr(SHORT_BITS);
            columns[BLOCK] = columns[BLOCK].and(mask).add(carry.shift_in(below, COUNT));
            below = carry;
        });
        L::splat(room, 0).shift_in(below, COUNT)
    }

    /// What the lower half of product and quotients times m, all of whose digits are zero, carries
    /// into the upper half, in the lanes of each number.
    ///
    /// The last column alone tells: what the others carry into it makes it a multiple of 2^51.
    #[inline(always)]
    fn carry_of_lower_half(
        &self,
        room: L::Room,
        masks: &Masks,
        product: L,
        quotients: &[L; R],
    ) -> L {
        let [mut low, mut high] = [L::splat(room, 0); 2];
        each!(BLOCK in 0..R => {
            let quotients = quotients[BLOCK];
            low = low.madd52lo(quotients, L::load(room, &self.reversed[0].0[BLOCK]));
            high = high.madd52hi(quotients, L::load(room, &self.reversed[1].0[BLOCK]));
        });
        let mut sum = low.add(high.add(high));
        let product = product.add(L::splat(room, CARRY_MAX));
        sum = sum.add(product).select(masks.from[W - 1], sum);
        each!(STEP in 0..W.ilog2() as usize => {
            sum = sum.add(sum.shift_in(sum, COUNT << STEP));
        });
        sum.shr(SHORT_BITS)
    }

    #[inline(always)]
    fn operate(&mut self, room: L::Room, masks: &Masks, operation: Operation) {
        let mut low = self.product::<LOWER>(room, masks, operation);
        let carry = Self::carry(room, &mut low);
        self.product.store(&low);
        // Here, where it hides how long the lower half takes to be carried.
        let mut high = self.product::<UPPER>(room, masks, operation);
        high[0] = high[0].add(carry);

        // From an index that LLVM does not know, or it would move digits from the registers where
        // they were stored from, which takes a port that is busy, instead of loading them.
        let lowest = Self::PADDING * COUNT + masks.nothing;
        let mut sums = Sums::<L, R, W, D>::zero(room);
        let digits = &self.product.words()[lowest..];
        sums.add_product::<LOWER, ALL>(room, masks, digits, &self.inverse);
        let mut quotients = sums.columns();
        Self::carry(room, &mut quotients);
        self.quotients.store(&quotients);

        let carry = self.carry_of_lower_half(room, masks, low[R - 1], &quotients);
        let mut sums = Sums::<L, R, W, D>::zero(room);
        sums.low = high;
        let digits = &self.quotients.words()[lowest..];
        sums.add_product::<UPPER, ALL>(room, masks, digits, &self.m);
        let mut x = sums.columns();
        x[0] = x[0].add(carry).select(masks.lowest_digits, x[0]);
        Self::carry(room, &mut x);
        self.x.store(room, &x, Self::IS_BEYOND_READ);
    }

    /// Whether digits are read that begin behind those of the last register but one.
    const IS_BEYOND_READ: bool = D > (R - 1) * W + 1;
}

impl<L: Lanes, const R: usize, const W: usize, const D: usize> Multiplier<L, R>
    for Products<L, R, W, D>
{
    fn new<const LONG: usize>(
        room: L::Room,
        moduli: [&Modulus<LONG>; COUNT],
        short: [&ShortModulus<LONG>; COUNT],
    ) -> Self {
        assert!(D == LONG + 1 && D % 2 == 1 && R == D.div_ceil(W) && COUNT * W == L::LANES);
        let [m, inverse] = Pair::<L, R>::of_moduli(moduli, short);
        let mut multiplier = Products {
            x: Shifted::ZERO,
            y: Pair::ZERO,
            m: Shifted::ZERO,
            inverse: Shifted::ZERO,
            reversed: [1, 2].map(|k| reversed(&m, D - k, Self::PADDING)),
            product: Pair::ZERO,
            quotients: Pair::ZERO,
        };
        for (target, numbers) in [(&mut multiplier.m, &m), (&mut multiplier.inverse, &inverse)] {
            L::call(room, Place { numbers, target });
        }
        multiplier
    }

    fn set_x(&mut self, room: L::Room, x: &Pair<L, R>) {
        L::call(room, Place { numbers: x, target: &mut self.x });
    }

    fn set_y(&mut self, _room: L::Room, y: &Pair<L, R>) {
        self.y = *y;
    }

    fn x(&self, _room: L::Room) -> Pair<L, R> {
        *self.x.numbers()
    }

    fn run(&mut self, room: L::Room, operation: Operation, times: usize) {
        L::call(room, Turn { multiplier: self, operation, times });
    }

    fn select(&mut self, room: L::Room, table: &PairTable<L, R>, indices: [u64; COUNT]) {
        L::call(room, SelectPair { table, indices, target: &mut self.y });
    }

    fn wipe(&mut self) {
        let Products { x, y, m, inverse, reversed, product, quotients } = self;
        for numbers in [x, m, inverse] {
            numbers.wipe();
        }
        for numbers in reversed.iter_mut().chain([y, product, quotients]) {
            numbers.wipe();
        }
    }
}

/// Masks that LLVM does not know, or it would turn masked multiply-adds into others and moves.
struct Masks {
    /// The lanes of digits from that one on.
    from: [LaneMask; 4],
    lowest_digits: LaneMask,
    /// Every other digit, from the lowest one on.
    odd_columns: LaneMask,
    even_columns: LaneMask,
    /// Zero.
    nothing: usize,
}

impl Masks {
    #[inline(always)]
    fn new<const W: usize>() -> Self {
        let hide = |bits: u8| LaneMask::from_bits(hidden(u64::from(bits)) as u8);
        let every_other = 0b0011_0011;
        Masks {
            from: array::from_fn(|first| hide(u8::MAX << (first.min(W - 1) * COUNT))),
            lowest_digits: hide((1 << COUNT) - 1),
            odd_columns: hide(every_other),
            even_columns: hide(!every_other),
            nothing: hidden(0) as usize,
        }
    }

    /// `sum` in the lanes below those of digit `lowest`, `more` from there on.
    #[inline(always)]
    fn keep_below<L: Lanes>(&self, lowest: isize, sum: L, more: L) -> L {
        if lowest <= 0 { more } else { more.select(self.from[lowest.cast_unsigned()], sum) }
    }
}

/// Sums of low and of high halves of products, by blocks of columns.
struct Sums<L, const R: usize, const W: usize, const D: usize> {
    low: [L; R],
    high: [L; R],
}

impl<L: Lanes, const R: usize, const W: usize, const D: usize> Sums<L, R, W, D> {
    #[inline(always)]
    fn zero(room: L::Room) -> Self {
        let zero = L::splat(room, 0);
        Sums { low: [zero; R], high: [zero; R] }
    }

    /// The columns: high halves of products of digits of 51 bits count twice.
    #[inline(always)]
    fn columns(&self) -> [L; R] {
        let mut columns = self.low;
        each!(BLOCK in 0..R => {
            let high = self.high[BLOCK];
            columns[BLOCK] = columns[BLOCK].add(high.add(high));
        });
        columns
    }

    /// Adds half of the columns of a product of `D` digits by as many.
    #[inline(always)]
    fn add_product<const HALF: bool, const PART: bool>(
        &mut self,
        room: L::Room,
        masks: &Masks,
        rows: &[u64],
        columns: &Shifted<L, R, W>,
    ) {
        assert!(rows.len() >= D * COUNT, "there is a digit of each number for each row");
        self.add_group::<HALF, PART, 0>(room, masks, rows, columns);
        if const { Products::<L, R, W, D>::GROUP < R } {
            self.add_group::<HALF, PART, 1>(room, masks, rows, columns);
        }
    }

    /// Adds a group of blocks of columns, row by row: low halves of a row, and high halves of the
    /// row before, which belong to the same columns if they have the same factors.
    #[inline(always)]
    fn add_group<const HALF: bool, const PART: bool, const GROUP: usize>(
        &mut self,
        room: L::Room,
        masks: &Masks,
        rows: &[u64],
        columns: &Shifted<L, R, W>,
    ) {
        let mut before = L::splat(room, 0);
        macro_rules! rows {
            ($($row:literal)*) => {
                $(if const { $row < D + 1 } {
                    let digit = if const { $row < D } {
                        splat_digit(room, rows, $row)
                    } else {
                        before
                    };
                    each!(MEMBER in 0..Products::<L, R, W, D>::GROUP => {
                        if const {
                            Products::<L, R, W, D>::meets::<HALF, PART, GROUP>(MEMBER, $row)
                        } {
                            let block = GROUP * Products::<L, R, W, D>::GROUP + MEMBER;
                            let first =
                                Products::<L, R, W, D>::first_digit::<HALF, GROUP>(MEMBER, $row);
                            let factors = columns.digits_from(room, first);
                            let lowest = Products::<L, R, W, D>::lowest::<PART>(first, $row);
                            if $row < D && lowest < W.cast_signed() {
                                let sum = self.low[block];
                                let more = sum.madd52lo(digit, factors);
                                self.low[block] = masks.keep_below(lowest, sum, more);
                            }
                            if $row > 0 {
                                let lowest =
                                    Products::<L, R, W, D>::lowest::<PART>(first, $row - 1);
                                let sum = self.high[block];
                                let more = sum.madd52hi(before, factors);
                                self.high[block] = masks.keep_below(lowest, sum, more);
                            }
                        }
                    }; 0 1 2 3 4 5 6 7 8 9 10);
                    before = digit;
                })*
            };
        }
        rows!(
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20
            21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41
        );
        let _ = before;
    }
}

/// One digit of each number, in all lanes of that number.
#[inline(always)]
fn splat_digit<L: Lanes>(room: L::Room, words: &[u64], digit: usize) -> L {
    L::splat_pair(room, [words[2 * digit], words[2 * digit + 1]])
}

/// Stores numbers moved up by any number of digits.
struct Place<'a, L: Lanes, const R: usize, const W: usize> {
    numbers: &'a Pair<L, R>,
    target: &'a mut Shifted<L, R, W>,
}

impl<L: Lanes, const R: usize, const W: usize> Task<L> for Place<'_, L, R, W> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: L::Room) {
        self.target.store(room, &self.numbers.load(room), true);
    }
}

/// An operation, so many times.
struct Turn<'a, L: Lanes, const R: usize, const W: usize, const D: usize> {
    multiplier: &'a mut Products<L, R, W, D>,
    operation: Operation,
    times: usize,
}

impl<L: Lanes, const R: usize, const W: usize, const D: usize> Task<L> for Turn<'_, L, R, W, D> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: L::Room) {
        let masks = Masks::new::<W>();
        for _ in 0..self.times {
            self.multiplier.operate(room, &masks, self.operation);
        }
    }
}
