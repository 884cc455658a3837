//! The arithmetic: algorithm first, one file per room. No branch or address depends on a secret.
#![doc = include_str!("../README.md")]
#![no_std]

#[cfg(test)]
extern crate std;

// Their macros are in scope from here on.
#[macro_use]
mod digits;
#[macro_use]
pub mod registers;

pub mod aes_cbc;
pub mod aes_gcm;
pub mod chacha20_poly1305;
pub mod coefficients;
pub mod curve25519;
mod divsteps;
pub mod hash;
pub mod keccak;
pub mod lanes;
#[cfg(test)]
mod leavings;
pub mod mlkem;
pub mod mont;
pub mod sha1;
pub mod sha2;
pub mod text;
pub mod weierstrass;
pub mod words;
