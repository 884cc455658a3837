//! AES-GCM (NIST SP 800-38D): the keys and sums of all rooms, and one file per room.
//!
//! A room seals and opens whole messages, and the pieces that a stream is made of. GHASH runs in
//! the bit-reflected field of POLYVAL (RFC 8452), several blocks per reduction with powers of the
//! hash key that are kept in the key; `docs/design/aes-gcm.md` has the mathematics.
//!
//! Between calls, the hash is kept as what is still to be multiplied by the hash key: a sum X, to
//! which the next block adds as X·H + block.

// Their macros are in scope from here on.
#[macro_use]
mod chunks;
#[macro_use]
mod engine;
#[macro_use]
mod ghash;
#[macro_use]
mod rows;

pub mod aesni;
pub(crate) mod bitslice;
pub(crate) mod expand;
mod field;
pub(crate) mod key;
pub mod portable;
#[cfg(test)]
mod tests;
pub mod vaes256;
pub mod vaes512;

pub use field::first_counter;
pub use key::{Key, KeyBytes};

use crate::text::Text;

/// Bytes of a block, of a tag, and of all sums.
pub const BLOCK_BYTES: usize = 16;

/// Bytes of the nonce that needs no hashing.
pub const NONCE_BYTES: usize = 12;

/// A block of the cipher or of the hash, as bytes of the message.
pub type Block = [u8; BLOCK_BYTES];

/// What is sealed or opened in one go.
pub struct Message<'a, K> {
    /// The key, made in the room that is called.
    pub key: &'a K,
    /// The first counter block, whose encryption masks the tag: nonce ‖ 1, of a nonce of 96 bits.
    /// Messages with other nonces are taken in pieces.
    pub first: Block,
    /// What is authenticated but not encrypted.
    pub aad: &'a [u8],
    /// What is encrypted or decrypted.
    pub text: Text<'a>,
    /// Where the tag goes. A caller that opens a message compares it with the one that came with
    /// the message, and returns no plaintext if they differ.
    pub tag: &'a mut Block,
}

/// The counter block `count` blocks later: its last 32 bits count, modulo 2^32.
#[inline]
pub fn later_counter(block: &Block, count: u32) -> Block {
    let block = u128::from_be_bytes(*block);
    let counter = (block as u32).wrapping_add(count);
    (block >> 32 << 32 | u128::from(counter)).to_be_bytes()
}

/// The last block that is hashed: both lengths in bits.
pub fn lengths_block(aad_bytes: u64, text_bytes: u64) -> Block {
    (u128::from(8 * aad_bytes) << 64 | u128::from(8 * text_bytes)).to_be_bytes()
}
