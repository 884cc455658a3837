//! Radix 2^52 of mont: numbers as 52-bit digits, from and to big-endian bytes.

/// Bits in a digit: what one VPMADD52 multiplies.
pub(super) const DIGIT_BITS: u32 = 52;
/// The largest digit.
pub(super) const DIGIT_MASK: u64 = (1 << DIGIT_BITS) - 1;

/// Reads a big-endian number of at most `52·D` bits; the lowest digit comes first.
pub(super) fn from_bytes<const D: usize>(bytes: &[u8]) -> [u64; D] {
    debug_assert!(bytes.len() * 8 <= D * DIGIT_BITS as usize);
    let mut digits = [0; D];
    let (mut window, mut window_bits, mut index) = (0u64, 0, 0);
    for byte in bytes.iter().rev() {
        window |= u64::from(*byte) << window_bits;
        window_bits += 8;
        if window_bits >= DIGIT_BITS {
            digits[index] = window & DIGIT_MASK;
            window >>= DIGIT_BITS;
            window_bits -= DIGIT_BITS;
            index += 1;
        }
    }
    if index < D {
        digits[index] = window;
    }
    digits
}

/// Writes the low `8·bytes.len()` bits of a number of 52-bit digits, big-endian.
pub(super) fn to_bytes(digits: impl Iterator<Item = u64>, bytes: &mut [u8]) {
    let (mut window, mut window_bits) = (0u64, 0);
    let mut digits = digits;
    for byte in bytes.iter_mut().rev() {
        if window_bits < 8 {
            // At most 7 bits wait, so the next digit fits above them.
            window |= digits.next().unwrap_or(0) << window_bits;
            window_bits += DIGIT_BITS;
        }
        *byte = window as u8;
        window >>= 8;
        window_bits -= 8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            to_bytes(digits.into_iter(), &mut back[..length]);
            assert_eq!(bytes[..length], back[..length], "{length} bytes");
        }
    }
}
