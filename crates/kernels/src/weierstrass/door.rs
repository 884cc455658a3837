//! Where jobs on a curve enter a room, which the type of a register names. Secret-independent.
//!
//! # Panics
//!
//! Every function panics if there is no job, if there are more than `L::LANES`, or if an output or
//! a signature has the wrong length.

use core::marker::PhantomData;

use super::Curve;
use super::batch::{Derive, Generate, Verify};
use super::job::{DeriveJob, GenerateJob, SignJob, VerifyJob};
use super::sign::{Sign, SignAlone};
use crate::lanes::Lanes;

/// Makes the public keys of 1 to `L::LANES` private ones.
pub fn generate<L: Lanes, C: Curve<D>, const D: usize>(
    room: L::Room,
    jobs: &mut [GenerateJob<'_, D>],
) {
    check_count::<L, _>(jobs);
    L::call(room, Generate::<C, D> { jobs, curve: PhantomData });
}

/// Derives 1 to `L::LANES` shared secrets.
pub fn derive<L: Lanes, C: Curve<D>, const D: usize>(room: L::Room, jobs: &mut [DeriveJob<'_, D>]) {
    check_count::<L, _>(jobs);
    L::call(room, Derive::<C, D> { jobs, curve: PhantomData });
}

/// Signs 1 to `L::LANES` digests, each in a lane of its own.
pub fn sign<L: Lanes, C: Curve<D>, const D: usize>(room: L::Room, jobs: &mut [SignJob<'_, D>]) {
    check_count::<L, _>(jobs);
    L::call(room, Sign::<C, D> { jobs, curve: PhantomData });
}

/// Signs a digest in all lanes, which takes less time than a batch.
pub fn sign_alone<L: Lanes, C: Curve<D>, const D: usize>(room: L::Room, job: &mut SignJob<'_, D>) {
    L::call(room, SignAlone::<C, D> { job, curve: PhantomData });
}

/// Verifies 1 to `L::LANES` signatures. Everything in them is public.
pub fn verify<L: Lanes, C: Curve<D>, const D: usize>(room: L::Room, jobs: &mut [VerifyJob<'_, D>]) {
    check_count::<L, _>(jobs);
    L::call(room, Verify::<C, D> { jobs, curve: PhantomData });
}

fn check_count<L: Lanes, J>(jobs: &[J]) {
    let lanes = L::LANES;
    assert!((1..=lanes).contains(&jobs.len()), "a batch has 1 to {lanes} jobs");
}
