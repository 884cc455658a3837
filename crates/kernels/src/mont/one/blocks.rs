//! Multiplications of mont::one by blocks of digits: no register is shifted or loaded askew per
//! digit.
//!
//! A **block** is as many digits as a register has lanes. Products and reductions are sums of
//! tiles, a tile being one block by another: digit k of the one, in all lanes, times the other. Its
//! partial products belong k columns higher than the lanes say, so each k is a **class** with sums
//! of its own; once per block of columns the classes are moved to their places and added.
//!
//! A stream advances by one block of columns per turn, then the next stream does. So the tiles of
//! others hide the chain from one block of quotients to the next.
#![allow(unsafe_code, reason = "stores that stay as they are")]

use core::{ptr, slice};

use widelane_secret::wipe;

use super::super::key::CrtKey;
use super::super::modulus::Modulus;
use super::number::{Factors, Number};
use super::{Operation, Stream};
use crate::digits::{DIGIT_BITS, DIGIT_MASK};
use crate::lanes::{Ifma256x4, Ifma512x8, Lanes};
use crate::registers::Task;

/// The most lanes a register has.
const LANES_MAX: usize = 8;

/// A register of digits of one number, and what it reads of a key.
pub trait Digits: Lanes {
    /// What is precomputed of the public modulus for blocks of so many digits.
    fn public_blocks<const HALF: usize, const FULL: usize>(
        key: &CrtKey<HALF, FULL>,
    ) -> (&[u64], &[u64; FULL], &[u64; FULL]);
}

impl Digits for Ifma256x4 {
    fn public_blocks<const HALF: usize, const FULL: usize>(
        key: &CrtKey<HALF, FULL>,
    ) -> (&[u64], &[u64; FULL], &[u64; FULL]) {
        key.n.by_four.parts()
    }
}

impl Digits for Ifma512x8 {
    fn public_blocks<const HALF: usize, const FULL: usize>(
        key: &CrtKey<HALF, FULL>,
    ) -> (&[u64], &[u64; FULL], &[u64; FULL]) {
        key.n_by_eight.parts()
    }
}

/// A stream with its modulus m.
#[repr(C, align(64))]
pub(super) struct Blocks<L: Lanes, const R: usize> {
    factors: Factors<L, R>,
    m: Number<L, R>,
    m1: Number<L, R>,
    k: Number<L, 1>,
    /// Blocks of columns that became quotients, but for the last.
    quotients: Number<L, R>,
    /// The last quotients.
    last: Number<L, 1>,
    /// What each class has left for the next block of columns.
    pending: Number<L, LANES_MAX>,
    carry: u64,
}

/// The longest numbers whose blocks of columns have a text each.
const UNROLLED_MAX: usize = 5;

impl<L: Digits, const R: usize> Stream<L, R> for Blocks<L, R> {
    fn factors(&mut self) -> &mut Factors<L, R> {
        &mut self.factors
    }

    fn run(&mut self, room: L::Room, operation: Operation) {
        Blocks::run_all(room, slice::from_mut(self), operation, 1);
    }

    fn wipe(&mut self) {
        let Blocks { factors, m, m1, k, quotients, last, pending, carry } = self;
        factors.wipe();
        for number in [m, m1, quotients] {
            number.wipe();
        }
        k.wipe();
        last.wipe();
        pending.wipe();
        wipe(slice::from_mut(carry));
    }
}

impl<L: Digits, const R: usize> Blocks<L, R> {
    /// A stream whose factors are zero, for a modulus m: `k` is −1/m, and `m1` the multiple of m
    /// that is −1, modulo 2^52 to the number of lanes.
    pub(super) fn new<const D: usize>(modulus: &Modulus<D>, k: &[u64], m1: &[u64; D]) -> Self {
        assert_eq!(k.len(), L::LANES, "a block is a register");
        Blocks {
            factors: Factors::ZERO,
            m: Number::new(&modulus.m),
            m1: Number::new(m1),
            k: Number::new(k),
            quotients: Number::ZERO,
            last: Number::ZERO,
            pending: Number::ZERO,
            carry: 0,
        }
    }

