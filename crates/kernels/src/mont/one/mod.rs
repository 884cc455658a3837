//! One RSA private operation: the digits of a number across the lanes of a register, and the
//! exponentiations modulo both primes as two streams of work side by side.
//!
//! Written once for all registers. There are three ways to multiply. Both exponentiations are one
//! stream of [`products`] and half products where their text is short enough: in 512-bit
//! registers, and for RSA-2048. Otherwise, and for the public check, multiplications go by
//! [`blocks`] of digits; the check of RSA-2048 in 512-bit registers goes row by row
//! ([`mod@rows`]). See `docs/design/radix52.md`.

mod blocks;
mod fma256;
mod number;
mod pairs;
mod products;
mod rows;
#[cfg(test)]
mod tests;

use core::array;

use widelane_secret::wipe;

use self::blocks::Blocks;
pub use self::blocks::Digits;
use self::fma256::Fma256Multiplier;
use self::number::{ENTRIES, Factors, Number, Select};
use self::pairs::{COUNT, Multiplier, Pair, PairTable};
use self::products::Products;
use self::rows::Rows;
use super::key::{CrtJob, CrtKey, are_equal};
use super::modulus::{Modulus, ShortModulus};
use crate::digits::{DIGIT_BITS, DIGIT_MASK, SHORT_BITS, less, modulus_bytes, repack};
use crate::lanes::{Fma256x4, Ifma256x4, Ifma512x8, Lanes};
use crate::registers::Register;

/// Bits of the exponent that one multiplication takes in: what numbers [`ENTRIES`].
const WINDOW_BITS: usize = ENTRIES.ilog2() as usize;

/// What streams compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    /// x = x²/R mod m.
    Square,
    /// x = x·y/R mod m.
    Multiply,
}

/// A sequence of multiplications, with its modulus m.
trait Stream<L: Lanes, const R: usize> {
    /// What is multiplied, and the result.
    fn factors(&mut self) -> &mut Factors<L, R>;

    /// Does one operation.
    fn run(&mut self, room: L::Room, operation: Operation);

    /// Wipes modulus and factors.
    fn wipe(&mut self);
}

/// A register that holds digits of the numbers of one RSA operation.
pub trait Alone: Register<Word = u64> {
    /// Computes input^d, canonical, modulo both primes.
    fn powers<const HALF: usize, const FULL: usize>(
        room: Self::Room,
        key: &CrtKey<HALF, FULL>,
        input: &[u64; FULL],
    ) -> [[u64; HALF]; COUNT];

    /// Whether result^e mod n is the input. Time depends on e.
    fn confirms<const HALF: usize, const FULL: usize>(
        room: Self::Room,
        key: &CrtKey<HALF, FULL>,
        input: &[u64; FULL],
        result: &[u64; FULL],
    ) -> bool;
}

/// The expression for primes of so many digits. By conditions of constants, or everything would be
/// compiled for every size.
macro_rules! by_size {
    ($half:ident: 20 => $for20:expr, 30 => $for30:expr, 40 => $for40:expr $(,)?) => {
        if const { $half == 20 } {
            $for20
        } else if const { $half == 30 } {
            $for30
        } else if const { $half == 40 } {
            $for40
        } else {
            unreachable!("no key has primes of {} digits", $half)
        }
    };
}

impl Alone for Ifma512x8 {
    fn powers<const HALF: usize, const FULL: usize>(
        room: Self::Room,
        key: &CrtKey<HALF, FULL>,
        input: &[u64; FULL],
    ) -> [[u64; HALF]; COUNT] {
        by_size!(HALF:
            20 => exponentiate_pair::<Products<Self, 6, 4, 21>, _, _, _, _>(room, key, input),
            30 => exponentiate_pair::<Products<Self, 8, 4, 31>, _, _, _, _>(room, key, input),
            40 => exponentiate_pair::<Products<Self, 11, 4, 41>, _, _, _, _>(room, key, input),
        )
    }

