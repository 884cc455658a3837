//! Curves by the textbook: points (X : Y : Z) for x = X / Z², y = Y / Z³, one bit of the scalar
//! after the other.

use num_bigint::BigUint;

/// y² = x³ + a·x + b modulo a prime.
pub(crate) struct Weierstrass {
    prime: BigUint,
    a: BigUint,
    b: BigUint,
    bytes: usize,
}

type Jacobian = [BigUint; 3];

impl Weierstrass {
    /// The curve of these numbers, big-endian.
    pub(crate) fn new(prime: &[u8], a: &[u8], b: &[u8]) -> Self {
        let [modulus, a, b] = [prime, a, b].map(BigUint::from_bytes_be);
        Weierstrass { prime: modulus, a, b, bytes: prime.len() }
    }

    /// The point that a scalar makes of another one, x and y; nothing if that is infinity, or the
    /// other one is none.
    pub(crate) fn multiply(&self, scalar: &[u8], point: [&[u8]; 2]) -> Option<[Vec<u8>; 2]> {
        let [x, y] = self.affine(scalar, point)?;
        Some([padded(&x, self.bytes), padded(&y, self.bytes)])
    }

    /// The signature r and s of a digest with a nonce, by a base point of this order.
    pub(crate) fn sign(
        &self,
        base: [&[u8]; 2],
        order: &[u8],
        nonce: &[u8],
        digest: &[u8],
        key: &[u8],
    ) -> Option<[Vec<u8>; 2]> {
        let [r, _] = self.affine(nonce, base)?;
        let [n, nonce, digest, key] = [order, nonce, digest, key].map(BigUint::from_bytes_be);
        let r = r % &n;
        let inverse = nonce.modpow(&(&n - 2_u32), &n);
        let s = inverse * (digest + &r * key) % &n;
        let zero = BigUint::ZERO;
        (r != zero && s != zero).then(|| [padded(&r, self.bytes), padded(&s, self.bytes)])
    }

    fn affine(&self, scalar: &[u8], point: [&[u8]; 2]) -> Option<[BigUint; 2]> {
        let [x, y] = point.map(BigUint::from_bytes_be);
        let p = &self.prime;
        if &y * &y % p != (&x * &x * &x + &self.a * &x + &self.b) % p {
            return None;
        }
        let one = BigUint::from(1_u32);
        let base = [x, y, one.clone()];
        let mut sum: Jacobian = [one.clone(), one, BigUint::ZERO];
        let scalar = BigUint::from_bytes_be(scalar);
        for bit in (0..scalar.bits()).rev() {
            sum = self.double(&sum);
            if scalar.bit(bit) {
                sum = self.add(&sum, &base);
            }
        }
        let [x, y, z] = sum;
        if z == BigUint::ZERO {
            return None;
        }
        let inverse = z.modpow(&(p - 2_u32), p);
        let squared = &inverse * &inverse % p;
        Some([x * &squared % p, y * squared * inverse % p])
    }

    fn minus(&self, left: BigUint, right: BigUint) -> BigUint {
        (left + &self.prime - right % &self.prime) % &self.prime
    }

    fn double(&self, [x, y, z]: &Jacobian) -> Jacobian {
        let p = &self.prime;
        let yy = y * y % p;
        let s = x * &yy * 4_u32 % p;
        let zz = z * z % p;
        let m = (x * x * 3_u32 + &self.a * (&zz * &zz % p)) % p;
        let doubled = self.minus(&m * &m, &s * 2_u32);
        let height = self.minus(m * self.minus(s, doubled.clone()), &yy * &yy * 8_u32);
        [doubled, height, y * z * 2_u32 % p]
    }

