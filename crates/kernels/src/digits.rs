//! Numbers as 52-bit digits: bytes, and what is computed of a modulus while compiling.

/// Repeats straight-line code for each digit of a number of five or eight digits.
macro_rules! each_digit {
    ($digits:ident, $index:ident => $body:expr) => {
        match $digits {
            5 => each_digit!(@ $index => $body; 0 1 2 3 4),
            _ => each_digit!(@ $index => $body; 0 1 2 3 4 5 6 7),
        }
    };
    (@ $index:ident => $body:expr; $($number:literal)*) => {{
        $({
            let $index: usize = $number;
            $body
        })*
    }};
}

/// Bits in a digit: what one VPMADD52 multiplies.
pub(crate) const DIGIT_BITS: usize = 52;
/// The largest digit.
pub(crate) const DIGIT_MASK: u64 = (1 << DIGIT_BITS) - 1;

/// Reads a big-endian number of at most `52·D` bits; the lowest digit comes first.
pub(crate) fn from_bytes<const D: usize>(bytes: &[u8]) -> [u64; D] {
    debug_assert!(8 * bytes.len() <= DIGIT_BITS * D);
    let mut digits = [0; D];
    for (index, byte) in bytes.iter().rev().enumerate() {
        let (digit, shift) = (8 * index / DIGIT_BITS, 8 * index % DIGIT_BITS);
        digits[digit] |= u64::from(*byte) << shift & DIGIT_MASK;
        if shift > DIGIT_BITS - 8 {
            digits[digit + 1] |= u64::from(*byte) >> (DIGIT_BITS - shift);
        }
    }
    digits
}

/// Writes the low `8·bytes.len()` bits of a number of carried digits, big-endian.
pub(crate) fn to_bytes(digits: &[u64], bytes: &mut [u8]) {
    for (index, byte) in bytes.iter_mut().rev().enumerate() {
        let (digit, shift) = (8 * index / DIGIT_BITS, 8 * index % DIGIT_BITS);
        *byte = (digits[digit] >> shift) as u8;
        if shift > DIGIT_BITS - 8 {
            *byte |= (digits[digit + 1] << (DIGIT_BITS - shift)) as u8;
        }
    }
}

/// Whether x < y, without a branch on either.
pub(crate) const fn less<const D: usize>(x: &[u64; D], y: &[u64; D]) -> bool {
    let mut borrow = 0;
    let mut index = 0;
    while index < D {
        borrow = x[index].wrapping_sub(y[index]).wrapping_sub(borrow) >> 63;
        index += 1;
    }
    borrow == 1
}

/// Computes x − y for x ≥ y.
pub(crate) const fn difference<const D: usize>(x: &[u64; D], y: &[u64; D]) -> [u64; D] {
    let (mut difference, mut borrow, mut index) = ([0; D], 0, 0);
    while index < D {
        let digit = x[index].wrapping_sub(y[index]).wrapping_sub(borrow);
        borrow = digit >> 63;
        difference[index] = digit & DIGIT_MASK;
        index += 1;
    }
    difference
}

/// Whether a number that is no secret is zero.
pub(crate) fn is_zero(digits: &[u64]) -> bool {
    digits.iter().fold(0, |seen, digit| seen | digit) == 0
}

/// The inverse of an odd number modulo 2^64, by Newton's iteration.
pub(crate) const fn inverse(odd: u64) -> u64 {
    // An odd number is its own inverse modulo 8, and each step doubles the bits.
    let (mut inverse, mut step) = (odd, 0);
    while step < 5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}

/// An odd modulus m with what Montgomery's reduction needs to know of it; R is 2^(52·D).
pub(crate) struct Modulus<const D: usize> {
    /// The digits of m.
    pub m: [u64; D],
    /// −1/m modulo 2^52.
    pub k0: u64,
    /// R mod m, the Montgomery form of one.
    pub one: [u64; D],
    /// R² mod m.
    pub rr: [u64; D],
    /// R³ mod m.
    pub rrr: [u64; D],
}

