//! Room fma256 of one: digits of 51 bits are multiplied as double-precision numbers.
//! Secret-independent.
//!
//! A fused multiply-add rounds once, so two of them split a product of digits exactly into a high
//! and a low half ([`Fma256x4::short_product`]). The algorithm is that of
//! [`products`](super::products): a product, and Montgomery's reduction by two half products. Here
//! both halves of a product of two digits come together, so the sums of high halves are those of
//! the columns above. See `docs/design/radix52.md`.
#![allow(unsafe_code, reason = "room: door and intrinsics")]

use core::arch::x86_64 as arch;
use core::array;
use core::mem::transmute;

use widelane_cpu::Fma256;
use widelane_secret::wipe;

use super::super::modulus::{Modulus, ShortModulus};
use super::pairs::{ABOVE_DIAGONAL, ALL, COUNT, LOWER, Multiplier, Pair, PairTable, UPPER, each};
use super::{ENTRIES, Operation};
use crate::digits::{SHORT_BITS, SHORT_MASK};
use crate::lanes::Fma256x4;
use crate::lanes::fma256_x4::{Doubles, Row, SHORT_HIGH, SHORT_LOW};
use crate::registers::{Register, Task};

/// 2^52 + 2^40: added to integers from −2^40 to 2^52 − 2^40, it makes them the lowest bits of a
/// double.
const INTEGER: u64 = (1023 + 52) << 52 | 1 << 40;
/// A multiple of 2^51 that makes columns positive.
const POSITIVE: u64 = 1 << 62;
/// What it carries into the next column, of which it is taken off.
const POSITIVE_CARRY: u64 = POSITIVE >> SHORT_BITS;
/// More than the columns below a column carry into it, either way, and less than a digit has.
const CARRY_MAX: u64 = 1 << 12;

impl Fma256x4 {
    /// The words, from −2^40 to 2^52 − 2^40, as numbers.
    #[inline(always)]
    fn to_doubles(self) -> Doubles {
        let integer = Self::splat(self.1, INTEGER);
        intrinsic!(_mm256_sub_pd(self.add(integer).bits(), integer.bits()))
    }

    /// The numbers, from −2^40 to 2^52 − 2^40, as words.
    #[inline(always)]
    fn from_doubles(room: Fma256, numbers: Doubles) -> Self {
        let integer = Self::splat(room, INTEGER);
        Self::of_bits(room, intrinsic!(_mm256_add_pd(numbers, integer.bits()))).sub(integer)
    }

    /// The digits moved up by one of each number; the lowest come from the register below.
    #[inline(always)]
    fn up_from(self, below: Self) -> Self {
        Fma256x4(intrinsic!(_mm256_permute2x128_si256::<0x21>(below.0, self.0)), self.1)
    }
}

/// Two numbers whose digits are taken one at a time: digit i of both is half of a row.
#[derive(Clone, Copy)]
struct Single<const R: usize>([Row; R]);

impl<const R: usize> Single<R> {
    const ZERO: Self = Single([Row::ZERO; R]);

    /// Half `index` of the rows, twice.
    #[inline(always)]
    fn half(&self, index: usize) -> Doubles {
        let [a, b, c, d] = self.0[index / 2].0;
        let half = if index.is_multiple_of(2) { [a, b] } else { [c, d] };
        // SAFETY: both types are the same number of bytes, and all their values are valid.
        let half = unsafe { transmute::<[f64; 2], arch::__m128d>(half) };
        intrinsic!(_mm256_broadcast_pd(&half))
    }

    fn wipe(&mut self) {
        for row in &mut self.0 {
            // SAFETY: both types are the same number of bytes, and all their values are valid.
            wipe(unsafe { transmute::<&mut [f64; 4], &mut [u64; 4]>(&mut row.0) });
        }
    }
}

/// Two numbers whose digits are taken two at a time: from even ones on in the first rows, from odd
/// ones on, the first of which is digit −1, in the others.
#[derive(Clone, Copy)]
struct Double<const R: usize> {
    from_even: Single<R>,
    from_odd: Single<R>,
}

impl<const R: usize> Double<R> {
    const ZERO: Self = Double { from_even: Single::ZERO, from_odd: Single::ZERO };
}

