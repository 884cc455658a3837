//! Doors: where a room takes jobs on a curve. Secret-independent.

use core::marker::PhantomData;

use widelane_cpu::{Ifma256, Ifma512};

use super::batch::{Derive, Generate, Verify};
use super::job::{DeriveJob, GenerateJob, SignJob, VerifyJob};
use super::sign::{Sign, SignAlone};
use super::{Curve, P256, P384};
use crate::lanes::{Ifma256x4, Ifma512x8, Lanes, Portable};

/// A room where jobs on a curve are done. It is opened by its token, or by [`Single`].
///
/// # Panics
///
/// Every operation panics if there is no job, if there are more than `LANES`, or if an output or a
/// signature has the wrong length.
pub trait Door<C: Curve<D>, const D: usize>: Copy {
    /// Jobs that one batch holds.
    const LANES: usize;

    /// Makes public keys.
    fn generate(self, jobs: &mut [GenerateJob<'_, D>]);

    /// Derives shared secrets.
    fn derive(self, jobs: &mut [DeriveJob<'_, D>]);

    /// Signs digests.
    fn sign(self, jobs: &mut [SignJob<'_, D>]);

    /// Verifies signatures. Everything in it is public.
    fn verify(self, jobs: &mut [VerifyJob<'_, D>]);
}

/// A room whose lanes can share one job.
///
/// # Panics
///
/// Panics if the signature has the wrong length.
pub trait SharedDoor<C: Curve<D>, const D: usize>: Door<C, D> {
    /// Signs a digest in less time than a batch takes.
    fn sign_alone(self, job: &mut SignJob<'_, D>);
}

/// What opens the portable room, which needs no token.
#[derive(Clone, Copy, Debug)]
pub struct Single;

/// Implements [`Door`] for the token of a room and both curves.
macro_rules! doors {
    ($token:ty, $register:ident, $room:ident => $proof:expr) => {
        doors!(@ $token, $register, $room => $proof, P256, 5);
        doors!(@ $token, $register, $room => $proof, P384, 8);
    };
    (@ $token:ty, $register:ident, $room:ident => $proof:expr, $curve:ident, $digits:literal) => {
        impl Door<$curve, $digits> for $token {
            const LANES: usize = <$register as Lanes>::LANES;

            fn generate($room, jobs: &mut [GenerateJob<'_, $digits>]) {
                check_count(jobs, <$register as Lanes>::LANES);
                $register::call($proof, Generate::<$curve, $digits> { jobs, curve: PhantomData });
            }

            fn derive($room, jobs: &mut [DeriveJob<'_, $digits>]) {
                check_count(jobs, <$register as Lanes>::LANES);
                $register::call($proof, Derive::<$curve, $digits> { jobs, curve: PhantomData });
            }

            fn sign($room, jobs: &mut [SignJob<'_, $digits>]) {
                check_count(jobs, <$register as Lanes>::LANES);
                $register::call($proof, Sign::<$curve, $digits> { jobs, curve: PhantomData });
            }

            fn verify($room, jobs: &mut [VerifyJob<'_, $digits>]) {
                check_count(jobs, <$register as Lanes>::LANES);
                $register::call($proof, Verify::<$curve, $digits> { jobs, curve: PhantomData });
            }
        }
    };
}

/// Implements [`SharedDoor`] for the token of a room and a curve.
macro_rules! shared_door {
    ($token:ty, $register:ident, $curve:ident, $digits:literal) => {
        impl SharedDoor<$curve, $digits> for $token {
            fn sign_alone(self, job: &mut SignJob<'_, $digits>) {
                $register::call(self, SignAlone::<$curve, $digits> { job, curve: PhantomData });
            }
        }
    };
}

doors!(Ifma512, Ifma512x8, self => self);
doors!(Ifma256, Ifma256x4, self => self);
doors!(Single, Portable, self => ());
shared_door!(Ifma512, Ifma512x8, P256, 5);
shared_door!(Ifma512, Ifma512x8, P384, 8);
shared_door!(Ifma256, Ifma256x4, P256, 5);
shared_door!(Ifma256, Ifma256x4, P384, 8);

fn check_count<J>(jobs: &[J], lanes: usize) {
    assert!((1..=lanes).contains(&jobs.len()), "a batch has 1 to {lanes} jobs");
}
