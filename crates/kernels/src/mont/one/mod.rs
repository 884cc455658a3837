//! One RSA private operation: the digits of a number across the lanes of a register, and the
//! exponentiations modulo both primes as two streams of work side by side.
//!
//! Written once for all registers. There are two ways to multiply: by [`blocks`] of digits, which
//! needs fewer multiply-adds for long numbers, and row by row ([`mod@rows`]), which has shorter
//! chains. See `docs/radix52.md`.

mod blocks;
mod number;
mod rows;

use core::array;

use widelane_secret::wipe;

use self::blocks::Blocks;
pub use self::blocks::Digits;
use self::number::{ENTRIES, Factors, Number, Select};
use self::rows::Rows;
use super::digits::{DIGIT_BITS, DIGIT_MASK};
use super::key::{CrtJob, CrtKey};
use super::modulus::Modulus;
use crate::lanes::Lanes;

/// Bits of the exponent that one multiplication takes in: what numbers [`ENTRIES`].
const WINDOW_BITS: usize = ENTRIES.ilog2() as usize;

/// What streams compute.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    /// x = x²/R mod m.
    Square,
    /// x = x·y/R mod m.
    Multiply,
}

/// One of the sequences of multiplications that run side by side, with its modulus m.
trait Stream<L: Lanes, const R: usize>: Sized {
    /// A stream whose factors are zero.
    fn new<const D: usize>(modulus: &Modulus<D>) -> Self;

    /// How many digits Montgomery's R is above one, and R² mod m.
    fn montgomery<const D: usize>(modulus: &Modulus<D>) -> (usize, &[u64; D]);

    /// What is multiplied, and the result.
    fn factors(&mut self) -> &mut Factors<L, R>;

    /// Does one operation, so many times, by all streams.
    fn run<const STREAMS: usize>(
        room: L::Room,
        streams: &mut [Self; STREAMS],
        operation: Operation,
        times: usize,
    );

    /// Wipes modulus and factors.
    fn wipe(&mut self);
}

/// Runs one private-key operation.
///
/// The output is zeros unless the verdict is [`Done`](super::Verdict::Done). Needs up to 60 kB of
/// stack.
///
/// # Panics
///
/// Panics if input or output is not as long as the modulus.
pub fn private_crt<L: Digits, const HALF: usize, const FULL: usize>(
    room: L::Room,
    job: &mut CrtJob<'_, HALF, FULL>,
) {
    // One of these is compiled, as both numbers are constants.
    match L::LANES {
        4 => match HALF {
            20 => run::<L, Blocks<L, 5>, Blocks<L, 10>, 5, 10, HALF, FULL>(room, job),
            30 => run::<L, Blocks<L, 8>, Blocks<L, 15>, 8, 15, HALF, FULL>(room, job),
            40 => run::<L, Blocks<L, 10>, Blocks<L, 20>, 10, 20, HALF, FULL>(room, job),
            _ => unreachable!("no key has primes of {HALF} digits"),
        },
        _ => match HALF {
            20 => run::<L, Rows<L, 3>, Rows<L, 5>, 3, 5, HALF, FULL>(room, job),
            30 => run::<L, Blocks<L, 4>, Blocks<L, 8>, 4, 8, HALF, FULL>(room, job),
            40 => run::<L, Blocks<L, 5>, Blocks<L, 10>, 5, 10, HALF, FULL>(room, job),
            _ => unreachable!("no key has primes of {HALF} digits"),
        },
    }
}

/// Whether `result` is below the modulus, and raised to the public exponent is `input`. The time
/// depends on all of them, so none may be a secret. Needs up to 16 kB of stack.
///
/// # Panics
///
/// Panics if input or result is not as long as the modulus.
pub fn confirms_vartime<L: Digits, const HALF: usize, const FULL: usize>(
    room: L::Room,
    key: &CrtKey<HALF, FULL>,
    input: &[u8],
    result: &[u8],
) -> bool {
    let [input, result] = [input, result].map(|number| key.modulus_digits(number));
    if result.iter().rev().ge(key.n.m.iter().rev()) {
        return false;
    }
    // As above.
    let power = match (L::LANES, HALF) {
        (4, 20) => raise_to_public::<L, Blocks<L, 10>, 10, HALF, FULL>(room, key, &result),
        (4, 30) => raise_to_public::<L, Blocks<L, 15>, 15, HALF, FULL>(room, key, &result),
        (4, 40) => raise_to_public::<L, Blocks<L, 20>, 20, HALF, FULL>(room, key, &result),
        (_, 20) => raise_to_public::<L, Rows<L, 5>, 5, HALF, FULL>(room, key, &result),
        (_, 30) => raise_to_public::<L, Blocks<L, 8>, 8, HALF, FULL>(room, key, &result),
        (_, 40) => raise_to_public::<L, Blocks<L, 10>, 10, HALF, FULL>(room, key, &result),
        _ => unreachable!("no key has primes of {HALF} digits"),
    };
    L::wipe_registers(room);
    power == input
}

/// A private-key operation by streams for primes and for the modulus, with numbers of `R` and `F`
/// registers.
fn run<
    L: Lanes,
    S: Stream<L, R>,
    T: Stream<L, F>,
    const R: usize,
    const F: usize,
    const HALF: usize,
    const FULL: usize,