/// Factors and moduli m of two multiplications side by side: of D = 2·`R` − 1 digits, in `R`
/// registers.
///
/// Block k of the columns of a product is columns 2·k − 1 and 2·k, of both numbers. So its upper
/// half begins with a block, `R`.
#[repr(C, align(64))]
pub(super) struct Fma256Multiplier<const R: usize> {
    /// What is squared or multiplied, and the result, below 2·m.
    x: Double<R>,
    y: Single<R>,
    m: Double<R>,
    /// −1/m modulo 2^(51·D).
    inverse: Double<R>,
    /// The lower half of the product, then the quotients. Half k is digit k − 1.
    lower: Single<R>,
}

/// What columns begin with: those of which nothing is carried, those that are carried, half of both
/// for columns that are doubled, and those of the result.
const PLAIN: usize = 0;
const CARRIED: usize = 1;
const HALF_PLAIN: usize = 2;
const HALF_CARRIED: usize = 3;
const RESULT: usize = 4;

/// What the columns of block `k` begin with.
const fn begin<const R: usize>(kind: usize, k: usize) -> [u64; 2] {
    match kind {
        PLAIN => [0, 0],
        // Nothing is carried into the lowest of all.
        CARRIED if k == 0 => [POSITIVE, POSITIVE - POSITIVE_CARRY],
        // The last block of the result is not cut off.
        RESULT if k == 2 * R - 1 => [POSITIVE_CARRY.wrapping_neg(), 0],
        CARRIED | RESULT => [POSITIVE - POSITIVE_CARRY; 2],
        HALF_PLAIN | HALF_CARRIED => {
            // Less what the squares have in common.
            let [lower, upper] = begin::<R>(kind - HALF_PLAIN, k);
            [(lower / 2).wrapping_sub(SHORT_HIGH / 2), (upper / 2).wrapping_sub(SHORT_LOW / 2)]
        }
        _ => unreachable!(),
    }
}

/// The rows that bring something to block `k` of columns: even rows 2·h for h in the first range,
/// odd rows 2·h + 1 for h in the second one.
const fn rows_of_block<const R: usize>(k: usize, part: bool) -> [[usize; 2]; 2] {
    let (even, odd) = if part == ABOVE_DIAGONAL { (k.div_ceil(2), k / 2) } else { (k + 1, k) };
    let even = if even > R { R } else { even };
    let odd = if odd > R - 1 { R - 1 } else { odd };
    [[k.saturating_sub(R - 1), even], [k.saturating_sub(R), odd]]
}

/// Whether two rows 2·h and 2·h + 1 bring something to block `k`.
const fn meet<const R: usize>(k: usize, part: bool, h: usize) -> [bool; 2] {
    let [even, odd] = rows_of_block::<R>(k, part);
    [even[0] <= h && h < even[1], odd[0] <= h && h < odd[1]]
}

/// Those h for which two rows meet all of `count` blocks from `k` on.
const fn rows_of_all<const R: usize>(k: usize, count: usize, part: bool) -> [usize; 2] {
    let (first, last) = (rows_of_block::<R>(k, part), rows_of_block::<R>(k + count - 1, part));
    let start = if last[0][0] > first[1][0] { last[0][0] } else { first[1][0] };
    let end = if first[1][1] < last[1][1] { first[1][1] } else { last[1][1] };
    [start, if end < start { start } else { end }]
}

/// What the sums of low halves, or of high halves, of block `k` begin with: less what all its
/// products have in common.
const fn begin_of_sum<const R: usize>(
    begin: [u64; 2],
    common: u64,
    k: usize,
    part: bool,
) -> [u64; 4] {
    let [even, odd] = rows_of_block::<R>(k, part);
    let count = even[1].saturating_sub(even[0]) + odd[1].saturating_sub(odd[0]);
    let all = common.wrapping_mul(count as u64);
    let [lower, upper] = [begin[0].wrapping_sub(all), begin[1].wrapping_sub(all)];
    [lower, lower, upper, upper]
}

/// The longest numbers whose products have a text for each row.
const UNROLLED_MAX: usize = 11;

/// Adds what rows 2·h and 2·h + 1 bring to those blocks that they meet; h is a constant.
macro_rules! add_two_rows {
    ($sums:ident, $rows:ident, $factor:ident, $h:expr) => {
        each!(MEMBER in 0..G => {
            if const { meet::<R>(block::<R, HALF>(FIRST + MEMBER), PART, $h)[0] } {
                let row = const { block::<R, HALF>(FIRST + MEMBER).wrapping_sub($h) };
                $sums.add(MEMBER, $rows.half(2 * $h + SKIPPED), &$factor.from_odd.0[row]);
            }
            if const { meet::<R>(block::<R, HALF>(FIRST + MEMBER), PART, $h)[1] } {
                let row = const { block::<R, HALF>(FIRST + MEMBER).wrapping_sub($h + 1) };
                $sums.add(MEMBER, $rows.half(2 * $h + 1 + SKIPPED), &$factor.from_even.0[row]);
            }
        }; 0 1 2 3)
    };
}

