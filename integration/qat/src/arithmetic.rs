//! RSA by the textbook.

use num_bigint::BigUint;

/// The numbers of a private key, big-endian.
pub(crate) struct PrivateKey<'a> {
    pub(crate) p: &'a [u8],
    pub(crate) q: &'a [u8],
    pub(crate) dp: &'a [u8],
    pub(crate) dq: &'a [u8],
    pub(crate) qinv: &'a [u8],
}

/// RSA's private operation on `input`, by the Chinese remainder theorem. The result is as long as
/// `input`.
pub(crate) fn private_operation(key: &PrivateKey<'_>, input: &[u8]) -> Vec<u8> {
    let [p, q, dp, dq, qinv, input_number] =
        [key.p, key.q, key.dp, key.dq, key.qinv, input].map(BigUint::from_bytes_be);
    let of_p = input_number.modpow(&dp, &p);
    let of_q = input_number.modpow(&dq, &q);
    let difference = (of_p + &p - (&of_q % &p)) % &p;
    let result = of_q + q * ((qinv * difference) % p);
    let digits = result.to_bytes_be();
    let mut bytes = vec![0; input.len() - digits.len()];
    bytes.extend(digits);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_textbook() {
        // n = 61 · 53, e = 17, d = 2753.
        let key = PrivateKey { p: &[61], q: &[53], dp: &[53], dq: &[49], qinv: &[38] };
        // 65^17 mod 3233 = 2790.
        assert_eq!(private_operation(&key, &2790_u16.to_be_bytes()), 65_u16.to_be_bytes());
    }
}
