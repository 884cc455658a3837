//! The parameters of P-256 and P-384 for a device, in pinned memory.
#![allow(unsafe_code, reason = "pointers for Intel's library")]

use widelane_crypto::ec;

use super::interface::{CpaFlatBuffer, PinnedMemory};
use super::memory::Pinned;

/// The numbers of a curve (SP 800-186), big-endian.
struct Numbers<const BYTES: usize> {
    /// The prime of the field.
    p: [u8; BYTES],
    a: [u8; BYTES],
    b: [u8; BYTES],
    /// The order of the base point.
    n: [u8; BYTES],
    /// The base point.
    x: [u8; BYTES],
    y: [u8; BYTES],
}

const P256: Numbers<32> = Numbers {
    p: bytes("ffffffff00000001000000000000000000000000ffffffffffffffffffffffff"),
    a: bytes("ffffffff00000001000000000000000000000000fffffffffffffffffffffffc"),
    b: bytes("5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b"),
    n: bytes("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551"),
    x: bytes("6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"),
    y: bytes("4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"),
};

const P384: Numbers<48> = Numbers {
    p: bytes(
        "ffffffffffffffffffffffffffffffffffffffffffffffff\
         fffffffffffffffeffffffff0000000000000000ffffffff",
    ),
    a: bytes(
        "ffffffffffffffffffffffffffffffffffffffffffffffff\
         fffffffffffffffeffffffff0000000000000000fffffffc",
    ),
    b: bytes(
        "b3312fa7e23ee7e4988e056be3f82d19181d9c6efe814112\
         0314088f5013875ac656398d8a2ed19d2a85c8edd3ec2aef",
    ),
    n: bytes(
        "ffffffffffffffffffffffffffffffffffffffffffffffff\
         c7634d81f4372ddf581a0db248b0a77aecec196accc52973",
    ),
    x: bytes(
        "aa87ca22be8b05378eb1c71ef320ad746e1d3b628ba79b98\
         59f741e082542a385502f25dbf55296c3a545e3872760ab7",
    ),
    y: bytes(
        "3617de4a96262c6f5d9e98bf9292dc29f8f41dbd289a147c\
         e9da3113b5f0b8c00a60b1ce1d7e819d7a431d7c90ea0e5f",
    ),
};

/// The numbers of a curve, for the device, and where they lie.
pub(super) struct PinnedCurve {
    pub(super) p: CpaFlatBuffer,
    pub(super) a: CpaFlatBuffer,
    pub(super) b: CpaFlatBuffer,
    pub(super) n: CpaFlatBuffer,
    pub(super) x: CpaFlatBuffer,
    pub(super) y: CpaFlatBuffer,
    _numbers: Pinned,
}

// SAFETY: the pointers lead to what it owns and never changes.
unsafe impl Send for PinnedCurve {}
// SAFETY: as above.
unsafe impl Sync for PinnedCurve {}

impl PinnedCurve {
    /// Copies the numbers of a curve; nothing if there is no pinned memory left.
    pub(super) fn new(memory: &'static PinnedMemory, curve: ec::Curve) -> Option<Self> {
        match curve {
            ec::Curve::P256 => Self::copy(memory, &P256),
            ec::Curve::P384 => Self::copy(memory, &P384),
        }
    }

    fn copy<const BYTES: usize>(
        memory: &'static PinnedMemory,
        numbers: &Numbers<BYTES>,
    ) -> Option<Self> {
        let Numbers { p, a, b, n, x, y } = numbers;
        let all = [p, a, b, n, x, y].map(<[u8; BYTES]>::as_slice).concat();
        let mut pinned = Pinned::new(memory, all.len())?;
        pinned.as_mut().copy_from_slice(&all);
        let mut part = |index: usize| pinned.part(index * BYTES, BYTES);
        let [p, a, b, n, x, y] = [part(0), part(1), part(2), part(3), part(4), part(5)];
        Some(PinnedCurve { p, a, b, n, x, y, _numbers: pinned })
    }
}

/// Reads hexadecimal digits.
const fn bytes<const BYTES: usize>(text: &str) -> [u8; BYTES] {
    let digits = text.as_bytes();
    assert!(digits.len() == 2 * BYTES, "two digits for each byte");
    let mut bytes = [0; BYTES];
    let mut index = 0;
    while index < 2 * BYTES {
        let digit = match digits[index] {
            digit @ b'0'..=b'9' => digit - b'0',
            digit @ b'a'..=b'f' => digit - b'a' + 10,
            _ => panic!("no hexadecimal digit"),
        };
        bytes[index / 2] = bytes[index / 2] << 4 | digit;
        index += 1;
    }
    bytes
}