    /// Does one operation, so many times, by all streams.
    pub(super) fn run_all(room: L::Room, streams: &mut [Self], operation: Operation, times: usize) {
        L::call(room, Turn { streams, operation, times });
    }

    /// Makes the last block of columns vanish by Montgomery's own quotients, which keep the result
    /// of a reduction below 3·m.
    #[inline(always)]
    fn last_quotients(&mut self, room: L::Room) {
        let mut classes = Classes::<L>::zero(room);
        classes.add_tile(room, &self.quotients.0[R - 1], &self.k.0[0]);
        let mut beyond = Number::ZERO;
        let columns = classes.columns(room, &mut beyond).row();
        carry::<L>(columns, &mut self.last.0[0], &mut 0);

        let mut classes = Classes::<L>::zero(room);
        classes.add_tile(room, &self.last.0[0], &self.m.0[0]);
        let mut pending = Number::ZERO;
        let columns = classes.columns(room, &mut pending).row();
        for (sum, more) in self.pending.0.iter_mut().zip(&pending.0).take(L::LANES) {
            *sum = L::load(room, sum).add(L::load(room, more)).row();
        }
        // All that is left of the block are carries.
        let mut carry = 0;
        for (digit, column) in self.quotients.0[R - 1].as_ref().iter().zip(columns.as_ref()) {
            carry = (carry + (digit & DIGIT_MASK) + column) >> DIGIT_BITS;
        }
        self.carry += carry;
    }
}

/// Computes block `c` of the columns, of which there are 2·R, and what becomes known by it, for `G`
/// streams whose tiles take turns.
#[inline(always)]
fn advance<L: Digits, const R: usize, const G: usize>(
    room: L::Room,
    streams: &mut [Blocks<L, R>; G],
    operation: Operation,
    c: usize,
) {
    let mut classes = [Classes::<L>::zero(room); G];
    let lowest = c.saturating_sub(R - 1);
    match operation {
        Operation::Square => {
            for b in lowest..c.div_ceil(2) {
                for g in 0..G {
                    classes[g].add_tile(
                        room,
                        &streams[g].factors.x.0[b],
                        &streams[g].factors.x.0[c - b],
                    );
                }
            }
            for g in 0..G {
                classes[g].double();
                if c.is_multiple_of(2) {
                    classes[g].add_tile(
                        room,
                        &streams[g].factors.x.0[c / 2],
                        &streams[g].factors.x.0[c / 2],
                    );
                }
            }
        }
        Operation::Multiply => {
            for b in lowest..R.min(c + 1) {
                for g in 0..G {
                    classes[g].add_tile(
                        room,
                        &streams[g].factors.x.0[b],
                        &streams[g].factors.y.0[c - b],
                    );
                }
            }
        }
    }
    for b in c.saturating_sub(R)..c.min(R - 1) {
        for g in 0..G {
            let Blocks { quotients, m1, .. } = &streams[g];
            classes[g].add_tile(room, &quotients.0[b], &m1.0[c - b - 1]);
        }
    }
    if c >= R && lowest < R {
        for g in 0..G {
            classes[g].add_tile(room, &streams[g].last.0[0], &streams[g].m.0[lowest]);
        }
    }
    for g in 0..G {
        let Blocks { factors, quotients, pending, carry, .. } = &mut streams[g];
        let columns = classes[g].columns(room, pending).row();
        let target = if c >= R { &mut factors.x.0[c - R] } else { &mut quotients.0[c] };
        self::carry::<L>(columns, target, carry);
    }
    if c == R - 1 {
        for stream in streams {
            stream.last_quotients(room);
        }
    }
}

/// Carries a block of columns: of its digits only the low 52 bits count.
#[inline(always)]
fn carry<L: Lanes>(columns: L::Row, target: &mut L::Row, carry: &mut u64) {
    for (digit, column) in target.as_mut().iter_mut().zip(columns.as_ref()) {
        let sum = column + *carry;
        // One by one, or LLVM would gather them in a register first, which whoever reads one next
        // waits for.
        // SAFETY: a reference may be written to.
        unsafe { ptr::write_volatile(digit, sum) };
        *carry = sum >> DIGIT_BITS;
    }
}