/// Sums of low halves of products, and of high halves, which belong one column higher.
struct Sums<const G: usize> {
    low: [Fma256x4; G],
    high: [Fma256x4; G],
}

impl<const G: usize> Sums<G> {
    /// Sums up what belongs to `G` blocks of half of the columns from `FIRST` on. Digit i of `rows`
    /// is half i + `SKIPPED`.
    #[inline(always)]
    fn of_blocks<
        const R: usize,
        const HALF: bool,
        const FIRST: usize,
        const PART: bool,
        const BEGIN: usize,
        const SKIPPED: usize,
    >(
        room: Fma256,
        rows: &Single<R>,
        factor: &Double<R>,
    ) -> Self {
        let zero = Fma256x4::splat(room, 0);
        let mut sums = Sums { low: [zero; G], high: [zero; G] };
        each!(MEMBER in 0..G => {
            let [low, high] = const {
                let k = block::<R, HALF>(FIRST + MEMBER);
                [
                    begin_of_sum::<R>(begin::<R>(BEGIN, k), SHORT_LOW, k, PART),
                    begin_of_sum::<R>([0, 0], SHORT_HIGH, k, PART),
                ]
            };
            sums.low[MEMBER] = Fma256x4::load(room, &low);
            sums.high[MEMBER] = Fma256x4::load(room, &high);
        }; 0 1 2 3);
        if const { R <= UNROLLED_MAX } {
            sums.add_row_by_row::<R, HALF, FIRST, PART, SKIPPED>(rows, factor);
        } else {
            sums.add_in_a_loop::<R, HALF, FIRST, PART, SKIPPED>(rows, factor);
        }
        sums
    }

    /// Adds all that belongs to the blocks, with a text for each row.
    #[inline(always)]
    fn add_row_by_row<
        const R: usize,
        const HALF: bool,
        const FIRST: usize,
        const PART: bool,
        const SKIPPED: usize,
    >(
        &mut self,
        rows: &Single<R>,
        factor: &Double<R>,
    ) {
        each!(H in 0..R => {
            add_two_rows!(self, rows, factor, H);
        }; 0 1 2 3 4 5 6 7 8 9 10);
    }

    /// The same with a loop over the rows that meet all blocks.
    #[inline(always)]
    fn add_in_a_loop<
        const R: usize,
        const HALF: bool,
        const FIRST: usize,
        const PART: bool,
        const SKIPPED: usize,
    >(
        &mut self,
        rows: &Single<R>,
        factor: &Double<R>,
    ) {
        let [start, end] = const { rows_of_all::<R>(block::<R, HALF>(FIRST), G, PART) };
        let k = block::<R, HALF>(FIRST);
        each!(BELOW in 0..4 => {
            if const { rows_of_all::<R>(block::<R, HALF>(FIRST), G, PART)[0] > BELOW } {
                add_two_rows!(
                    self, rows, factor,
                    rows_of_all::<R>(block::<R, HALF>(FIRST), G, PART)[0].saturating_sub(BELOW + 1)
                );
            }
        }; 0 1 2 3);
        for h in start..end {
            let (even, odd) = (rows.half(2 * h + SKIPPED), rows.half(2 * h + 1 + SKIPPED));
            each!(MEMBER in 0..G => {
                // SAFETY: k + MEMBER − h is below R.
                let odd_factor = unsafe { factor.from_odd.0.get_unchecked(k + MEMBER - h) };
                let index = k + MEMBER - h - 1;
                // SAFETY: k + MEMBER − h is at least 1.
                let even_factor = unsafe { factor.from_even.0.get_unchecked(index) };
                self.add(MEMBER, even, odd_factor);
                self.add(MEMBER, odd, even_factor);
            }; 0 1 2 3);
        }
        each!(ABOVE in 0..4 => {
            add_two_rows!(
                self, rows, factor,
                rows_of_all::<R>(block::<R, HALF>(FIRST), G, PART)[1] + ABOVE
            );
        }; 0 1 2 3);
    }

    /// Adds the halves of a product to a block.
    #[inline(always)]
    fn add(&mut self, block: usize, digit: Doubles, factor: &Row) {
        let sums = [self.low[block], self.high[block]];
        [self.low[block], self.high[block]] = Fma256x4::add_short_product(sums, digit, factor);
    }
}