    fn confirms<const HALF: usize, const FULL: usize>(
        room: Self::Room,
        key: &CrtKey<HALF, FULL>,
        input: &[u64; FULL],
        result: &[u64; FULL],
    ) -> bool {
        let power = by_size!(HALF:
            20 => raise_to_public(room, key, result, Rows::<Self, 5>::new(&key.n), &key.n.rr),
            30 => public_power_by_blocks::<Self, 8, HALF, FULL>(room, key, result),
            40 => public_power_by_blocks::<Self, 10, HALF, FULL>(room, key, result),
        );
        is_power(input, power)
    }
}

impl Alone for Ifma256x4 {
    fn powers<const HALF: usize, const FULL: usize>(
        room: Self::Room,
        key: &CrtKey<HALF, FULL>,
        input: &[u64; FULL],
    ) -> [[u64; HALF]; COUNT] {
        by_size!(HALF:
            20 => exponentiate_pair::<Products<Self, 11, 2, 21>, _, _, _, _>(room, key, input),
            30 => exponentiate::<Self, 8, HALF, FULL>(room, key, input),
            40 => exponentiate::<Self, 10, HALF, FULL>(room, key, input),
        )
    }

    fn confirms<const HALF: usize, const FULL: usize>(
        room: Self::Room,
        key: &CrtKey<HALF, FULL>,
        input: &[u64; FULL],
        result: &[u64; FULL],
    ) -> bool {
        let power = by_size!(HALF:
            20 => public_power_by_blocks::<Self, 10, HALF, FULL>(room, key, result),
            30 => public_power_by_blocks::<Self, 15, HALF, FULL>(room, key, result),
            40 => public_power_by_blocks::<Self, 20, HALF, FULL>(room, key, result),
        );
        is_power(input, power)
    }
}

impl Alone for Fma256x4 {
    fn powers<const HALF: usize, const FULL: usize>(
        room: Self::Room,
        key: &CrtKey<HALF, FULL>,
        input: &[u64; FULL],
    ) -> [[u64; HALF]; COUNT] {
        Self::in_own_mode(|| {
            by_size!(HALF:
                20 => exponentiate_pair::<Fma256Multiplier<11>, _, _, _, _>(room, key, input),
                30 => exponentiate_pair::<Fma256Multiplier<16>, _, _, _, _>(room, key, input),
                40 => exponentiate_pair::<Fma256Multiplier<21>, _, _, _, _>(room, key, input),
            )
        })
    }

    fn confirms<const HALF: usize, const FULL: usize>(
        room: Self::Room,
        key: &CrtKey<HALF, FULL>,
        input: &[u64; FULL],
        result: &[u64; FULL],
    ) -> bool {
        Self::in_own_mode(|| {
            by_size!(HALF:
                20 => confirms_pair::<Fma256Multiplier<11>, _, _, _, _>(room, key, input, result),
                30 => confirms_pair::<Fma256Multiplier<16>, _, _, _, _>(room, key, input, result),
                40 => confirms_pair::<Fma256Multiplier<21>, _, _, _, _>(room, key, input, result),
            )
        })
    }
}

/// Whether the input is this public power, which is wiped.
fn is_power<const FULL: usize>(input: &[u64; FULL], mut power: [u64; FULL]) -> bool {
    let is_power = are_equal(input, &power);
    wipe(&mut power);
    is_power
}

/// Runs one private-key operation.
///
/// The output is zeros unless the verdict is [`Done`](super::Verdict::Done). Needs up to 60 kB of
/// stack.
///
/// # Panics
///
/// Panics if input or output is not as long as the modulus.
pub fn private_crt<L: Alone, const HALF: usize, const FULL: usize>(
    room: L::Room,
    job: &mut CrtJob<'_, HALF, FULL>,
) {
    let input = job.input_digits();
    let mut powers = L::powers(room, job.key, &input);
    let mut result = recombine(job.key, &powers[0], &powers[1]);
    let is_confirmed = L::confirms(room, job.key, &input, &result);
    job.conclude(&input, &result, is_confirmed);
    wipe(powers.as_flattened_mut());
    wipe(&mut result);
    L::wipe_registers(room);
}

