//! The curves P-256 and P-384: key generation, ECDH and ECDSA, one job per lane.
//!
//! Every operation is written once, over the registers of [`lanes`](crate::lanes), for any curve
//! y² = x³ − 3·x + b and any room; a curve adds its numbers and its reduction, a room its door. A
//! [`Door`] takes 1 to [`LANES`](Door::LANES) jobs of one curve, each with a key of its own, from
//! bytes to bytes, and gives every job a [`Verdict`]. Mathematics and bounds: `docs/nist-curves.md`.

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

// Its macros are in scope from here on.
#[macro_use]
mod element;

mod batch;
mod curve;
mod digits;
mod ifma256_x4;
mod ifma512_x8;
mod job;
mod multiply;
#[allow(dead_code, reason = "the build script reads the rest")]
mod numbers;
mod p256;
mod p384;
mod point;
mod portable;
mod scalar;
mod table;

pub use curve::Curve;
pub use job::{DeriveJob, GenerateJob, Point, Scalar, SignJob, Verdict, VerifyJob};
pub use p256::P256;
pub use p384::P384;
pub use portable::Single;

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

fn check_count<J>(jobs: &[J], lanes: usize) {
    assert!((1..=lanes).contains(&jobs.len()), "a batch has 1 to {lanes} jobs");
}
