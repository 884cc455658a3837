//! Where jobs on a curve enter a room, which the type of a register names. Secret-independent.

use core::marker::PhantomData;
use core::slice;

use super::batch::{Derive, Generate, Verify};
use super::job::{DeriveJob, GenerateJob, SignJob, VerifyJob};
use super::sign::{Sign, SignAlone};
use super::{Curve, P256, P384};
use crate::lanes::{Fma256x4, Ifma256x4, Ifma512x8, Lanes, Portable};
use crate::registers::Register;

/// A register whose lanes take jobs on a curve. Every register has it for both curves by functions
/// without parameters: their code is made here, and not again by each crate that calls them.
///
/// # Panics
///
/// Every function panics if there is no job, if there are more than `LANES`, or if an output or a
/// signature has the wrong length.
pub trait CurveLanes<C: Curve<D>, const D: usize>: Lanes {
    /// Makes public keys.
    fn generate(room: Self::Room, jobs: &mut [GenerateJob<'_, D>]);

    /// Derives shared secrets.
    fn derive(room: Self::Room, jobs: &mut [DeriveJob<'_, D>]);

    /// Signs digests, each in a lane of its own.
    fn sign(room: Self::Room, jobs: &mut [SignJob<'_, D>]);

    /// Signs a digest in all lanes, which takes less time than a batch.
    fn sign_alone(room: Self::Room, job: &mut SignJob<'_, D>);

    /// Verifies signatures. Everything in them is public.
    fn verify(room: Self::Room, jobs: &mut [VerifyJob<'_, D>]);
}

/// Implements [`CurveLanes`] for registers and curves, given how a digest is signed alone.
macro_rules! curve_lanes {
    ($($register:ident: $curve:ident, $digits:literal,
       $room:ident $job:ident => $alone:expr;)+) => {$(
        impl CurveLanes<$curve, $digits> for $register {
            fn generate(room: Self::Room, jobs: &mut [GenerateJob<'_, $digits>]) {
                check_count(jobs, Self::LANES);
                Self::enter(room, Generate::<$curve, $digits> { jobs, curve: PhantomData });
            }

            fn derive(room: Self::Room, jobs: &mut [DeriveJob<'_, $digits>]) {
                check_count(jobs, Self::LANES);
                Self::enter(room, Derive::<$curve, $digits> { jobs, curve: PhantomData });
            }

            fn sign(room: Self::Room, jobs: &mut [SignJob<'_, $digits>]) {
                check_count(jobs, Self::LANES);
                Self::enter(room, Sign::<$curve, $digits> { jobs, curve: PhantomData });
            }

            fn sign_alone($room: Self::Room, $job: &mut SignJob<'_, $digits>) {
                $alone;
            }

            fn verify(room: Self::Room, jobs: &mut [VerifyJob<'_, $digits>]) {
                check_count(jobs, Self::LANES);
                Self::enter(room, Verify::<$curve, $digits> { jobs, curve: PhantomData });
            }
        }
    )+};
}

/// Signs a digest in all lanes of a room that has several.
fn share<L: Lanes, C: Curve<D>, const D: usize>(room: L::Room, job: &mut SignJob<'_, D>) {
    L::enter(room, SignAlone::<C, D> { job, curve: PhantomData });
}

curve_lanes! {
    Ifma512x8: P256, 5, room job => share::<Self, P256, 5>(room, job);
    Ifma512x8: P384, 8, room job => share::<Self, P384, 8>(room, job);
    Ifma256x4: P256, 5, room job => share::<Self, P256, 5>(room, job);
    Ifma256x4: P384, 8, room job => share::<Self, P384, 8>(room, job);
    Fma256x4: P256, 5, room job => share::<Self, P256, 5>(room, job);
    Fma256x4: P384, 8, room job => share::<Self, P384, 8>(room, job);
    Portable: P256, 5, room job => <Self as CurveLanes<P256, 5>>::sign(room, slice::from_mut(job));
    Portable: P384, 8, room job => <Self as CurveLanes<P384, 8>>::sign(room, slice::from_mut(job));
}

fn check_count<J>(jobs: &[J], lanes: usize) {
    assert!((1..=lanes).contains(&jobs.len()), "a batch has 1 to {lanes} jobs");
}