/// Whether `result` is below the modulus, and raised to the public exponent is `input`. Needs up to
/// 28 KiB of stack.
///
/// Secrets: the result. The time tells whether it is below the modulus, nothing else.
///
/// # Panics
///
/// Panics if input or result is not as long as the modulus.
pub fn confirms<L: Alone, const HALF: usize, const FULL: usize>(
    room: L::Room,
    key: &CrtKey<HALF, FULL>,
    input: &[u8],
    result: &[u8],
) -> bool {
    let [input, mut result] = [input, result].map(|number| key.modulus_digits(number));
    let mut is_right = false;
    if less(&result, &key.n.m) {
        is_right = L::confirms(room, key, &input, &result);
        L::wipe_registers(room);
    }
    wipe(&mut result);
    is_right
}

/// Computes base^e mod n by blocks, of which n has `F`.
fn public_power_by_blocks<L: Digits, const F: usize, const HALF: usize, const FULL: usize>(
    room: L::Room,
    key: &CrtKey<HALF, FULL>,
    base: &[u64; FULL],
) -> [u64; FULL] {
    let (k, m1, rr) = L::public_blocks(key);
    raise_to_public(room, key, base, Blocks::<L, F>::new(&key.n, k, m1), rr)
}

/// One of the two exponentiations of a job.
#[derive(Clone, Copy)]
struct Half<'a, const HALF: usize, const FULL: usize> {
    modulus: &'a Modulus<HALF>,
    exponent: &'a [u64; HALF],
    input: &'a [u64; FULL],
}

/// Computes input^exponent, canonical, modulo both primes, as two streams of blocks of four digits.
#[inline(never)]
fn exponentiate<L: Digits, const R: usize, const HALF: usize, const FULL: usize>(
    room: L::Room,
    key: &CrtKey<HALF, FULL>,
    input: &[u64; FULL],
) -> [[u64; HALF]; 2] {
    let halves = [
        Half { modulus: &key.p, exponent: &key.dp, input },
        Half { modulus: &key.q, exponent: &key.dq, input },
    ];
    let run = Blocks::<L, R>::run_all;
    let mut streams = halves.map(|half| {
        let (k, m1, _) = half.modulus.by_four.parts();
        Blocks::<L, R>::new(half.modulus, k, m1)
    });
    let mut tables = [[Number::ZERO; ENTRIES]; 2];

    // Into Montgomery form, by the digits below R and those from there on: c·R = high·R² + low·R.
    for ((stream, table), half) in streams.iter_mut().zip(&mut tables).zip(&halves) {
        let rr = Number::new(&half.modulus.by_four.rr);
        *stream.factors() = Factors { x: rr, y: rr };
        table[0] = rr;
    }
    run(room, &mut streams, Operation::Multiply, 1);
    let digits = R * L::LANES;
    for (stream, half) in streams.iter_mut().zip(&halves) {
        let Factors { x, y } = stream.factors();
        *y = *x;
        *x = Number::new(&half.input[digits..]);
    }
    run(room, &mut streams, Operation::Multiply, 1);
    for ((stream, table), half) in streams.iter_mut().zip(&mut tables).zip(&halves) {
        let Factors { x, y } = stream.factors();
        table[1] = *x;
        (*x, *y) = (Number::new(&half.input[..digits]), table[0]);
    }
    run(room, &mut streams, Operation::Multiply, 1);
    for (stream, table) in streams.iter_mut().zip(&mut tables) {
        table[1].add(&stream.factors().x);
        stream.factors().x = Number::new(&[1]);
    }
    run(room, &mut streams, Operation::Multiply, 1);
    for (stream, table) in streams.iter_mut().zip(&mut tables) {
        let Factors { x, y } = stream.factors();
        table[0] = *x;
        *y = table[1];
    }
    for entry in 1..ENTRIES / 2 {
        for (stream, table) in streams.iter_mut().zip(&tables) {
            stream.factors().x = table[entry];
        }
        run(room, &mut streams, Operation::Square, 1);
        for (stream, table) in streams.iter_mut().zip(&mut tables) {
            table[2 * entry] = stream.factors().x;
        }
        run(room, &mut streams, Operation::Multiply, 1);
        for (stream, table) in streams.iter_mut().zip(&mut tables) {
            table[2 * entry + 1] = stream.factors().x;
        }
    }

    let select = |streams: &mut [Blocks<L, R>; 2], window| {
        for ((stream, table), half) in streams.iter_mut().zip(&tables).zip(&halves) {
            let index = bits_of_window(half.exponent, window);
            L::call(room, Select { table, index, target: &mut stream.factors().y });
        }
    };
    let windows = (8 * modulus_bytes::<HALF>()).div_ceil(WINDOW_BITS);
    select(&mut streams, windows - 1);
    for stream in &mut streams {
        stream.factors().x = stream.factors().y;
    }
    for window in (0..windows - 1).rev() {
        run(room, &mut streams, Operation::Square, WINDOW_BITS);
        select(&mut streams, window);
        run(room, &mut streams, Operation::Multiply, 1);
    }

    for stream in &mut streams {
        stream.factors().y = Number::new(&[1]);
    }
    run(room, &mut streams, Operation::Multiply, 1);
    let results = array::from_fn(|stream| {
        halves[stream].modulus.canonical(&streams[stream].factors().x.digits())
    });
    streams.iter_mut().for_each(Stream::wipe);
    tables.as_flattened_mut().iter_mut().for_each(Number::wipe);
    results
}

