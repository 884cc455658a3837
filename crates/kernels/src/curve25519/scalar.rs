//! Numbers modulo the order of the base point, 2^252 + 27742317777372353535851937790883648493.
//!
//! Plain arithmetic on words, by Montgomery's method with R = 2^256. Secret-independent.

use core::array;

use widelane_secret::Mask;

use crate::digits::inverse;

/// The order.
const ORDER: [u64; 4] = [0x5812_631a_5cf5_d3ed, 0x14de_f9de_a2f7_9cd6, 0, 1 << 60];
/// −1/order modulo 2^64.
const NEGATED_INVERSE: u64 = inverse(ORDER[0]).wrapping_neg();
/// R modulo the order.
const R: [u64; 4] = power_of_two(256);
/// R² modulo the order.
const RR: [u64; 4] = power_of_two(512);

/// A number below the order.
#[derive(Clone, Copy, Default)]
pub struct Scalar([u64; 4]);

impl Scalar {
    /// A little-endian number of 512 bits, reduced.
    pub fn from_wide(bytes: &[u8; 64]) -> Self {
        let (words, _) = bytes.as_chunks();
        let low = array::from_fn(|index| u64::from_le_bytes(words[index]));
        let high = array::from_fn(|index| u64::from_le_bytes(words[4 + index]));
        Scalar(add(&multiply(&low, &R), &multiply(&high, &RR)))
    }

    /// A little-endian number of 256 bits, reduced.
    pub fn from_bytes(bytes: &[u8; 32]) -> Self {
        Scalar(multiply(&words(bytes), &R))
    }

    /// A little-endian number, unless it is the order or above.
    ///
    /// Whether it is one is no secret.
    pub fn from_canonical(bytes: &[u8; 32]) -> Option<Self> {
        let number = words(bytes);
        let (_, below) = subtract(&number, &ORDER);
        below.then_some(Scalar(number))
    }

    /// self·factor + addend.
    pub fn multiply_add(&self, factor: &Scalar, addend: &Scalar) -> Scalar {
        let product = multiply(&multiply(&self.0, &factor.0), &RR);
        Scalar(add(&product, &addend.0))
    }

    /// The number in 32 bytes, little-endian.
    pub fn to_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(self.0) {
            *bytes = word.to_le_bytes();
        }
        bytes
    }

    /// Overwrites the number with zero.
    pub fn wipe(&mut self) {
        widelane_secret::wipe(&mut self.0);
    }
}

/// The words of a little-endian number.
pub(super) fn words(bytes: &[u8; 32]) -> [u64; 4] {
    let (words, _) = bytes.as_chunks();
    array::from_fn(|index| u64::from_le_bytes(words[index]))
}

/// x·y/R modulo the order, below it, for any x below R and any y below the order.
fn multiply(x: &[u64; 4], y: &[u64; 4]) -> [u64; 4] {
    // Below x·y/R + order, so below twice the order, before the last step.
    let mut z = [0; 5];
    for x in x {
        let mut carry = 0;
        for (z, y) in z.iter_mut().zip(y) {
            (*z, carry) = x.carrying_mul_add(*y, *z, carry);
        }
        z[4] = carry;
        let quotient = z[0].wrapping_mul(NEGATED_INVERSE);
        let (_, mut carry) = quotient.carrying_mul_add(ORDER[0], z[0], 0);
        for index in 1..4 {
            (z[index - 1], carry) = quotient.carrying_mul_add(ORDER[index], z[index], carry);
        }
        z[3] = z[4] + carry;
    }
    reduce_once(&[z[0], z[1], z[2], z[3]])
}

/// x + y modulo the order, for numbers below it.
fn add(x: &[u64; 4], y: &[u64; 4]) -> [u64; 4] {
    let mut carry = false;
    let sum = array::from_fn(|index| {
        let (word, carried) = x[index].carrying_add(y[index], carry);
        carry = carried;
        word
    });
    reduce_once(&sum)
}

/// x modulo the order, for x below twice the order.
fn reduce_once(x: &[u64; 4]) -> [u64; 4] {
    let (difference, below) = subtract(x, &ORDER);
    let below = Mask::equal(u64::from(below), 1);
    array::from_fn(|index| below.select(x[index], difference[index]))
}

/// x − y modulo R, and whether y was the larger.
fn subtract(x: &[u64; 4], y: &[u64; 4]) -> ([u64; 4], bool) {
    let mut borrow = false;
    let difference = array::from_fn(|index| {
        let (word, borrowed) = x[index].borrowing_sub(y[index], borrow);
        borrow = borrowed;
        word
    });
    (difference, borrow)
}

/// 2^exponent modulo the order.
const fn power_of_two(exponent: usize) -> [u64; 4] {
    let (mut power, mut step) = ([1u64, 0, 0, 0], 0);
    while step < exponent {
        // Twice the power, below 2^254, and the same less the order.
        let (mut twice, mut less) = ([0u64; 4], [0u64; 4]);
        let (mut index, mut carry, mut borrow) = (0, 0, false);
        while index < 4 {
            twice[index] = power[index] << 1 | carry;
            carry = power[index] >> 63;
            let (word, below) = twice[index].overflowing_sub(ORDER[index]);
            let borrowed;
            (less[index], borrowed) = word.overflowing_sub(borrow as u64);
            borrow = below | borrowed;
            index += 1;
        }
        power = if borrow { twice } else { less };
        step += 1;
    }
    power
}