    fn add(&self, left: &Jacobian, right: &Jacobian) -> Jacobian {
        if left[2] == BigUint::ZERO {
            return right.clone();
        }
        let p = &self.prime;
        let ([x1, y1, z1], [x2, y2, z2]) = (left, right);
        let (zz1, zz2) = (z1 * z1 % p, z2 * z2 % p);
        let (u1, u2) = (x1 * &zz2 % p, x2 * &zz1 % p);
        let (s1, s2) = (y1 * zz2 * z2 % p, y2 * zz1 * z1 % p);
        let (h, r) = (self.minus(u2, u1.clone()), self.minus(s2, s1.clone()));
        if h == BigUint::ZERO {
            let one = BigUint::from(1_u32);
            let infinity = [one.clone(), one, BigUint::ZERO];
            return if r == BigUint::ZERO { self.double(left) } else { infinity };
        }
        let hh = &h * &h % p;
        let hhh = &hh * &h % p;
        let v = u1 * hh % p;
        let x = self.minus(self.minus(&r * &r, hhh.clone()), &v * 2_u32);
        let y = self.minus(r * self.minus(v, x.clone()), s1 * hhh);
        [x, y, z1 * z2 * h % p]
    }
}

/// X25519 (RFC 7748) with the most significant byte first on both sides; nothing if it is zero.
pub(crate) fn x25519(scalar: &[u8], x: &[u8]) -> Option<Vec<u8>> {
    let p: BigUint = (BigUint::from(1_u32) << 255) - 19_u32;
    let mut scalar = scalar.to_vec();
    let last = scalar.len() - 1;
    scalar[last] &= 0xf8;
    scalar[0] = scalar[0] & 0x7f | 0x40;
    let scalar = BigUint::from_bytes_be(&scalar);
    let base: BigUint = BigUint::from_bytes_be(x) % &p;
    let minus = |left: &BigUint, right: &BigUint| (left + &p - right) % &p;
    let [one, zero] = [BigUint::from(1_u32), BigUint::ZERO];
    let mut low = [one.clone(), zero];
    let mut high = [base.clone(), one];
    for bit in (0..255).rev() {
        if scalar.bit(bit) {
            std::mem::swap(&mut low, &mut high);
        }
        let (sum, difference) = ((&low[0] + &low[1]) % &p, minus(&low[0], &low[1]));
        let (sum_squared, difference_squared) = (&sum * &sum % &p, &difference * &difference % &p);
        let change = minus(&sum_squared, &difference_squared);
        let crossed = minus(&high[0], &high[1]) * sum % &p;
        let other = (&high[0] + &high[1]) * difference % &p;
        let (added, taken) = ((&crossed + &other) % &p, minus(&crossed, &other));
        high = [&added * &added % &p, &base * (&taken * &taken % &p) % &p];
        let middle = &sum_squared + &change * 121_665_u32;
        low = [sum_squared * difference_squared % &p, change * middle % &p];
        if scalar.bit(bit) {
            std::mem::swap(&mut low, &mut high);
        }
    }
    let [x, z] = low;
    let result: BigUint = x * z.modpow(&(&p - 2_u32), &p) % &p;
    (result != BigUint::ZERO).then(|| padded(&result, 32))
}

/// Big-endian, with zeros in front.
fn padded(number: &BigUint, bytes: usize) -> Vec<u8> {
    let digits = number.to_bytes_be();
    let mut padded = vec![0; bytes - digits.len()];
    padded.extend(digits);
    padded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digit = |index| u8::from_str_radix(&hex[index..index + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(digit).collect()
    }

    #[test]
    fn the_curve_of_a_textbook() {
        // y² = x³ + 2x + 3 modulo 97, 3 · (3, 6) = (80, 87); 5 · (3, 6) is infinity.
        let curve = Weierstrass::new(&[97], &[2], &[3]);
        assert_eq!(curve.multiply(&[3], [&[3], &[6]]), Some([vec![80], vec![87]]));
        assert_eq!(curve.multiply(&[5], [&[3], &[6]]), None);
        assert_eq!(curve.multiply(&[3], [&[3], &[7]]), None);
    }

    #[test]
    fn x25519_of_the_rfc() {
        // RFC 7748, section 5.2, first test.
        let reversed = |hex: &str| bytes(hex).into_iter().rev().collect::<Vec<_>>();
        let k = reversed("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4");
        let x = reversed("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c");
        let made = reversed("c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552");
        assert_eq!(x25519(&k, &x), Some(made));
        assert_eq!(x25519(&k, &[0; 32]), None);
    }
}
