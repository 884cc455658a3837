//! One or two RSA private operations at once: the digits of a number across the lanes of a
//! register, and both halves of every job as streams of work side by side.
//!
//! Written once for all registers. A **block** is as many digits as a register has lanes. Products
//! and reductions are sums of tiles, a tile being one block by another: digit k of the one, in all
//! lanes, times the other. Its partial products belong k columns higher than the lanes say, so each
//! k is a **class** with sums of its own; once per block of columns the classes are moved to their
//! places and added. No register is shifted or loaded askew per digit.
//!
//! A stream advances by one block of columns per turn, then the next stream does. So the tiles of
//! others hide the chain from one block of quotients to the next. See `docs/radix52.md`.
#![allow(unsafe_code, reason = "stores that stay as they are")]

use core::{array, ptr, slice};

use widelane_secret::wipe;

use super::digits::{DIGIT_BITS, DIGIT_MASK};
use super::key::{CrtJob, CrtKey};
use super::modulus::{Blocks, Modulus};
use crate::lanes::{Ifma256x4, Ifma512x8, Lanes, Task};

/// The most jobs at once.
pub const JOBS_MAX: usize = 2;

/// Bits of the exponent that one multiplication takes in.
const WINDOW_BITS: usize = 5;
/// Powers of the base in the table.
const ENTRIES: usize = 1 << WINDOW_BITS;
/// The most lanes a register has.
const LANES_MAX: usize = 8;

/// A register of digits of one number, and what it reads of a key.
pub trait Digits: Lanes {
    /// What is precomputed of a modulus for blocks of so many digits.
    fn blocks<const D: usize>(modulus: &Modulus<D>) -> (&[u64], &[u64; D], &[u64; D]);
}

impl Digits for Ifma256x4 {
    fn blocks<const D: usize>(modulus: &Modulus<D>) -> (&[u64], &[u64; D], &[u64; D]) {
        let Blocks { k, m1, rr } = &modulus.by_four;
        (k, m1, rr)
    }
}

impl Digits for Ifma512x8 {
    fn blocks<const D: usize>(modulus: &Modulus<D>) -> (&[u64], &[u64; D], &[u64; D]) {
        let Blocks { k, m1, rr } = &modulus.by_eight;
        (k, m1, rr)
    }
}

/// A number of `R` registers.
#[repr(C, align(64))]
struct Number<L: Lanes, const R: usize>([L::Words; R]);

impl<L: Lanes, const R: usize> Clone for Number<L, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L: Lanes, const R: usize> Copy for Number<L, R> {}

impl<L: Lanes, const R: usize> Number<L, R> {
    const ZERO: Self = Number([L::ZEROS; R]);

    fn new(digits: &[u64]) -> Self {
        let mut number = Self::ZERO;
        for (word, digit) in number.words_mut().zip(digits) {
            *word = *digit;
        }
        number
    }

    fn words_mut(&mut self) -> impl Iterator<Item = &mut u64> {
        self.0.iter_mut().flat_map(|block| block.as_mut())
    }

    /// The lowest digits.
    fn digits<const D: usize>(&self) -> [u64; D] {
        let mut words = self.0.iter().flat_map(|block| block.as_ref());
        array::from_fn(|_| words.next().map_or(0, |word| word & DIGIT_MASK))
    }

    /// Adds another number and carries.
    fn add(&mut self, other: &Self) {
        let others = other.0.iter().flat_map(|block| block.as_ref());
        let mut carry = 0;
        for (word, other) in self.words_mut().zip(others) {
            carry += (*word & DIGIT_MASK) + (other & DIGIT_MASK);
            *word = carry & DIGIT_MASK;
            carry >>= DIGIT_BITS;
        }
    }

    fn wipe(&mut self) {
        for block in &mut self.0 {
            wipe(block.as_mut());
        }
    }
}

