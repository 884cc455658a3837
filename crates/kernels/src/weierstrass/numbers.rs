//! The list of the curves, and their numbers in hexadecimal digits (SP 800-186, sections 3.2.1.3
//! and 3.2.1.4).
//!
//! The build script reads this file too: it computes the generators' tables.

/// Calls a macro with every curve: its name, and how many digits its coordinates and scalars have.
macro_rules! with_curves {
    ($macro:ident) => {
        $macro! { P256 5, P384 8 }
    };
}

/// A curve y² = x³ − 3·x + b.
#[derive(Debug)]
pub struct Numbers {
    /// Bits of p, and of n.
    pub bits: usize,
    /// The prime of the coordinates.
    pub p: &'static str,
    /// The prime number of points.
    pub n: &'static str,
    /// The constant term.
    pub b: &'static str,
    /// x of the generator.
    pub x: &'static str,
    /// y of the generator.
    pub y: &'static str,
    /// Bits of a scalar that one entry of the generator's table stands for.
    pub base_window: usize,
}

impl Numbers {
    /// Bytes of a coordinate, and of a scalar.
    pub const fn bytes(&self) -> usize {
        self.bits.div_ceil(8)
    }
}

/// Bytes of the number that a nonce is made of: 64 bits more than any n has, so that its remainder
/// modulo n is as good as uniform (FIPS 186-5, A.3.1).
pub const NONCE_BYTES: usize = 64;

/// P-256.
pub(super) const P256: Numbers = Numbers {
    bits: 256,
    p: "ffffffff00000001000000000000000000000000ffffffffffffffffffffffff",
    n: "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551",
    b: "5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b",
    x: "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296",
    y: "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5",
    base_window: 7,
};

/// P-384.
pub(super) const P384: Numbers = Numbers {
    bits: 384,
    p: "fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe\
                 ffffffff0000000000000000ffffffff",
    n: "ffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf\
                 581a0db248b0a77aecec196accc52973",
    b: "b3312fa7e23ee7e4988e056be3f82d19181d9c6efe8141120314088f5013875a\
                 c656398d8a2ed19d2a85c8edd3ec2aef",
    x: "aa87ca22be8b05378eb1c71ef320ad746e1d3b628ba79b9859f741e082542a38\
                 5502f25dbf55296c3a545e3872760ab7",
    y: "3617de4a96262c6f5d9e98bf9292dc29f8f41dbd289a147ce9da3113b5f0b8c0\
                 0a60b1ce1d7e819d7a431d7c90ea0e5f",
    base_window: 6,
};