/// Computes input^exponent, canonical, modulo both primes, as one stream.
#[inline(never)]
fn exponentiate_pair<M, L, const R: usize, const HALF: usize, const FULL: usize>(
    room: L::Room,
    key: &CrtKey<HALF, FULL>,
    input: &[u64; FULL],
) -> [[u64; HALF]; COUNT]
where
    M: Multiplier<L, R>,
    L: Register<Word = u64>,
{
    let mut multiplier = M::of_primes(room, key);
    let mut table = [Pair::ZERO; ENTRIES];
    first_powers(room, &mut multiplier, &key.short, input, &mut table);

    let exponents = [&key.dp, &key.dq];
    let indices = |window| exponents.map(|exponent| bits_of_window(exponent, window));
    let windows = (8 * modulus_bytes::<HALF>()).div_ceil(WINDOW_BITS);
    // One, times the highest digits of the exponents.
    multiplier.set_x(room, &table[0]);
    multiplier.select(room, &table, indices(windows - 1));
    multiplier.run(room, Operation::Multiply, 1);
    for window in (0..windows - 1).rev() {
        multiplier.run(room, Operation::Square, WINDOW_BITS);
        multiplier.select(room, &table, indices(window));
        multiplier.run(room, Operation::Multiply, 1);
    }

    let results = leave(room, &mut multiplier, key);
    multiplier.wipe();
    table.iter_mut().for_each(Pair::wipe);
    results
}

/// Computes the first powers of the input in Montgomery form.
fn first_powers<L, const R: usize, const HALF: usize, const FULL: usize>(
    room: L::Room,
    multiplier: &mut impl Multiplier<L, R>,
    moduli: &[ShortModulus<HALF>; COUNT],
    input: &[u64; FULL],
    table: &mut PairTable<L, R>,
) where
    L: Register<Word = u64>,
{
    let rr = Pair::new(moduli.each_ref().map(|modulus| &modulus.rr[..]));
    table[0] = product(room, multiplier, &Pair::new([&[1]; COUNT]), &rr);
    table[1] = enter(room, multiplier, moduli, input);
    let base = table[1];
    for entry in 2..ENTRIES {
        table[entry] = product(room, multiplier, &table[entry - 1], &base);
    }
}

/// Whether result^e is the input modulo both primes, and so modulo n. A prime that is not that of
/// the key any more is noticed, too: the private exponent is none for it.
#[inline(never)]
fn confirms_pair<M, L, const R: usize, const HALF: usize, const FULL: usize>(
    room: L::Room,
    key: &CrtKey<HALF, FULL>,
    input: &[u64; FULL],
    result: &[u64; FULL],
) -> bool
where
    M: Multiplier<L, R>,
    L: Register<Word = u64>,
{
    let mut multiplier = M::of_primes(room, key);
    let mut base = enter(room, &mut multiplier, &key.short, result);
    multiplier.set_x(room, &base);
    multiplier.set_y(room, &base);
    for position in (0..key.e.ilog2()).rev() {
        multiplier.run(room, Operation::Square, 1);
        if key.e >> position & 1 == 1 {
            multiplier.run(room, Operation::Multiply, 1);
        }
    }
    let mut power = leave(room, &mut multiplier, key);
    let mut wanted = enter(room, &mut multiplier, &key.short, input);
    multiplier.set_x(room, &wanted);
    let mut residues = leave(room, &mut multiplier, key);
    let is_right = are_equal(&power[0], &residues[0]) & are_equal(&power[1], &residues[1]);
    base.wipe();
    wanted.wipe();
    wipe(power.as_flattened_mut());
    wipe(residues.as_flattened_mut());
    multiplier.wipe();
    is_right
}

