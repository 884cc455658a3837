//! Signatures of Ed25519 verified in lanes: decoding of public keys, and S·B − k·A.

use super::bytes::{load, store};
use super::edwards::{Addend, Digits, Point, signed};
use super::limbs::Limbs;
use super::table::{BASE, WINDOW_BITS};
use crate::lanes::LaneMask;
use crate::registers::Task;

/// One batch of encoded points S·B − k·A, scalars below 2^254.
pub(super) struct EncodeDifferences<'a> {
    /// A, encoded.
    pub(super) publics: &'a [&'a [u8; 32]],
    /// S.
    pub(super) scalars: &'a [&'a [u8; 32]],
    /// k.
    pub(super) challenges: &'a [&'a [u8; 32]],
    pub(super) results: &'a mut [[u8; 32]],
}

impl<L: Limbs> Task<L> for EncodeDifferences<'_> {
    /// In which lanes A is a point.
    type Output = LaneMask;

    #[inline(always)]
    fn run(self, room: L::Room) -> LaneMask {
        let (public, is_point) = Point::<L>::decode(load(room, self.publics));
        let multiples = multiples(public);
        let scalars = Digits::new(load(room, self.scalars));
        let challenges = Digits::new(load(room, self.challenges));
        let mut point = Point::neutral(room);
        for (scalar, challenge) in scalars.0.iter().zip(&challenges.0).rev() {
            point = point.projective().double_times(WINDOW_BITS as usize);
            let (magnitude, negative) = signed(*scalar);
            point = point.add(Addend::from_window(&BASE[0], magnitude), negative);
            let (magnitude, negative) = signed(*challenge);
            point = point.add(Addend::from_multiples(&multiples, magnitude), !negative);
        }
        store(point.projective().encode(), self.results);
        is_point
    }
}

/// The points 1·A to 16·A.
#[inline(always)]
fn multiples<L: Limbs>(point: Point<L>) -> [Addend<L>; 16] {
    let step = point.addend();
    let mut multiple = point;
    let mut multiples = [step; 16];
    for entry in &mut multiples[1..] {
        multiple = multiple.add(step, LaneMask::NONE);
        *entry = multiple.addend();
    }
    multiples
}
