//! ECDSA signatures as X.509 and TLS carry them: `SEQUENCE { r INTEGER, s INTEGER }` in DER (RFC
//! 3279, section 2.2.3).

use thiserror::Error;

use super::Curve;

/// Why bytes are no signature.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodingError {
    /// Not what DER makes of two integers.
    #[error("the signature is not a DER sequence of two integers")]
    Malformed,
    /// An integer is negative or longer than the curve's.
    #[error("an integer of the signature is negative or too long for the curve")]
    OutOfRange,
}

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 2;

/// Bytes of the longest signature on a curve, in DER: an integer has a bit for its sign.
#[must_use]
pub const fn signature_bytes_max(curve: Curve) -> usize {
    let integers = 2 * (2 + curve.bits() / 8 + 1);
    // From 128 bytes on, the length in front of them has two.
    integers + if integers < 0x80 { 2 } else { 3 }
}

/// Encodes a signature r || s in DER.
///
/// # Panics
///
/// Panics if r and s are not equally long, or longer than those of any curve.
#[must_use]
pub fn signature_to_der(signature: &[u8]) -> Vec<u8> {
    const { assert!(signature_bytes_max(Curve::LARGEST) < 0x80, "lengths are of one byte") };
    let is_pair = signature.len().is_multiple_of(2)
        && (2..=2 * Curve::LARGEST.bytes()).contains(&signature.len());
    assert!(is_pair, "a signature has two numbers, each as long as a curve's order");
    let (r, s) = signature.split_at(signature.len() / 2);
    let mut der = vec![SEQUENCE, 0];
    for number in [r, s] {
        let zeros = number.iter().take_while(|byte| **byte == 0).count();
        let digits = &number[zeros.min(number.len() - 1)..];
        // A set top bit would make it negative.
        let padding = digits[0] >> 7;
        der.extend([INTEGER, digits.len() as u8 + padding]);
        der.extend(std::iter::repeat_n(0, padding as usize));
        der.extend(digits);
    }
    der[1] = (der.len() - 2) as u8;
    der
}

/// Decodes a signature to r || s, each as long as a coordinate of the curve.
///
/// # Errors
/// An [`EncodingError`] unless `der` is exactly what DER makes of two integers of that length.
pub fn signature_from_der(curve: Curve, der: &[u8]) -> Result<Vec<u8>, EncodingError> {
    let [SEQUENCE, length, integers @ ..] = der else { return Err(EncodingError::Malformed) };
    if *length >= 0x80 || *length as usize != integers.len() {
        return Err(EncodingError::Malformed);
    }
    let mut signature = Vec::with_capacity(2 * curve.bytes());
    let mut rest = integers;
    for _ in 0..2 {
        let number;
        (number, rest) = integer(rest)?;
        let zeros = curve.bytes().checked_sub(number.len()).ok_or(EncodingError::OutOfRange)?;
        signature.extend(std::iter::repeat_n(0, zeros));
        signature.extend(number);
    }
    if rest.is_empty() { Ok(signature) } else { Err(EncodingError::Malformed) }
}

/// The digits of the integer in front, and what comes after it.
fn integer(der: &[u8]) -> Result<(&[u8], &[u8]), EncodingError> {
    let [INTEGER, length, rest @ ..] = der else { return Err(EncodingError::Malformed) };
    let (digits, rest) = rest.split_at_checked(*length as usize).ok_or(EncodingError::Malformed)?;
    match digits {
        [] => Err(EncodingError::Malformed),
        [0, second, ..] if second >> 7 == 0 => Err(EncodingError::Malformed),
        [0, digits @ ..] if !digits.is_empty() => Ok((digits, rest)),
        [first, ..] if first >> 7 == 1 => Err(EncodingError::OutOfRange),
        _ => Ok((digits, rest)),
    }
}
