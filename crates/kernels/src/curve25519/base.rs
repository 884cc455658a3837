//! Fixed-base multiplication for X25519 and Ed25519.

use super::bytes::{load, store};
use super::edwards::Point;
use super::ladder::clamp;
use super::limbs::Limbs;
use crate::registers::Task;

/// One batch of public keys of X25519.
pub(super) struct GenerateU<'a> {
    pub(super) scalars: &'a [&'a [u8; 32]],
    pub(super) results: &'a mut [[u8; 32]],
}

impl<L: Limbs> Task<L> for GenerateU<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: L::Room) {
        // A clamped scalar is 8 times a number below 2^252.
        let [w0, w1, w2, w3] = clamp::<L>(load(room, self.scalars));
        let eighth = [
            w0.shr(3).or(w1.shl(61)),
            w1.shr(3).or(w2.shl(61)),
            w2.shr(3).or(w3.shl(61)),
            w3.shr(3),
        ];
        let point = Point::multiple_of_base(room, eighth).projective().double_times(3);
        store(point.projective().montgomery_u().to_words(), self.results);
    }
}

/// One batch of encoded points scalar·B.
pub(super) struct EncodeMultiples<'a> {
    /// Below 2^254.
    pub(super) scalars: &'a [&'a [u8; 32]],
    pub(super) results: &'a mut [[u8; 32]],
}

impl<L: Limbs> Task<L> for EncodeMultiples<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: L::Room) {
        let point = Point::<L>::multiple_of_base(room, load(room, self.scalars));
        store(point.projective().encode(), self.results);
    }
}