/// The sums of a block of columns, class by class: low and high halves of what digit k of a factor
/// gives belong k and k + 1 columns higher than their lane says.
#[derive(Clone, Copy)]
struct Classes<L> {
    low: [L; LANES_MAX],
    high: [L; LANES_MAX],
}

impl<L: Lanes> Classes<L> {
    #[inline(always)]
    fn zero(room: L::Room) -> Self {
        let zero = L::splat(room, 0);
        Classes { low: [zero; LANES_MAX], high: [zero; LANES_MAX] }
    }

    /// Adds the product of two blocks.
    #[inline(always)]
    fn add_tile(&mut self, room: L::Room, rows: &L::Row, columns: &L::Row) {
        let columns = L::load(room, columns);
        for k in 0..L::LANES {
            let row = L::splat(room, rows.as_ref()[k]);
            self.low[k] = self.low[k].madd52lo(row, columns);
            self.high[k] = self.high[k].madd52hi(row, columns);
        }
    }

    #[inline(always)]
    fn double(&mut self) {
        for k in 0..L::LANES {
            self.low[k] = self.low[k].add(self.low[k]);
            self.high[k] = self.high[k].add(self.high[k]);
        }
    }

    /// Moves the classes to their columns and adds them; what belongs to the next block is left in
    /// `pending`, what was left for this one taken from there.
    #[inline(always)]
    fn columns(&self, room: L::Room, pending: &mut Number<L, LANES_MAX>) -> L {
        let mut sums = self.low;
        sums[0] = sums[0].add(L::load(room, &pending.0[0]));
        pending.0[0] = self.high[L::LANES - 1].row();
        #[expect(clippy::needless_range_loop, reason = "a chain of iterators is not unrolled")]
        for k in 1..L::LANES {
            let class = sums[k].add(self.high[k - 1]);
            sums[k] = class.shift_in(L::load(room, &pending.0[k]), k);
            pending.0[k] = class.row();
        }
        if L::LANES == LANES_MAX {
            for k in 0..4 {
                sums[k] = sums[k].add(sums[k + 4]);
            }
        }
        sums[0].add(sums[1]).add(sums[2].add(sums[3]))
    }
}

/// Blocks of columns, of each group of streams in turn.
macro_rules! columns {
    ($room:ident, $groups:ident, $operation:expr; $($c:tt)*) => {
        $(
            if $c < 2 * R {
                for group in &mut *$groups {
                    advance($room, group, $operation, $c);
                }
            }
        )*
    };
}

/// An operation, so many times, by all streams.
struct Turn<'a, L: Lanes, const R: usize> {
    streams: &'a mut [Blocks<L, R>],
    operation: Operation,
    times: usize,
}

impl<L: Digits, const R: usize> Task<L> for Turn<'_, L, R> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: L::Room) {
        for _ in 0..self.times {
            // Short registers have room for the sums of two streams, whose tiles then take turns.
            // That pays for long numbers where there are no other streams to fill the gaps.
            match self.streams.as_chunks_mut() {
                ([pair], []) if L::LANES < LANES_MAX && R > UNROLLED_MAX => {
                    turn::<L, R, 2>(room, slice::from_mut(pair), self.operation);
                }
                _ => turn::<L, R, 1>(room, self.streams.as_chunks_mut().0, self.operation),
            }
        }
    }
}

/// One operation, by streams in groups of `G`.
#[inline(always)]
fn turn<L: Digits, const R: usize, const G: usize>(
    room: L::Room,
    groups: &mut [[Blocks<L, R>; G]],
    operation: Operation,
) {
    for stream in groups.as_flattened_mut() {
        stream.carry = 0;
        stream.pending = Number::ZERO;
    }
    match operation {
        // A text for each block of columns, in which no loop has an end to be guessed. Longer
        // numbers, and multiplications too, would not fit the instruction cache.
        Operation::Square if R <= UNROLLED_MAX => {
            columns!(room, groups, Operation::Square; 0 1 2 3 4 5 6 7 8 9);
        }
        Operation::Square => {
            for c in 0..2 * R {
                columns!(room, groups, Operation::Square; c);
            }
        }
        Operation::Multiply => {
            for c in 0..2 * R {
                columns!(room, groups, Operation::Multiply; c);
            }
        }
    }
}
