//! Room shani of aes_cbc: one text is encrypted while it is hashed. Secret-independent.
//!
//! Both chains wait for their own latency only, so that together they take as long as the longer
//! one.
#![allow(unsafe_code, reason = "room: doors and loads")]

use widelane_cpu::Shani;
use widelane_secret::wipe_ymm_registers;

use super::chain::Chain;
use super::{BLOCK_BYTES, Block, HASH_BLOCK_BYTES, Key};
use crate::hash::STATE_WORDS;
use crate::text::Text;
use crate::{sha1, sha2};

/// Defines a door for one hash function, and the body behind it.
macro_rules! stitched {
    ($door:ident, $body:ident, $hash:ident) => {
        /// Encrypts the first blocks of the hash of `text` behind the block `last`, and leaves the
        /// last one there, while it adds as many blocks from byte `ahead` on to `state`. Answers
        /// how many bytes were encrypted.
        pub fn $door(
            _room: Shani,
            key: &Key,
            last: &mut Block,
            state: &mut [u32; STATE_WORDS],
            ahead: usize,
            text: Text<'_>,
        ) -> usize {
            // SAFETY: the token exists only if every feature of its room was detected.
            unsafe { $body(key, last, state, ahead, text) }
        }

        #[target_feature(enable = "sha,aes,avx")]
        fn $body(
            key: &Key,
            last: &mut Block,
            state: &mut [u32; STATE_WORDS],
            ahead: usize,
            text: Text<'_>,
        ) -> usize {
            let mut hash = $hash::shani::State::load(state);
            let mut chain = Chain::new(key, last);
            let blocks = text.len().saturating_sub(ahead) / HASH_BLOCK_BYTES;
            for block in 0..blocks {
                let offset = block * HASH_BLOCK_BYTES;
                let source = text.source(ahead + offset, HASH_BLOCK_BYTES);
                // SAFETY: `source` names as many readable bytes, which are written only later.
                let hashed = unsafe { source.cast::<[u8; HASH_BLOCK_BYTES]>().read() };
                hash.add(&hashed);
                for block in 0..HASH_BLOCK_BYTES / BLOCK_BYTES {
                    chain.step(text, offset + block * BLOCK_BYTES);
                }
            }
            hash.store(state);
            *last = chain.last();
            wipe_ymm_registers();
            blocks * HASH_BLOCK_BYTES
        }
    };
}

stitched!(encrypt_with_sha1, encrypt_with_sha1_body, sha1);
stitched!(encrypt_with_sha256, encrypt_with_sha256_body, sha2);
