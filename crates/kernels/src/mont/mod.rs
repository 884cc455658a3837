//! Montgomery arithmetic for RSA: the types of a batch, and one file per room.
//!
//! [`Batches::private_crt`] runs up to `LANES` private-key operations of one size, each with a key
//! of its own, from bytes to bytes; up to half as many take half the time if both halves of each
//! have a lane, and [`one`] is for a single one. All reduce, exponentiate modulo both primes,
//! recombine, and raise every result to the public exponent before they let it go. The mathematics
//! and its bounds are in `docs/design/radix52.md`.
//!
//! Sizes are counted in 52-bit digits: a prime has `HALF` digits and a modulus `FULL = 2·HALF`.
//!
//! | Key | `HALF` | `FULL` |
//! |---|---|---|
//! | RSA-2048 | 20 | 40 |
//! | RSA-3072 | 30 | 60 |
//! | RSA-4096 | 40 | 80 |

// Its macros are in scope from here on.
#[macro_use]
mod tiles;

#[cfg(test)]
mod bignum_tests;
mod digits;
mod ifma256_x4;
mod ifma512_x8;
mod key;
mod lanes;
#[cfg(test)]
mod model;
mod modulus;
pub mod one;
pub mod portable;
#[cfg(test)]
mod tests;

pub use key::{CrtJob, CrtKey, CrtParts, Verdict};
pub use lanes::Halves;
pub use modulus::Modulus;

use self::one::Digits;
use crate::lanes::{Ifma256x4, Ifma512x8};

/// A register whose lanes take an RSA operation each, or half of one.
pub trait Batches: Digits {
    /// Runs private-key operations of one size, each with a key of its own: 1 to `LANES` with
    /// [`Halves::InTurn`], half as many in half the time with [`Halves::Abreast`].
    ///
    /// Every job gets a verdict; outputs are zeros unless it is [`Done`](Verdict::Done).
    /// Needs up to 200 kB of stack.
    ///
    /// # Panics
    ///
    /// Panics if there is no job, if there are too many, or if an input or output is not as long as
    /// the modulus.
    fn private_crt<const HALF: usize, const FULL: usize>(
        room: Self::Room,
        halves: Halves,
        jobs: &mut [CrtJob<'_, HALF, FULL>],
    );
}

impl Batches for Ifma256x4 {
    fn private_crt<const HALF: usize, const FULL: usize>(
        room: Self::Room,
        halves: Halves,
        jobs: &mut [CrtJob<'_, HALF, FULL>],
    ) {
        lanes::private_crt::<{ ifma256_x4::LANES }, HALF, FULL>(room, halves, jobs);
    }
}

impl Batches for Ifma512x8 {
    fn private_crt<const HALF: usize, const FULL: usize>(
        room: Self::Room,
        halves: Halves,
        jobs: &mut [CrtJob<'_, HALF, FULL>],
    ) {
        lanes::private_crt::<{ ifma512_x8::LANES }, HALF, FULL>(room, halves, jobs);
    }
}
