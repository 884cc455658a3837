//! The arithmetic: algorithm first, one file per room. No branch or address depends on a secret.
#![no_std]

#[cfg(test)]
extern crate std;

pub mod aes_gcm;
pub mod chacha20_poly1305;
pub mod curve25519;
pub mod lanes;
pub mod mont;
pub mod text;
pub mod weierstrass;