/// Block `index` of half of the columns.
const fn block<const R: usize, const HALF: bool>(index: usize) -> usize {
    if HALF == UPPER { R + index } else { index }
}

/// The columns of half of a product, and what its last block has for the next column.
struct Half<const R: usize> {
    columns: [Fma256x4; R],
    high: Fma256x4,
}

impl<const R: usize> Half<R> {
    /// The lower half of a product, or the upper one, into which `high` comes from below.
    #[inline(always)]
    fn of_product<const HALF: bool, const PART: bool, const BEGIN: usize, const SKIPPED: usize>(
        rows: &Single<R>,
        factor: &Double<R>,
        high: Fma256x4,
    ) -> Self {
        let room = high.1;
        let mut half = Half { columns: [Fma256x4::splat(room, 0); R], high };
        each!(GROUP in 0..R.div_ceil(4) => {
            const FIRST: usize = 4 * GROUP;
            macro_rules! group {
                ($size:literal) => {{
                    type Group = Sums<$size>;
                    let sums = Group::of_blocks::<R, HALF, FIRST, PART, BEGIN, SKIPPED>(
                        room, rows, factor,
                    );
                    half.put(FIRST, &sums);
                }};
            }
            if const { R >= FIRST + 4 } {
                group!(4);
            } else if const { R == FIRST + 3 } {
                group!(3);
            } else if const { R == FIRST + 2 } {
                group!(2);
            } else {
                group!(1);
            }
        }; 0 1 2 3 4 5 6 7 8 9 10);
        half
    }

    #[inline(always)]
    fn put<const G: usize>(&mut self, first: usize, sums: &Sums<G>) {
        each!(MEMBER in 0..G => {
            let high = sums.high[MEMBER];
            self.columns[first + MEMBER] = sums.low[MEMBER].add(high.up_from(self.high));
            self.high = high;
        }; 0 1 2 3);
    }
}

/// What columns have above their digit is carried to the next ones, all at once. Returns what the
/// last one carries, in the place of the lowest.
///
/// Columns are `POSITIVE` too large, and too small by what this carries, `POSITIVE_CARRY`; and so
/// is the next column into which the result goes.
#[inline(always)]
fn carry(columns: &mut [Fma256x4]) -> Fma256x4 {
    let room = columns[0].1;
    let zero = Fma256x4::splat(room, 0);
    let mut below = zero;
    for column in columns {
        let carry = column.shr(SHORT_BITS);
        *column = column.and(Fma256x4::splat(room, SHORT_MASK)).add(carry.up_from(below));
        below = carry;
    }
    zero.up_from(below)
}

impl<const R: usize> Fma256Multiplier<R> {
    #[inline(always)]
    fn operate(&mut self, room: Fma256, operation: Operation) {
        let zero = Fma256x4::splat(room, 0);
        let (mut low, upper) = match operation {
            Operation::Multiply => {
                let low = Half::of_product::<LOWER, ALL, CARRIED, 0>(&self.y, &self.x, zero);
                (low.columns, low.high)
            }
            Operation::Square => {
                let mut low = self.half_of_square::<LOWER, HALF_CARRIED>(zero);
                self.double_and_add_squares::<LOWER>(&mut low.columns);
                (low.columns, low.high)
            }
        };
        let carry_of_product = carry(&mut low);
        self.lower.store(&low);
        // Here, where it hides how long the lower half takes to be carried.
        let mut high = match operation {
            Operation::Multiply => {
                Half::of_product::<UPPER, ALL, PLAIN, 0>(&self.y, &self.x, upper).columns
            }
            Operation::Square => {
                let mut columns = self.half_of_square::<UPPER, HALF_PLAIN>(upper).columns;
                self.double_and_add_squares::<UPPER>(&mut columns);
                columns
            }
        };
        high[0] = high[0].add(carry_of_product);

        let product = Half::of_product::<LOWER, ALL, CARRIED, 1>(&self.lower, &self.inverse, zero);
        let mut quotients = product.columns;
        carry(&mut quotients);
        self.lower.store(&quotients);

        // All digits of the lower half of the product and of the quotients times m are zero. What
        // they carry into the upper half the last column alone tells: what the others carry into it
        // makes it a multiple of 2^51.
        let quotients = &self.lower;
        let (last, upper) = self.last_block_of_lower_half(room);
        let carry_of_lower_half = last.add(low[R - 1]).shr(SHORT_BITS);
        let carry_of_lower_half = carry_of_lower_half.sub(Fma256x4::splat(room, POSITIVE_CARRY));
        let mut x = Half::of_product::<UPPER, ALL, RESULT, 1>(quotients, &self.m, upper).columns;
        x[0] = x[0].add(zero.up_from(carry_of_lower_half));
        for (x, high) in x.iter_mut().zip(&high) {
            *x = x.add(*high);
        }
        // The highest digit, the lower one of the last block, is not cut off: the result may be
        // below zero.
        let carry_of_others = carry(&mut x[..R - 1]);
        x[R - 1] = x[R - 1].add(carry_of_others);
        self.x.store(&x);
    }

