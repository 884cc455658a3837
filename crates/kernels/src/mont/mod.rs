//! Montgomery arithmetic for RSA: the types of a batch, and one file per room.
//!
//! A room's door is one call, `private_crt`: up to [`ifma512_x8::LANES`] (or [`ifma256_x4::LANES`])
//! private-key operations of one size, each with a key of its own, from bytes to bytes. Up to half
//! as many take half the time by `private_crt_abreast`, and [`one`] is for a single one, in either
//! room. It reduces, exponentiates modulo both
//! primes, recombines, and raises every result to the public exponent before it lets it go. The
//! mathematics and its bounds are in `docs/radix52.md`.
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

mod digits;
pub mod ifma256_x4;
pub mod ifma512_x8;
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
pub use modulus::Modulus;
