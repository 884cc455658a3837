//! Where jobs on a curve enter a room, which the type of a register names. Secret-independent.

use core::marker::PhantomData;
use core::slice;

use super::Curve;
use super::batch::{Derive, Generate, Verify};
use super::job::{DeriveJob, GenerateJob, SignJob, VerifyJob};
use super::sign::{Sign, SignAlone};
use crate::lanes::{Fma256x4, Ifma256x4, Ifma512x8, Lanes, Portable};
use crate::registers::Register;

/// A register whose lanes take jobs on a curve. Every register has it for all curves by functions
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

/// Implements [`CurveLanes`] for registers and a curve, given what signs a digest alone.
macro_rules! curve_lanes {
    ($curve:ident $digits:literal: $($register:ident by $alone:ident),+) => {$(
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

            fn sign_alone(room: Self::Room, job: &mut SignJob<'_, $digits>) {
                $alone::<Self, $curve, $digits>(room, job);
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

/// Signs a digest in the one lane of a room.
fn sign<L: CurveLanes<C, D>, C: Curve<D>, const D: usize>(room: L::Room, job: &mut SignJob<'_, D>) {
    L::sign(room, slice::from_mut(job));
}

macro_rules! all_curves {
    ($($curve:ident $digits:literal),+) => {$(
        use super::$curve;
        curve_lanes! {
            $curve $digits:
            Ifma512x8 by share, Ifma256x4 by share, Fma256x4 by share, Portable by sign
        }
    )+};
}

with_curves!(all_curves);

fn check_count<J>(jobs: &[J], lanes: usize) {
    assert!((1..=lanes).contains(&jobs.len()), "a batch has 1 to {lanes} jobs");
}