    #[inline(always)]
    fn half_of_square<const HALF: bool, const BEGIN: usize>(&self, high: Fma256x4) -> Half<R> {
        let factor = &self.x;
        Half::of_product::<HALF, ABOVE_DIAGONAL, BEGIN, 0>(&factor.from_even, factor, high)
    }

    /// The last columns of the lower half of the quotients times m, and what is left for the next.
    #[inline(always)]
    fn last_block_of_lower_half(&self, room: Fma256) -> (Fma256x4, Fma256x4) {
        // Block R − 1 is the one before the first of the upper half.
        let (rows, factor) = (&self.lower, &self.m);
        let begin = |row: &[u64; 4]| Fma256x4::load(room, row);
        let mut sums = Sums {
            low: [begin(
                const { &begin_of_sum::<R>([POSITIVE + CARRY_MAX; 2], SHORT_LOW, R - 1, ALL) },
            )],
            high: [begin(const { &begin_of_sum::<R>([0, 0], SHORT_HIGH, R - 1, ALL) })],
        };
        for h in 0..R {
            sums.add(0, rows.half(2 * h + 1), &factor.from_odd.0[R - 1 - h]);
            if h + 1 < R {
                sums.add(0, rows.half(2 * h + 2), &factor.from_even.0[R - 2 - h]);
            }
        }
        let high = sums.high[0];
        (sums.low[0].add(high.up_from(high)), high)
    }

    /// Doubles columns of half of a square, and adds the squares of the digits: to the lower column
    /// of block k the high half of the square of digit k − 1, to the upper one the low half of that
    /// of digit k.
    #[inline(always)]
    fn double_and_add_squares<const HALF: bool>(&self, columns: &mut [Fma256x4; R]) {
        let room = columns[0].1;
        for (index, column) in columns.iter_mut().enumerate() {
            let k = block::<R, HALF>(index);
            let digits = if k.is_multiple_of(2) { &self.x.from_odd } else { &self.x.from_even };
            let digits = digits.0[k / 2].load();
            let [low, high] = Fma256x4::short_product(room, digits, digits);
            let squares = Fma256x4(intrinsic!(_mm256_blend_epi32::<0xf0>(high.0, low.0)), room);
            *column = column.add(*column).add(squares);
        }
    }
}

impl<const R: usize> Multiplier<Fma256x4, R> for Fma256Multiplier<R> {
    fn new<const LONG: usize>(
        room: Fma256,
        moduli: [&Modulus<LONG>; COUNT],
        short: [&ShortModulus<LONG>; COUNT],
    ) -> Self {
        assert!(2 * R == LONG + 2, "a multiplier has a digit more than a modulus of 52-bit digits");
        let [m, inverse] = Pair::<Fma256x4, R>::of_moduli(moduli, short);
        let mut multiplier = Fma256Multiplier {
            x: Double::ZERO,
            y: Single::ZERO,
            m: Double::ZERO,
            inverse: Double::ZERO,
            lower: Single::ZERO,
        };
        for (target, numbers) in [(&mut multiplier.m, &m), (&mut multiplier.inverse, &inverse)] {
            Fma256x4::call(room, Place { numbers, target });
        }
        multiplier
    }

    fn set_x(&mut self, room: Fma256, x: &Pair<Fma256x4, R>) {
        Fma256x4::call(room, Place { numbers: x, target: &mut self.x });
    }

    fn set_y(&mut self, room: Fma256, y: &Pair<Fma256x4, R>) {
        Fma256x4::call(room, Place { numbers: y, target: &mut self.y });
    }

    fn x(&self, room: Fma256) -> Pair<Fma256x4, R> {
        Fma256x4::call(room, Read(self))
    }

