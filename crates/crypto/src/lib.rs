#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// Its macros are in scope from here on.
#[macro_use]
mod choice;

pub mod aead;
pub mod cbc_hmac;
pub mod digest;
pub mod ec;
pub mod ed25519;
mod family;
pub mod kdf;
pub mod mac;
pub mod mlkem;
pub mod rsa;
pub mod sha3;
pub mod x25519;

pub use family::Family;
pub use widelane_cpu::{Policy, Room};
pub use widelane_vault::{fork_generation, has_unlocked_keys};