/// A number modulo both primes, in Montgomery form.
fn enter<L, const R: usize, const HALF: usize, const FULL: usize>(
    room: L::Room,
    multiplier: &mut impl Multiplier<L, R>,
    moduli: &[ShortModulus<HALF>; COUNT],
    number: &[u64; FULL],
) -> Pair<L, R>
where
    L: Register<Word = u64>,
{
    // In two parts, below R and from there on: c·R = high·R² + low·R.
    let mut digits = [[0; FULL]; 2];
    repack::<DIGIT_BITS, SHORT_BITS>(number, digits.as_flattened_mut());
    let (low, high) = digits.as_flattened().split_at(HALF + 1);
    let [low, high] = [low, &high[..=HALF]].map(|digits| Pair::from_short([digits; COUNT]));
    let rr = Pair::new(moduli.each_ref().map(|modulus| &modulus.rr[..]));
    let rrr = product(room, multiplier, &rr, &rr);
    let mut sum = product(room, multiplier, &high, &rrr);
    sum.add(&product(room, multiplier, &low, &rr));
    wipe(digits.as_flattened_mut());
    sum
}

/// The product in Montgomery form.
fn product<L, const R: usize>(
    room: L::Room,
    multiplier: &mut impl Multiplier<L, R>,
    x: &Pair<L, R>,
    y: &Pair<L, R>,
) -> Pair<L, R>
where
    L: Register<Word = u64>,
{
    multiplier.set_x(room, x);
    multiplier.set_y(room, y);
    multiplier.run(room, Operation::Multiply, 1);
    multiplier.x(room)
}

/// What is in the multiplier, out of Montgomery form and canonical.
fn leave<L, const R: usize, const HALF: usize, const FULL: usize>(
    room: L::Room,
    multiplier: &mut impl Multiplier<L, R>,
    key: &CrtKey<HALF, FULL>,
) -> [[u64; HALF]; COUNT]
where
    L: Register<Word = u64>,
{
    multiplier.set_y(room, &Pair::new([&[1]; COUNT]));
    multiplier.run(room, Operation::Multiply, 1);
    let mut numbers = multiplier.x(room);
    let moduli = [&key.p, &key.q];
    let canonical =
        array::from_fn(|index| moduli[index].canonical(&numbers.long_digits::<HALF>(index)));
    numbers.wipe();
    canonical
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

/// Computes s^e mod n by a stream of that modulus; `rr` is its R² mod n. The exponent is public,
/// and time depends on it.
#[inline(never)]
fn raise_to_public<L: Lanes, const F: usize, const HALF: usize, const FULL: usize>(
    room: L::Room,
    key: &CrtKey<HALF, FULL>,
    base: &[u64; FULL],
    mut stream: impl Stream<L, F>,
    rr: &[u64; FULL],
) -> [u64; FULL] {
    *stream.factors() = Factors { x: Number::new(base), y: Number::new(rr) };
    stream.run(room, Operation::Multiply);
    stream.factors().y = stream.factors().x;
    for position in (1..key.e.ilog2()).rev() {
        stream.run(room, Operation::Square);
        if key.e >> position & 1 == 1 {
            stream.run(room, Operation::Multiply);
        }
    }
    // The last bit of an odd exponent multiplies by the plain base: that leaves Montgomery form.
    stream.run(room, Operation::Square);
    stream.factors().y = Number::new(base);
    stream.run(room, Operation::Multiply);
    let power = key.n.canonical(&stream.factors().x.digits());
    stream.wipe();
    power
}