impl<const D: usize> Modulus<D> {
    /// Prepares a modulus, given as big-endian hexadecimal digits.
    pub const fn new(hex: &str) -> Self {
        let m = parse(hex);
        let k0 = inverse(m[0]).wrapping_neg() & DIGIT_MASK;
        let mut number = [0; D];
        number[0] = 1;
        let one = shifted(number, DIGIT_BITS * D, &m);
        let rr = shifted(one, DIGIT_BITS * D, &m);
        let rrr = shifted(rr, DIGIT_BITS * D, &m);
        Modulus { m, k0, one, rr, rrr }
    }

    /// The Montgomery form of a number below m, given as big-endian hexadecimal digits.
    pub const fn element(&self, hex: &str) -> [u64; D] {
        shifted(parse(hex), DIGIT_BITS * D, &self.m)
    }

    /// The number of bits of m.
    pub const fn bits(&self) -> usize {
        DIGIT_BITS * (D - 1) + self.m[D - 1].ilog2() as usize + 1
    }

    /// Computes x·2^doublings mod m for x < m.
    pub const fn doubled(&self, x: [u64; D], doublings: usize) -> [u64; D] {
        shifted(x, doublings, &self.m)
    }
}

/// Computes x·2^doublings mod m for x < m.
const fn shifted<const D: usize>(mut x: [u64; D], doublings: usize, m: &[u64; D]) -> [u64; D] {
    let mut count = 0;
    while count < doublings {
        let mut carry = 0;
        let mut index = 0;
        while index < D {
            let digit = x[index] << 1 | carry;
            // The last digit has room for one more bit.
            carry = if index + 1 < D { digit >> DIGIT_BITS } else { 0 };
            x[index] = if index + 1 < D { digit & DIGIT_MASK } else { digit };
            index += 1;
        }
        if !less(&x, m) {
            x = difference(&x, m);
        }
        count += 1;
    }
    x
}

/// The number that big-endian hexadecimal digits say.
const fn parse<const D: usize>(hex: &str) -> [u64; D] {
    let text = hex.as_bytes();
    let mut digits = [0; D];
    let mut index = 0;
    while index < text.len() {
        let nibble = match text[text.len() - 1 - index] {
            digit @ b'0'..=b'9' => digit - b'0',
            digit @ b'a'..=b'f' => digit - b'a' + 10,
            _ => panic!("not a hexadecimal digit"),
        };
        // Digits of 52 bits are thirteen nibbles.
        digits[index / 13] |= (nibble as u64) << (index % 13 * 4);
        index += 1;
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_the_way_there_and_back() {
        for length in [1, 6, 7, 13, 32] {
            let mut bytes = [0u8; 32];
            for (index, byte) in bytes.iter_mut().enumerate() {
                *byte = (index * 37 % 251) as u8 | 0x81;
            }
            let digits: [u64; 5] = from_bytes(&bytes[..length]);
            assert!(digits.iter().all(|digit| *digit <= DIGIT_MASK));
            let mut back = [0u8; 32];
            to_bytes(&digits, &mut back[..length]);
            assert_eq!(bytes[..length], back[..length], "{length} bytes");
        }
    }

    #[test]
    fn odd_numbers_have_inverses() {
        for odd in [1, 3, 19, DIGIT_MASK, u64::MAX, 0x0123_4567_89ab_cdef] {
            assert_eq!(odd.wrapping_mul(inverse(odd)), 1);
        }
    }

    #[test]
    fn comparisons_borrow_through_all_digits() {
        assert!(less(&[5, 0, 1], &[0, 1, 1]));
        assert!(!less(&[0, 1, 1], &[0, 1, 1]));
        assert!(!less(&[0, 0, 2], &[DIGIT_MASK, DIGIT_MASK, 1]));
        assert!(is_zero(&[0, 0]) && !is_zero(&[0, 1]));
    }
}