    fn run(&mut self, room: Fma256, operation: Operation, times: usize) {
        Fma256x4::call(room, Turn { multiplier: self, operation, times });
    }

    fn select(&mut self, room: Fma256, table: &PairTable<Fma256x4, R>, indices: [u64; COUNT]) {
        Fma256x4::call(room, Select { table, indices, target: &mut self.y });
    }

    fn wipe(&mut self) {
        let Fma256Multiplier { x, y, m, inverse, lower } = self;
        for Double { from_even, from_odd } in [x, m, inverse] {
            from_even.wipe();
            from_odd.wipe();
        }
        y.wipe();
        lower.wipe();
    }
}

/// Where numbers are stored as doubles.
trait Target<const R: usize> {
    fn store(&mut self, registers: &[Fma256x4; R]);
}

impl<const R: usize> Target<R> for Single<R> {
    #[inline(always)]
    fn store(&mut self, registers: &[Fma256x4; R]) {
        for (row, register) in self.0.iter_mut().zip(registers) {
            row.store(register.to_doubles());
        }
    }
}

impl<const R: usize> Target<R> for Double<R> {
    #[inline(always)]
    fn store(&mut self, registers: &[Fma256x4; R]) {
        let mut below = Fma256x4::splat(registers[0].room(), 0);
        for (index, register) in registers.iter().enumerate() {
            let register = Fma256x4::of_bits(register.room(), register.to_doubles());
            self.from_even.0[index].store(register.bits());
            self.from_odd.0[index].store(register.up_from(below).bits());
            below = register;
        }
    }
}

/// Stores numbers as doubles.
struct Place<'a, T, const R: usize> {
    numbers: &'a Pair<Fma256x4, R>,
    target: &'a mut T,
}

impl<T: Target<R>, const R: usize> Task<Fma256x4> for Place<'_, T, R> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: Fma256) {
        self.target.store(&self.numbers.load(room));
    }
}

/// Takes an entry for each of two numbers from a table by reading all of it.
struct Select<'a, const R: usize> {
    table: &'a PairTable<Fma256x4, R>,
    indices: [u64; COUNT],
    target: &'a mut Single<R>,
}

impl<const R: usize> Task<Fma256x4> for Select<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: Fma256) {
        let [p, q] = self.indices;
        let indices = Fma256x4::load(room, &[p, q, p, q]);
        let zero = Fma256x4::splat(room, 0);
        let masks: [_; ENTRIES] = array::from_fn(|entry| {
            let entry = Fma256x4::splat(room, entry as u64);
            Fma256x4(intrinsic!(_mm256_cmpeq_epi64(indices.0, entry.0)), room)
        });
        for (block, target) in self.target.0.iter_mut().enumerate() {
            let mut selected = zero;
            for (mask, entry) in masks.iter().zip(self.table) {
                selected = selected.or(mask.and(Fma256x4::load(room, &entry.0[block])));
            }
            target.store(selected.to_doubles());
        }
    }
}

/// The result plus m, which is not below zero, with all its digits carried.
struct Read<'a, const R: usize>(&'a Fma256Multiplier<R>);

impl<const R: usize> Task<Fma256x4> for Read<'_, R> {
    type Output = Pair<Fma256x4, R>;

    #[inline(always)]
    fn run(self, room: Fma256) -> Self::Output {
        let Fma256Multiplier { x, m, .. } = self.0;
        let mut result = Pair::ZERO;
        for (target, (x, m)) in result.0.iter_mut().zip(x.from_even.0.iter().zip(&m.from_even.0)) {
            let [x, m] = [x, m].map(|row| Fma256x4::from_doubles(room, row.load()));
            *target = x.add(m).row();
        }
        for index in 0..COUNT {
            let mut carry = 0;
            for digit in result.digits_mut(index) {
                carry += digit.cast_signed();
                *digit = carry.cast_unsigned() & SHORT_MASK;
                carry >>= SHORT_BITS;
            }
        }
        result
    }
}

/// An operation, so many times.
struct Turn<'a, const R: usize> {
    multiplier: &'a mut Fma256Multiplier<R>,
    operation: Operation,
    times: usize,
}

impl<const R: usize> Task<Fma256x4> for Turn<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: Fma256) {
        // A text for each operation.
        match self.operation {
            Operation::Square => {
                for _ in 0..self.times {
                    self.multiplier.operate(room, Operation::Square);
                }
            }
            Operation::Multiply => {
                for _ in 0..self.times {
                    self.multiplier.operate(room, Operation::Multiply);
                }
            }
        }
    }
}
