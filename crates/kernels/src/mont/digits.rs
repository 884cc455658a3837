//! Radix 2^52 of mont: numbers as 52-bit digits, from and to big-endian bytes.

/// Bits in a digit: what one VPMADD52 multiplies.
pub(super) const DIGIT_BITS: u32 = 52;
/// The largest digit.
pub(super) const DIGIT_MASK: u64 = (1 << DIGIT_BITS) - 1;

/// Bits in a digit of the kernels for one job, `one`. One less than VPMADD52 multiplies, so that
/// columns are carried enough once each has given the next one what is above its digit.
pub(super) const SHORT_BITS: u32 = 51;
/// The largest such digit.
pub(super) const SHORT_MASK: u64 = (1 << SHORT_BITS) - 1;

/// Bytes in two digits.
const PAIR_BYTES: usize = 13;

/// Bytes of a modulus of `D` digits, which carry 51.2 bits of it on average.
pub(super) const fn modulus_bytes<const D: usize>() -> usize {
    D / 5 * 32
}

/// Reads a big-endian number of at most `52·D` bits, D even; the lowest digit comes first.
pub(super) fn from_bytes<const D: usize>(bytes: &[u8]) -> [u64; D] {
    debug_assert!(bytes.len() <= D / 2 * PAIR_BYTES);
    let mut digits = [0; D];
    for (pair, chunk) in digits.chunks_exact_mut(2).zip(bytes.rchunks(PAIR_BYTES)) {
        let mut padded = [0; 16];
        padded[16 - chunk.len()..].copy_from_slice(chunk);
        let value = u128::from_be_bytes(padded);
        pair[0] = value as u64 & DIGIT_MASK;
        pair[1] = (value >> DIGIT_BITS) as u64;
    }
    digits
}

/// Writes the low `8·bytes.len()` bits of a number, big-endian.
pub(super) fn to_bytes<const D: usize>(digits: &[u64; D], bytes: &mut [u8]) {
    debug_assert!(bytes.len() <= D / 2 * PAIR_BYTES);
    for (pair, chunk) in digits.chunks_exact(2).zip(bytes.rchunks_mut(PAIR_BYTES)) {
        let value = u128::from(pair[0]) | u128::from(pair[1]) << DIGIT_BITS;
        chunk.copy_from_slice(&value.to_be_bytes()[16 - chunk.len()..]);
    }
}

/// Makes digits of `TO` bits from those of `FROM` bits, which may have twelve bits more. Time
/// depends on how many there are; zeros follow the last one.
pub(super) fn repack<'a, 'b, const FROM: u32, const TO: u32>(
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
        for length in [1, 6, 7, 13, 128, 130] {
            let mut bytes = [0u8; 130];
            for (index, byte) in bytes.iter_mut().enumerate() {
                *byte = (index * 37 % 251) as u8 | 0x81;
            }
            let digits: [u64; 20] = from_bytes(&bytes[..length]);
            assert!(digits.iter().all(|digit| *digit <= DIGIT_MASK));
            let mut back = [0u8; 130];
            to_bytes(&digits, &mut back[..length]);
            assert_eq!(bytes[..length], back[..length], "{length} bytes");
        }
    }
}
