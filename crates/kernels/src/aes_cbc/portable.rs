//! Room portable of aes_cbc: bit slices, four blocks at a time. Secret-independent.
//!
//! No token opens it, so that `()` stands where the other rooms take theirs.

use widelane_secret::stack::wiped;

use super::{BLOCK_BYTES, Block, KeyBytes, inverse};
use crate::aes_gcm::bitslice::{BLOCKS, Cipher};
use crate::text::Text;

/// Words of stack that are cleared behind a text.
const STACK: usize = 256;

/// A key of this room, wiped when it is dropped.
#[derive(Clone, Default)]
pub struct Key {
    cipher: Cipher,
}

/// Expands a key into `made`.
pub fn expand(_room: (), key: KeyBytes<'_>, made: &mut Key) {
    wiped::<STACK, _>(|| made.cipher.expand(key));
}

/// Encrypts whole blocks behind the block `last`, and leaves the last one there.
pub fn encrypt(_room: (), key: &Key, last: &mut Block, text: Text<'_>) {
    wiped::<STACK, _>(|| encrypt_body(key, last, text));
}

fn encrypt_body(key: &Key, last: &mut Block, text: Text<'_>) {
    let mut text = text;
    while !text.is_empty() {
        let (block, rest) = text.split_at(BLOCK_BYTES);
        block.map(|block: &mut Block| {
            add(block, last);
            let mut blocks = [*block; BLOCKS];
            key.cipher.encrypt(&mut blocks);
            [*block, ..] = blocks;
            *last = *block;
        });
        text = rest;
    }
}

/// Decrypts whole blocks behind the block `last`, and leaves the last one there.
pub fn decrypt(_room: (), key: &Key, last: &mut Block, text: Text<'_>) {
    wiped::<STACK, _>(|| decrypt_body(key, last, text));
}

fn decrypt_body(key: &Key, last: &mut Block, text: Text<'_>) {
    let mut text = text;
    while !text.is_empty() {
        let bytes = text.len().min(BLOCKS * BLOCK_BYTES);
        let (chunk, rest) = text.split_at(bytes);
        chunk.map(|chunk: &mut [u8; BLOCKS * BLOCK_BYTES]| {
            let mut blocks = [[0; BLOCK_BYTES]; BLOCKS];
            blocks.as_flattened_mut().copy_from_slice(chunk);
            let ciphertext = blocks;
            inverse::decrypt(&key.cipher, &mut blocks);
            for (block, ciphertext) in blocks.iter_mut().zip(&ciphertext[..bytes / BLOCK_BYTES]) {
                add(block, last);
                *last = *ciphertext;
            }
            chunk.copy_from_slice(blocks.as_flattened());
        });
        text = rest;
    }
}

fn add(block: &mut Block, other: &Block) {
    for (byte, other) in block.iter_mut().zip(other) {
        *byte ^= other;
    }
}
