//! The curves P-256 and P-384: key generation, ECDH and ECDSA, one job per lane.
//!
//! Every operation is written once, over the registers of [`lanes`](crate::lanes), for any curve
//! y² = x³ − 3·x + b and any room; a curve adds its numbers and its reduction, a room its register.
//! [`CurveLanes`] takes 1 to [`LANES`](crate::registers::Register::LANES) jobs of one curve, each
//! with a key of its own, from bytes to bytes, and gives every job a [`Verdict`]. Mathematics and
//! bounds are in `docs/design/nist-curves.md`.

#[macro_use]
#[allow(dead_code, reason = "the build script reads the rest")]
mod numbers;

mod batch;
mod curve;
mod door;
mod element;
mod inverse;
mod job;
mod multiply;
mod p256;
mod p384;
mod point;
mod scalar;
mod sign;
mod spread;
mod table;
#[cfg(test)]
mod tests;

pub use curve::Curve;
pub use door::CurveLanes;
pub use job::{DeriveJob, GenerateJob, Point, Scalar, SignJob, Verdict, VerifyJob};
pub use numbers::{NONCE_BYTES, Numbers};
pub use p256::P256;
pub use p384::P384;