>(
    room: L::Room,
    job: &mut CrtJob<'_, HALF, FULL>,
) {
    assert!(R * L::LANES >= HALF && F * L::LANES >= FULL);
    let (key, input) = (job.key, job.input_digits());
    let halves = [
        Half { modulus: &key.p, exponent: &key.dp, input: &input },
        Half { modulus: &key.q, exponent: &key.dq, input: &input },
    ];
    let mut powers = exponentiate::<L, S, R, HALF, FULL>(room, halves);
    let mut result = recombine(key, &powers[0], &powers[1]);
    let check = raise_to_public::<L, T, F, HALF, FULL>(room, key, &result);
    job.conclude(&input, &result, &check);
    wipe(powers.as_flattened_mut());
    wipe(&mut result);
    L::wipe_registers(room);
}

/// One of the two exponentiations of a job.
#[derive(Clone, Copy)]
struct Half<'a, const HALF: usize, const FULL: usize> {
    modulus: &'a Modulus<HALF>,
    exponent: &'a [u64; HALF],
    input: &'a [u64; FULL],
}

/// Computes input^exponent mod m, canonical, for both halves.
#[inline(never)]
fn exponentiate<L: Lanes, S: Stream<L, R>, const R: usize, const HALF: usize, const FULL: usize>(
    room: L::Room,
    halves: [Half<'_, HALF, FULL>; 2],
) -> [[u64; HALF]; 2] {
    let mut streams = halves.map(|half| S::new(half.modulus));
    let mut tables = [[Number::ZERO; ENTRIES]; 2];

    // Into Montgomery form, by the digits below R and those from there on: c·R = high·R² + low·R.
    for ((stream, table), half) in streams.iter_mut().zip(&mut tables).zip(&halves) {
        let rr = Number::new(S::montgomery(half.modulus).1);
        *stream.factors() = Factors { x: rr, y: rr };
        table[0] = rr;
    }
    S::run(room, &mut streams, Operation::Multiply, 1);
    for (stream, half) in streams.iter_mut().zip(&halves) {
        let (digits, _) = S::montgomery(half.modulus);
        let Factors { x, y } = stream.factors();
        *y = *x;
        *x = Number::new(&half.input[digits..]);
    }
    S::run(room, &mut streams, Operation::Multiply, 1);
    for ((stream, table), half) in streams.iter_mut().zip(&mut tables).zip(&halves) {
        let (digits, _) = S::montgomery(half.modulus);
        let Factors { x, y } = stream.factors();
        table[1] = *x;
        (*x, *y) = (Number::new(&half.input[..digits]), table[0]);
    }
    S::run(room, &mut streams, Operation::Multiply, 1);
    for (stream, table) in streams.iter_mut().zip(&mut tables) {
        table[1].add(&stream.factors().x);
        stream.factors().x = Number::new(&[1]);
    }
    S::run(room, &mut streams, Operation::Multiply, 1);
    for (stream, table) in streams.iter_mut().zip(&mut tables) {
        let Factors { x, y } = stream.factors();
        table[0] = *x;
        *y = table[1];
    }
    for entry in 1..ENTRIES / 2 {
        for (stream, table) in streams.iter_mut().zip(&tables) {
            stream.factors().x = table[entry];
        }
        S::run(room, &mut streams, Operation::Square, 1);
        for (stream, table) in streams.iter_mut().zip(&mut tables) {
            table[2 * entry] = stream.factors().x;
        }
        S::run(room, &mut streams, Operation::Multiply, 1);
        for (stream, table) in streams.iter_mut().zip(&mut tables) {
            table[2 * entry + 1] = stream.factors().x;
        }
    }

    let select = |streams: &mut [S; 2], window| {
        for ((stream, table), half) in streams.iter_mut().zip(&tables).zip(&halves) {
            let index = bits_of_window(half.exponent, window);
            L::call(room, Select { table, index, target: &mut stream.factors().y });
        }
    };
    let windows = (HALF * 256 / 5).div_ceil(WINDOW_BITS);
    select(&mut streams, windows - 1);
    for stream in &mut streams {
        stream.factors().x = stream.factors().y;
    }
    for window in (0..windows - 1).rev() {
        S::run(room, &mut streams, Operation::Square, WINDOW_BITS);
        select(&mut streams, window);
        S::run(room, &mut streams, Operation::Multiply, 1);
    }

    for stream in &mut streams {
        stream.factors().y = Number::new(&[1]);
    }
    S::run(room, &mut streams, Operation::Multiply, 1);
    let results = array::from_fn(|stream| {
        halves[stream].modulus.canonical(&streams[stream].factors().x.digits())
    });
    streams.iter_mut().for_each(Stream::wipe);
    tables.as_flattened_mut().iter_mut().for_each(Number::wipe);
    results
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

/// Computes s^e mod n. The exponent is public, and time depends on it.
#[inline(never)]
fn raise_to_public<
    L: Lanes,
    S: Stream<L, F>,
    const F: usize,
    const HALF: usize,
    const FULL: usize,
>(
    room: L::Room,
    key: &CrtKey<HALF, FULL>,
    base: &[u64; FULL],
) -> [u64; FULL] {
    let mut streams = [S::new(&key.n)];
    let rr = Number::new(S::montgomery(&key.n).1);
    *streams[0].factors() = Factors { x: Number::new(base), y: rr };
    S::run(room, &mut streams, Operation::Multiply, 1);
    streams[0].factors().y = streams[0].factors().x;
    for position in (1..key.e.ilog2()).rev() {
        S::run(room, &mut streams, Operation::Square, 1);
        if key.e >> position & 1 == 1 {
            S::run(room, &mut streams, Operation::Multiply, 1);
        }
    }
    // The last bit of an odd exponent multiplies by the plain base: that leaves Montgomery form.
    S::run(room, &mut streams, Operation::Square, 1);
    streams[0].factors().y = Number::new(base);
    S::run(room, &mut streams, Operation::Multiply, 1);
    let power = key.n.canonical(&streams[0].factors().x.digits());
    streams[0].wipe();
    power
}
