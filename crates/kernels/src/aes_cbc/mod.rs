//! AES-CBC (NIST SP 800-38A): encryption of one text or of many in lanes, and decryption.
//!
//! A block is encrypted only when the one in front of it is, so that a single text leaves most of
//! a wide register empty; sixteen texts fill four. Decryption has no such chain. Texts are whole
//! blocks; padding and authentication are for the caller. `docs/design/aes-cbc-hmac.md` has the
//! rest.

// Its macro is in scope from here on.
#[macro_use]
mod decrypt;

pub mod aesni;
mod chain;
mod inverse;
pub mod lanes;
pub mod portable;
pub mod shani;
#[cfg(test)]
mod tests;
pub mod vaes256;
pub mod vaes512;

use widelane_secret::wipe;

use crate::aes_gcm::key::ROUND_KEYS_MAX;
pub use crate::aes_gcm::{BLOCK_BYTES, Block, KeyBytes};

/// Bytes of a block of SHA-1 and SHA-256.
pub const HASH_BLOCK_BYTES: usize = 64;

/// A key of the rooms with AES instructions, wiped when it is dropped.
#[derive(Clone)]
pub struct Key {
    encrypt: [[u64; 2]; ROUND_KEYS_MAX],
    /// In the order in which they are used, for the equivalent inverse cipher (FIPS 197, 5.3.5).
    decrypt: [[u64; 2]; ROUND_KEYS_MAX],
    rounds: usize,
}

impl Default for Key {
    /// A key that is still to be expanded.
    fn default() -> Self {
        Key { encrypt: [[0; 2]; ROUND_KEYS_MAX], decrypt: [[0; 2]; ROUND_KEYS_MAX], rounds: 0 }
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        wipe(self.encrypt.as_flattened_mut());
        wipe(self.decrypt.as_flattened_mut());
    }
}
