//! Bytes as hexadecimal digits.

/// Reads hexadecimal digits, two for each byte.
///
/// # Panics
/// When `digits` is something else.
pub fn decode(digits: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a hexadecimal digit") as u8;
    let (pairs, rest) = digits.as_bytes().as_chunks();
    assert!(rest.is_empty(), "two digits for each byte");
    pairs.iter().map(|[high, low]| 16 * digit(*high) + digit(*low)).collect()
}

/// Bytes as lowercase digits.
pub fn encode(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
