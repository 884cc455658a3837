//! Numbers as 52-bit digits: bytes, and what is computed of a modulus while compiling.

/// Repeats straight-line code for each digit of a number, for as many digits as any curve has.
macro_rules! each_digit {
    ($digits:ident, $index:ident => $body:expr) => {
        match $digits {
            5 => each_digit!(@ $index => $body; 0 1 2 3 4),
            8 => each_digit!(@ $index => $body; 0 1 2 3 4 5 6 7),
            _ => unreachable!("no curve has so many digits"),
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
pub(crate) const DIGIT_BITS: u32 = 52;
/// The largest digit.
pub(crate) const DIGIT_MASK: u64 = (1 << DIGIT_BITS) - 1;

/// Bits in a digit of the kernels for one job of RSA. One less than VPMADD52 multiplies, so that
/// columns are carried enough once each has given the next one what is above its digit.
pub(crate) const SHORT_BITS: u32 = 51;
/// The largest such digit.
pub(crate) const SHORT_MASK: u64 = (1 << SHORT_BITS) - 1;

/// Bytes in two digits.
const PAIR_BYTES: usize = 13;

/// Bits of `count` digits.
pub(crate) const fn bits_of(count: usize) -> usize {
    count * DIGIT_BITS as usize
}

/// Bytes of a modulus of `D` digits, which carry 51.2 bits of it on average.
pub(crate) const fn modulus_bytes<const D: usize>() -> usize {
    D / 5 * 32
}

/// Reads a big-endian number of at most `52·D` bits; the lowest digit comes first.
pub(crate) fn from_bytes<const D: usize>(bytes: &[u8]) -> [u64; D] {
    debug_assert!(8 * bytes.len() <= bits_of(D));
    let mut digits = [0; D];
    for (pair, chunk) in digits.chunks_mut(2).zip(bytes.rchunks(PAIR_BYTES)) {
        let mut padded = [0; 16];
        padded[16 - chunk.len()..].copy_from_slice(chunk);
        let value = u128::from_be_bytes(padded);
        pair[0] = value as u64 & DIGIT_MASK;
        if let [_, upper] = pair {
            *upper = (value >> DIGIT_BITS) as u64;
        }
    }
    digits
}

/// Writes the low `8·bytes.len()` bits of a number of carried digits, big-endian.
pub(crate) fn to_bytes<const D: usize>(digits: &[u64; D], bytes: &mut [u8]) {
    debug_assert!(8 * bytes.len() <= bits_of(D));
    for (pair, chunk) in digits.chunks(2).zip(bytes.rchunks_mut(PAIR_BYTES)) {
        let upper = pair.get(1).copied().unwrap_or(0);
        let value = u128::from(pair[0]) | u128::from(upper) << DIGIT_BITS;
        chunk.copy_from_slice(&value.to_be_bytes()[16 - chunk.len()..]);
    }
}

/// Makes digits of `TO` bits from those of `FROM` bits, which may have twelve bits more. Time
/// depends on how many there are; zeros follow the last one.
pub(crate) fn repack<'a, 'b, const FROM: u32, const TO: u32>(
    source: impl IntoIterator<Item = &'a u64>,
    target: impl IntoIterator<Item = &'b mut u64>,
) {
    let mut source = source.into_iter();
    let (mut bits, mut count) = (0u128, 0);
    for digit in target {
        while count < TO {
            bits += u128::from(source.next().copied().unwrap_or(0)) << count;
            count += FROM;
        }
        *digit = bits as u64 & ((1 << TO) - 1);
        bits >>= TO;
        count -= TO;
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

/// An odd modulus m of a curve with what Montgomery's reduction needs to know of it; R is 2^(52·D).
pub(crate) struct CurveModulus<const D: usize> {
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

impl<const D: usize> CurveModulus<D> {
    /// Prepares a modulus, given as big-endian hexadecimal digits.
    pub const fn new(hex: &str) -> Self {
        let m = parse(hex);
        let k0 = inverse(m[0]).wrapping_neg() & DIGIT_MASK;
        let mut number = [0; D];
        number[0] = 1;
        let one = shifted(number, bits_of(D), &m);
        let rr = shifted(one, bits_of(D), &m);
        let rrr = shifted(rr, bits_of(D), &m);
        CurveModulus { m, k0, one, rr, rrr }
    }

    /// The Montgomery form of a number below m, given as big-endian hexadecimal digits.
    pub const fn element(&self, hex: &str) -> [u64; D] {
        shifted(parse(hex), bits_of(D), &self.m)
    }

    /// The number of bits of m.
    pub const fn bits(&self) -> usize {
        bits_of(D - 1) + self.m[D - 1].ilog2() as usize + 1
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
    fn digits_of_other_lengths_are_the_same_number() {
        let long = [DIGIT_MASK, 0, 1, DIGIT_MASK, 0x000a_5a5a_5a5a_5a5a, DIGIT_MASK];
        let mut short = [0; 8];
        repack::<DIGIT_BITS, SHORT_BITS>(&long, &mut short);
        assert_eq!(short[..2], [SHORT_MASK, 1]);
        assert!(short.iter().all(|digit| *digit <= SHORT_MASK));
        let mut back = [0; 6];
        repack::<SHORT_BITS, DIGIT_BITS>(&short, &mut back);
        assert_eq!(back, long);

        // A digit that is not carried counts as what it is.
        let mut carried = [0; 3];
        repack::<SHORT_BITS, DIGIT_BITS>(&[(1 << 60) + 3, 5], &mut carried);
        let number = u128::from(carried[0]) | u128::from(carried[1]) << DIGIT_BITS;
        assert_eq!((number, carried[2]), ((1 << 60) + 3 + (5 << SHORT_BITS), 0));
    }

    #[test]
    fn bytes_survive_the_way_there_and_back() {
        fn go<const D: usize>(lengths: &[usize]) {
            for &length in lengths {
                let mut bytes = [0u8; 130];
                for (index, byte) in bytes.iter_mut().enumerate() {
                    *byte = (index * 37 % 251) as u8 | 0x81;
                }
                let digits: [u64; D] = from_bytes(&bytes[..length]);
                assert!(digits.iter().all(|digit| *digit <= DIGIT_MASK));
                let mut back = [0u8; 130];
                to_bytes(&digits, &mut back[..length]);
                assert_eq!(bytes[..length], back[..length], "{length} bytes in {D} digits");
            }
        }
        go::<5>(&[1, 6, 7, 13, 14, 26, 32]);
        go::<20>(&[1, 6, 7, 13, 128, 130]);
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