/// One of the sequences of multiplications that run side by side, with its modulus m.
#[repr(C, align(64))]
struct Stream<L: Lanes, const R: usize> {
    /// What is squared or multiplied, and the result, below 3·m.
    x: Number<L, R>,
    /// The other factor, below 6·m.
    y: Number<L, R>,
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

/// What a turn of the streams computes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    /// x = x²/R mod m.
    Square,
    /// x = x·y/R mod m.
    Multiply,
}

impl<L: Digits, const R: usize> Stream<L, R> {
    fn new<const D: usize>(modulus: &Modulus<D>) -> Self {
        let (k, m1, _) = L::blocks(modulus);
        Stream {
            x: Number::ZERO,
            y: Number::ZERO,
            m: Number::new(&modulus.m),
            m1: Number::new(m1),
            k: Number::new(k),
            quotients: Number::ZERO,
            last: Number::ZERO,
            pending: Number::ZERO,
            carry: 0,
        }
    }

    fn wipe(&mut self) {
        let Stream { x, y, m, m1, k, quotients, last, pending, carry } = self;
        for number in [x, y, m, m1, quotients] {
            number.wipe();
        }
        k.wipe();
        last.wipe();
        pending.wipe();
        wipe(slice::from_mut(carry));
    }

    /// Makes the last block of columns vanish by Montgomery's own quotients, which keep the result
    /// of a reduction below 3·m.
    #[inline(always)]
    fn last_quotients(&mut self, room: L::Room) {
        let mut classes = Classes::<L>::zero(room);
        classes.add_tile(room, &self.quotients.0[R - 1], &self.k.0[0]);
        let mut beyond = Number::ZERO;
        let columns = classes.columns(room, &mut beyond).words();
        carry::<L>(columns, &mut self.last.0[0], &mut 0);

        let mut classes = Classes::<L>::zero(room);
        classes.add_tile(room, &self.last.0[0], &self.m.0[0]);
        let mut pending = Number::ZERO;
        let columns = classes.columns(room, &mut pending).words();
        for (sum, more) in self.pending.0.iter_mut().zip(&pending.0).take(L::LANES) {
            *sum = L::load(room, sum).add(L::load(room, more)).words();
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
    streams: &mut [Stream<L, R>; G],
    operation: Operation,
    c: usize,
) {
    let mut classes = [Classes::<L>::zero(room); G];
    let lowest = c.saturating_sub(R - 1);
    match operation {
        Operation::Square => {
            for b in lowest..c.div_ceil(2) {
                for g in 0..G {
                    classes[g].add_tile(room, &streams[g].x.0[b], &streams[g].x.0[c - b]);
                }
            }
            for g in 0..G {
                classes[g].double();
                if c.is_multiple_of(2) {
                    classes[g].add_tile(room, &streams[g].x.0[c / 2], &streams[g].x.0[c / 2]);
                }
            }
        }
        Operation::Multiply => {
            for b in lowest..R.min(c + 1) {
                for g in 0..G {
                    classes[g].add_tile(room, &streams[g].x.0[b], &streams[g].y.0[c - b]);
                }
            }
        }
    }
    for b in c.saturating_sub(R)..c.min(R - 1) {
        for g in 0..G {
            let Stream { quotients, m1, .. } = &streams[g];
            classes[g].add_tile(room, &quotients.0[b], &m1.0[c - b - 1]);
        }
    }
    if c >= R && lowest < R {
        for g in 0..G {
            classes[g].add_tile(room, &streams[g].last.0[0], &streams[g].m.0[lowest]);
        }
    }
    for g in 0..G {
        let Stream { x, quotients, pending, carry, .. } = &mut streams[g];
        let columns = classes[g].columns(room, pending).words();
        let target = if c >= R { &mut x.0[c - R] } else { &mut quotients.0[c] };
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
fn carry<L: Lanes>(columns: L::Words, target: &mut L::Words, carry: &mut u64) {
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
    fn add_tile(&mut self, room: L::Room, rows: &L::Words, columns: &L::Words) {
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
        pending.0[0] = self.high[L::LANES - 1].words();
        #[expect(clippy::needless_range_loop, reason = "a chain of iterators is not unrolled")]
        for k in 1..L::LANES {
            let class = sums[k].add(self.high[k - 1]);
            sums[k] = class.shift_in(L::load(room, &pending.0[k]), k);
            pending.0[k] = class.words();
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
    streams: &'a mut [Stream<L, R>],
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
    groups: &mut [[Stream<L, R>; G]],
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

/// The first powers of a number.
type Table<L, const R: usize> = [Number<L, R>; ENTRIES];

/// Takes an entry from a table by reading all of it.
struct Select<'a, L: Lanes, const R: usize> {
    table: &'a Table<L, R>,
    index: u64,
    target: &'a mut Number<L, R>,
}

impl<L: Lanes, const R: usize> Task<L> for Select<'_, L, R> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: L::Room) {
        let index = L::splat(room, self.index);
        let one = L::splat(room, 1);
        let mut number = L::splat(room, 0);
        let mut selected = [number; R];
        for entry in self.table {
            let is_wanted = index.equals(number);
            for (selected, digits) in selected.iter_mut().zip(&entry.0) {
                *selected = L::load(room, digits).select(is_wanted, *selected);
            }
            number = number.add(one);
        }
        for (target, selected) in self.target.0.iter_mut().zip(selected) {
            *target = selected.words();
        }
    }
}

/// Runs 1 to [`JOBS_MAX`] private-key operations of one size, each with a key of its own.
///
/// Every job gets a verdict; outputs are zeros unless it is [`Done`](super::Verdict::Done). Needs
/// up to 130 kB of stack.
///
/// # Panics
///
/// Panics if there is no job, if there are more than [`JOBS_MAX`], or if an input or output is not
/// as long as the modulus.
pub fn private_crt<L: Digits, const HALF: usize, const FULL: usize>(
    room: L::Room,
    jobs: &mut [CrtJob<'_, HALF, FULL>],
) {
    // One of these is compiled, as both numbers are constants.
    match L::LANES {
        4 => match HALF {
            20 => private_crt_of::<L, 5, 10, HALF, FULL>(room, jobs),
            30 => private_crt_of::<L, 8, 15, HALF, FULL>(room, jobs),
            40 => private_crt_of::<L, 10, 20, HALF, FULL>(room, jobs),
            _ => unreachable!("no key has primes of {HALF} digits"),
        },
        _ => match HALF {
            20 => private_crt_of::<L, 3, 5, HALF, FULL>(room, jobs),
            30 => private_crt_of::<L, 4, 8, HALF, FULL>(room, jobs),
            40 => private_crt_of::<L, 5, 10, HALF, FULL>(room, jobs),
            _ => unreachable!("no key has primes of {HALF} digits"),
        },
    }
}

/// The same for numbers of `R` and `F` registers.
fn private_crt_of<
    L: Digits,
    const R: usize,
    const F: usize,
    const HALF: usize,
    const FULL: usize,
>(
    room: L::Room,
    jobs: &mut [CrtJob<'_, HALF, FULL>],
) {
    match jobs {
        [one] => run::<L, R, F, HALF, FULL, 1, 2>(room, [one]),
        [one, two] => run::<L, R, F, HALF, FULL, 2, 4>(room, [one, two]),
        _ => panic!("a batch has 1 to {JOBS_MAX} jobs"),
    }
}

fn run<
    L: Digits,
    const R: usize,
    const F: usize,
    const HALF: usize,
    const FULL: usize,
    const JOBS: usize,
    const STREAMS: usize,
>(
    room: L::Room,
    jobs: [&mut CrtJob<'_, HALF, FULL>; JOBS],
) {
    assert!(STREAMS == 2 * JOBS && R * L::LANES >= HALF && F * L::LANES >= FULL);
    let keys = jobs.each_ref().map(|job| job.key);
    let inputs: [[u64; FULL]; JOBS] = jobs.each_ref().map(|job| job.input_digits());
    let halves: [_; STREAMS] = array::from_fn(|stream| {
        let (key, input) = (keys[stream / 2], &inputs[stream / 2]);
        let (modulus, exponent) =
            if stream % 2 == 0 { (&key.p, &key.dp) } else { (&key.q, &key.dq) };
        Half { modulus, exponent, input }
    });
    let mut powers = exponentiate::<L, R, HALF, FULL, STREAMS>(room, halves);
    let mut results: [[u64; FULL]; JOBS] =
        array::from_fn(|job| recombine(keys[job], &powers[2 * job], &powers[2 * job + 1]));
    let checks = raise_to_public::<L, F, HALF, FULL, JOBS>(room, keys, &results);
    for (index, job) in jobs.into_iter().enumerate() {
        job.conclude(&inputs[index], &results[index], &checks[index]);
    }
    wipe(powers.as_flattened_mut());
    wipe(results.as_flattened_mut());
    L::wipe_registers(room);
}

/// One of the two exponentiations of a job.
#[derive(Clone, Copy)]
struct Half<'a, const HALF: usize, const FULL: usize> {
    modulus: &'a Modulus<HALF>,
    exponent: &'a [u64; HALF],
    input: &'a [u64; FULL],
}

/// Computes input^exponent mod m, canonical, for all halves.
#[inline(never)]
fn exponentiate<
    L: Digits,
    const R: usize,
    const HALF: usize,
    const FULL: usize,
    const STREAMS: usize,
>(
    room: L::Room,
    halves: [Half<'_, HALF, FULL>; STREAMS],
) -> [[u64; HALF]; STREAMS] {
    let mut streams = halves.map(|half| Stream::<L, R>::new(half.modulus));
    let mut tables = [[Number::ZERO; ENTRIES]; STREAMS];
    let run = |streams: &mut [Stream<L, R>], operation| {
        L::call(room, Turn { streams, operation, times: 1 });
    };

    // Into Montgomery form, by the digits below R and those from there on: c·R = high·R² + low·R.
    for ((stream, table), half) in streams.iter_mut().zip(&mut tables).zip(&halves) {
        let (_, _, rr) = L::blocks(half.modulus);
        (stream.x, stream.y) = (Number::new(rr), Number::new(rr));
        table[0] = stream.x;
    }
    run(&mut streams, Operation::Multiply);
    for (stream, half) in streams.iter_mut().zip(&halves) {
        stream.y = stream.x;
        stream.x = Number::new(&half.input[R * L::LANES..]);
    }
    run(&mut streams, Operation::Multiply);
    for ((stream, table), half) in streams.iter_mut().zip(&mut tables).zip(&halves) {
        table[1] = stream.x;
        stream.x = Number::new(&half.input[..R * L::LANES]);
        stream.y = table[0];
    }
    run(&mut streams, Operation::Multiply);
    for (stream, table) in streams.iter_mut().zip(&mut tables) {
        table[1].add(&stream.x);
        stream.x = Number::new(&[1]);
    }
    run(&mut streams, Operation::Multiply);
    for (stream, table) in streams.iter_mut().zip(&mut tables) {
        table[0] = stream.x;
        stream.y = table[1];
    }
    for entry in 1..ENTRIES / 2 {
        for (stream, table) in streams.iter_mut().zip(&tables) {
            stream.x = table[entry];
        }
        run(&mut streams, Operation::Square);
        for (stream, table) in streams.iter_mut().zip(&mut tables) {
            table[2 * entry] = stream.x;
        }
        run(&mut streams, Operation::Multiply);
        for (stream, table) in streams.iter_mut().zip(&mut tables) {
            table[2 * entry + 1] = stream.x;
        }
    }

    let select = |streams: &mut [Stream<L, R>], window| {
        for ((stream, table), half) in streams.iter_mut().zip(&tables).zip(&halves) {
            let index = bits_of_window(half.exponent, window);
            L::call(room, Select { table, index, target: &mut stream.y });
        }
    };
    let windows = (HALF * 256 / 5).div_ceil(WINDOW_BITS);
    select(&mut streams, windows - 1);
    for stream in &mut streams {
        stream.x = stream.y;
    }
    for window in (0..windows - 1).rev() {
        let (streams_all, operation) = (&mut streams[..], Operation::Square);
        L::call(room, Turn { streams: streams_all, operation, times: WINDOW_BITS });
        select(&mut streams, window);
        run(&mut streams, Operation::Multiply);
    }

    for stream in &mut streams {
        stream.y = Number::new(&[1]);
    }
    run(&mut streams, Operation::Multiply);
    let powers =
        array::from_fn(|stream| halves[stream].modulus.canonical(&streams[stream].x.digits()));
    streams.iter_mut().for_each(Stream::wipe);
    tables.as_flattened_mut().iter_mut().for_each(Number::wipe);
    powers
}

/// The bits of an exponent that a window holds.
fn bits_of_window<const D: usize>(exponent: &[u64; D], window: usize) -> u64 {
    let position = window * WINDOW_BITS;
    let (index, shift) = (position / DIGIT_BITS as usize, position as u32 % DIGIT_BITS);
    let (low, high) = (exponent[index], exponent.get(index + 1).unwrap_or(&0));
    (low >> shift | high << (DIGIT_BITS - shift)) & (ENTRIES as u64 - 1)
}

/// Garner: h = (mp − mq)·qinv mod p, then mq + h·q.
#[inline(never)]
fn recombine<const HALF: usize, const FULL: usize>(
    key: &CrtKey<HALF, FULL>,
    modulo_p: &[u64; HALF],
    modulo_q: &[u64; HALF],
) -> [u64; FULL] {
    let mut h = key.p.subtract(modulo_p, modulo_q);
    h = key.p.multiply(&h, &key.qinv);
    let mut result = [0; FULL];
    result[..HALF].copy_from_slice(modulo_q);
    for (i, digit) in h.iter().enumerate() {
        let mut carry = 0;
        for (result, q) in result[i..].iter_mut().zip(&key.q.m) {
            carry += u128::from(*result) + u128::from(*digit) * u128::from(*q);
            *result = carry as u64 & DIGIT_MASK;
            carry >>= DIGIT_BITS;
        }
        result[i + HALF] = carry as u64;
    }
    wipe(&mut h);
    result
}

/// Computes s^e mod n for each job. The exponents are public, and time depends on them.
#[inline(never)]
fn raise_to_public<
    L: Digits,
    const F: usize,
    const HALF: usize,
    const FULL: usize,
    const JOBS: usize,
>(
    room: L::Room,
    keys: [&CrtKey<HALF, FULL>; JOBS],
    bases: &[[u64; FULL]; JOBS],
) -> [[u64; FULL]; JOBS] {
    let mut streams = keys.map(|key| Stream::<L, F>::new(&key.n));
    let run = |streams: &mut [Stream<L, F>], operation| {
        L::call(room, Turn { streams, operation, times: 1 });
    };
    for ((stream, key), base) in streams.iter_mut().zip(&keys).zip(bases) {
        let (_, _, rr) = L::blocks(&key.n);
        (stream.x, stream.y) = (Number::new(base), Number::new(rr));
    }
    run(&mut streams, Operation::Multiply);
    for stream in &mut streams {
        stream.y = stream.x;
    }
    // Jobs with another exponent than the ones before go on by themselves.
    let mut rest = &mut streams[..];
    let mut first = 0;
    while let Some(e) = keys.get(first).map(|key| key.e) {
        let count = keys[first..].iter().take_while(|key| key.e == e).count();
        let (streams, others) = rest.split_at_mut(count);
        for position in (1..e.ilog2()).rev() {
            run(streams, Operation::Square);
            if e >> position & 1 == 1 {
                run(streams, Operation::Multiply);
            }
        }
        // The last bit of an odd exponent multiplies by the plain base: that leaves Montgomery
        // form.
        run(streams, Operation::Square);
        for (stream, base) in streams.iter_mut().zip(&bases[first..]) {
            stream.y = Number::new(base);
        }
        run(streams, Operation::Multiply);
        (rest, first) = (others, first + count);
    }
    let powers = array::from_fn(|job| keys[job].n.canonical(&streams[job].x.digits()));
    streams.iter_mut().for_each(Stream::wipe);
    powers
}
