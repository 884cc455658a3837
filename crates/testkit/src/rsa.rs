//! RSA test keys (`vectors/rsa`): sixteen for each size, of several public exponents.

use num_bigint::BigUint;

use crate::hex;

/// An RSA private key, every number big-endian.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of RFC 8017")]
pub struct TestKey {
    pub n: Vec<u8>,
    pub e: Vec<u8>,
    pub d: Vec<u8>,
    pub p: Vec<u8>,
    pub q: Vec<u8>,
    pub dp: Vec<u8>,
    pub dq: Vec<u8>,
    pub qinv: Vec<u8>,
}

impl TestKey {
    /// `input`^d mod n by arbitrary-precision arithmetic, without CRT.
    #[must_use]
    pub fn private(&self, input: &[u8]) -> Vec<u8> {
        let [input, d, n] = [input, &self.d, &self.n].map(BigUint::from_bytes_be);
        padded(&input.modpow(&d, &n), self.n.len())
    }
}

/// A number in so many bytes, big-endian.
///
/// # Panics
/// When it has more.
#[must_use]
pub fn padded(number: &BigUint, bytes: usize) -> Vec<u8> {
    let digits = number.to_bytes_be();
    let mut padded = vec![0; bytes - digits.len()];
    padded.extend(digits);
    padded
}

/// The test keys with a modulus of `bits` bits: 2048, 3072 or 4096.
///
/// # Panics
/// For any other number.
pub fn test_keys(bits: usize) -> Vec<TestKey> {
    let text = match bits {
        2048 => include_str!("../../../vectors/rsa/rsa2048.txt"),
        3072 => include_str!("../../../vectors/rsa/rsa3072.txt"),
        4096 => include_str!("../../../vectors/rsa/rsa4096.txt"),
        _ => panic!("no test keys of {bits} bits"),
    };
    text.split_terminator("\n\n").map(parse).collect()
}

fn parse(block: &str) -> TestKey {
    let mut key = TestKey::default();
    for line in block.lines() {
        let (name, digits) = line.split_once(" = ").expect("a line is `name = digits`");
        let field = match name {
            "n" => &mut key.n,
            "e" => &mut key.e,
            "d" => &mut key.d,
            "p" => &mut key.p,
            "q" => &mut key.q,
            "dp" => &mut key.dp,
            "dq" => &mut key.dq,
            "qinv" => &mut key.qinv,
            _ => panic!("unknown field {name}"),
        };
        *field = hex::decode(digits);
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_sixteen_different_keys() {
        for bits in [2048, 3072, 4096] {
            let keys = test_keys(bits);
            assert_eq!(keys.len(), 16);
            for (index, key) in keys.iter().enumerate() {
                assert_eq!(key.n.len(), bits / 8);
                assert_eq!(key.p.len(), bits / 16);
                assert!(!keys[..index].iter().any(|other| other.n == key.n));
            }
        }
    }
}
