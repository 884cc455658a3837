//! Montgomery arithmetic for RSA: the types of a batch, and one file per room.
//!
//! [`Batches::private_crt`] runs private-key operations of one size, each with a key of its own,
//! from bytes to bytes: as many as a register has lanes; half as many in half the time, as both
//! halves of each have a lane; or a single one ([`one`]). All reduce, exponentiate modulo both
//! primes, recombine, and raise every result to the public exponent before they let it go. The
//! mathematics and its bounds are in `docs/design/radix52.md`.
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
use lanes::Halves;
pub use modulus::Modulus;

use self::one::Alone;
use crate::lanes::{Fma256x4, Ifma256x4, Ifma512x8};

/// A register by which RSA operations are computed.
pub trait Batches: Alone {
    /// How many jobs a kernel takes that costs no more for them than for one, kernel by kernel.
    const KERNELS: &'static [usize];

    /// Runs private-key operations of one size, each with a key of its own, by the kernel for
    /// `lanes` jobs.
    ///
    /// Every job gets a verdict; outputs are zeros unless it is [`Done`](Verdict::Done).
    /// Needs up to 152 KiB of stack.
    ///
    /// # Panics
    ///
    /// Panics if there is no such kernel, if there is no job, if there are more than `lanes`, or if
    /// an input or output is not as long as the modulus.
    fn private_crt<const HALF: usize, const FULL: usize>(
        room: Self::Room,
        lanes: usize,
        jobs: &mut [CrtJob<'_, HALF, FULL>],
    );
}

/// Implements [`Batches`] for a register whose lanes take an RSA operation each, or half of one.
macro_rules! batches {
    ($register:ident, $lanes:expr) => {
        impl Batches for $register {
            const KERNELS: &'static [usize] = &[1, $lanes / 2, $lanes];

            fn private_crt<const HALF: usize, const FULL: usize>(
                room: Self::Room,
                lanes: usize,
                jobs: &mut [CrtJob<'_, HALF, FULL>],
            ) {
                assert!(Self::KERNELS.contains(&lanes), "no kernel takes {lanes} jobs");
                match jobs {
                    [job] if lanes == 1 => one::private_crt::<Self, HALF, FULL>(room, job),
                    jobs => {
                        let halves = if lanes < $lanes { Halves::Abreast } else { Halves::InTurn };
                        lanes::private_crt::<{ $lanes }, HALF, FULL>(room, halves, jobs);
                    }
                }
            }
        }
    };
}

batches!(Ifma256x4, ifma256_x4::LANES);
batches!(Ifma512x8, ifma512_x8::LANES);

impl Batches for Fma256x4 {
    const KERNELS: &'static [usize] = &[1];

    fn private_crt<const HALF: usize, const FULL: usize>(
        room: Self::Room,
        lanes: usize,
        jobs: &mut [CrtJob<'_, HALF, FULL>],
    ) {
        assert_eq!(lanes, 1, "no kernel takes {lanes} jobs");
        let [job] = jobs else { panic!("a batch has one job") };
        one::private_crt::<Self, HALF, FULL>(room, job);
    }
}
