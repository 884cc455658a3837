//! Room portable of coefficients: arrays, in plain Rust. Secret-independent.
//!
//! Operations are calls: inlined, they would make functions of 20,000 instructions, and this room
//! is not in a hurry.

use super::{BLOCK_WORDS, Coefficients, PAIRS, POLYNOMIALS, Row};
use crate::registers::{Register, Task};

/// A register of room portable.
#[derive(Clone, Copy)]
pub struct PortablePairs([u32; PAIRS]);

impl PortablePairs {
    #[inline(always)]
    fn each(self, other: Self, function: impl Fn(u32, u32) -> u32) -> Self {
        let mut words = self.0;
        for (word, other) in words.iter_mut().zip(other.0) {
            *word = function(*word, other);
        }
        PortablePairs(words)
    }

    /// Does something to both coefficients of each pair, as signed numbers; 16 bits of it stay.
    #[inline(always)]
    fn both(self, other: Self, function: impl Fn(i32, i32) -> i32) -> Self {
        self.each(other, |left, right| {
            let low = function(low(left), low(right));
            let high = function(high(left), high(right));
            u32::from(low as u16) | (high as u32) << 16
        })
    }
}

/// The first coefficient of a pair.
#[inline(always)]
fn low(pair: u32) -> i32 {
    i32::from(pair as i16)
}

/// The second coefficient of a pair.
#[inline(always)]
fn high(pair: u32) -> i32 {
    pair.cast_signed() >> 16
}

impl Register for PortablePairs {
    type Room = ();
    type Word = u32;
    type Row = Row;
    const LANES: usize = PAIRS;
    const ZEROS: Row = Row::ZERO;

    #[inline(always)]
    fn splat((): (), word: u32) -> Self {
        PortablePairs([word; PAIRS])
    }

    #[inline(always)]
    fn load((): (), row: &Row) -> Self {
        PortablePairs(row.0)
    }

    #[inline(always)]
    fn row(self) -> Row {
        Row(self.0)
    }

    #[inline(always)]
    fn room(self) {}

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.each(other, u32::wrapping_add)
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.each(other, u32::wrapping_sub)
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        self.each(other, |left, right| left & right)
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        self.each(other, |left, right| left | right)
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self.each(other, |left, right| left ^ right)
    }

    #[inline(always)]
    fn shl(self, bits: u32) -> Self {
        self.each(self, |word, _| word << bits)
    }

    #[inline(always)]
    fn shr(self, bits: u32) -> Self {
        self.each(self, |word, _| word >> bits)
    }

    #[inline(never)]
    fn call<T: Task<Self>>((): (), task: T) -> T::Output {
        task.run(())
    }

    fn wipe_registers((): ()) {}
}

impl Coefficients for PortablePairs {
    type Words = u64;

    #[inline(always)]
    fn halves((): (), first: u32, second: u32) -> Self {
        let mut words = [first; PAIRS];
        words[POLYNOMIALS..].fill(second);
        PortablePairs(words)
    }

    #[inline(always)]
    fn load_halves((): (), first: &[u16; PAIRS], second: &[u16; PAIRS]) -> Self {
        let mut words = [0; PAIRS];
        let pairs = first.as_chunks().0.iter().chain(second.as_chunks().0);
        for (word, [first, second]) in words.iter_mut().zip(pairs) {
            *word = u32::from(*first) | u32::from(*second) << 16;
        }
        PortablePairs(words)
    }

    #[inline(always)]
    fn to_halves(self) -> [[u16; PAIRS]; 2] {
        let mut halves = [[0; PAIRS]; 2];
        for ([first, second], word) in
            halves.as_flattened_mut().as_chunks_mut().0.iter_mut().zip(self.0)
        {
            (*first, *second) = (word as u16, (word >> 16) as u16);
        }
        halves
    }

    #[inline(never)]
    fn add_each(self, other: Self) -> Self {
        self.both(other, |left, right| left + right)
    }

    #[inline(never)]
    fn sub_each(self, other: Self) -> Self {
        self.both(other, |left, right| left - right)
    }

    #[inline(never)]
    fn mul_low(self, other: Self) -> Self {
        self.both(other, |left, right| left * right)
    }

    #[inline(never)]
    fn mul_high(self, other: Self) -> Self {
        self.both(other, |left, right| (left * right) >> 16)
    }

    #[inline(never)]
    fn mul_rounded(self, other: Self) -> Self {
        self.both(other, |left, right| (left * right + (1 << 14)) >> 15)
    }

    #[inline(never)]
    fn mul_high_unsigned(self, other: Self) -> Self {
        self.each(other, |left, right| {
            let low = ((left & 0xffff) * (right & 0xffff)) >> 16;
            let high = ((left >> 16) * (right >> 16)) >> 16;
            low | high << 16
        })
    }

    #[inline(never)]
    fn shr_signed(self, bits: u32) -> Self {
        self.both(self, |coefficient, _| coefficient >> bits)
    }

    #[inline(never)]
    fn mul_pairs(self, other: Self) -> Self {
        self.each(other, |left, right| {
            (low(left) * low(right)).wrapping_add(high(left) * high(right)).cast_unsigned()
        })
    }

    #[inline(never)]
    fn unzip(self, other: Self) -> (Self, Self) {
        let (mut first, mut second) = (self.0, other.0);
        first[POLYNOMIALS..].copy_from_slice(&other.0[..POLYNOMIALS]);
        second[..POLYNOMIALS].copy_from_slice(&self.0[POLYNOMIALS..]);
        (PortablePairs(first), PortablePairs(second))
    }

    #[inline(never)]
    fn transpose(registers: [Self; POLYNOMIALS]) -> [Self; POLYNOMIALS] {
        let mut transposed = registers;
        for (from, register) in registers.iter().enumerate() {
            for (to, target) in transposed.iter_mut().enumerate() {
                target.0[from] = register.0[to];
                target.0[POLYNOMIALS + from] = register.0[POLYNOMIALS + to];
            }
        }
        transposed
    }

    #[inline(never)]
    fn choose(self, from: Self) -> Self {
        let mut words = self.0;
        for (polynomial, from) in from.0[..POLYNOMIALS].iter().enumerate() {
            let from = *from as usize % POLYNOMIALS;
            words[polynomial] = self.0[from];
            words[POLYNOMIALS + polynomial] = self.0[POLYNOMIALS + from];
        }
        PortablePairs(words)
    }

    #[inline(always)]
    fn accept_vartime(
        (): (),
        word: impl Fn(usize) -> u64,
        bound: u16,
        accepted: &mut [u16],
        mut count: usize,
    ) -> usize {
        for index in (0..BLOCK_WORDS).step_by(3) {
            let bytes = [index, index + 1, index + 2].map(|index| word(index).to_le_bytes());
            for &[first, second, third] in bytes.as_flattened().as_chunks().0 {
                let [first, second, third] = [first, second, third].map(u16::from);
                for candidate in [first | (second & 0xf) << 8, second >> 4 | third << 4] {
                    accepted[count] = candidate;
                    count += usize::from(candidate < bound);
                }
            }
        }
        count
    }
}
