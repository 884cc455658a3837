//! Room shani of aes_cbc: one text is encrypted while it is hashed. Secret-independent.
//!
//! Both chains wait for their own latency only, so that together they take as long as the longer
//! one. A block of the cipher stands beside each quarter of a block of the hash: the CPU looks
//! ahead far enough to overlap these, and not much farther. Whether before or behind it was found
//! by trying.
#![allow(unsafe_code, reason = "room: doors and loads")]

use core::arch::x86_64::_mm256_zeroupper;

use widelane_cpu::Shani;
use widelane_secret::wipe_ymm_registers;

use super::chain::Chain;
use super::{BLOCK_BYTES, Block, HASH_BLOCK_BYTES, Key};
use crate::hash::STATE_WORDS;
use crate::text::Text;
use crate::{sha1, sha2};

/// Defines a door for one hash function, and the body behind it.
macro_rules! stitched {
    ($door:ident, $body:ident, $by:ident, $hash:ident) => {
        /// Encrypts the first blocks of the hash of `text` behind the block `last`, and leaves the
        /// last one there, while it adds as many blocks from byte `ahead` on to `state`. Returns
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
            _mm256_zeroupper();
            let done = match key.rounds {
                10 => $by::<10>(key, last, state, ahead, text),
                12 => $by::<12>(key, last, state, ahead, text),
                _ => $by::<14>(key, last, state, ahead, text),
            };
            wipe_ymm_registers();
            done
        }

        #[inline]
        #[target_feature(enable = "sha,aes,avx")]
        fn $by<const ROUNDS: usize>(
            key: &Key,
            last: &mut Block,
            state: &mut [u32; STATE_WORDS],
            ahead: usize,
            text: Text<'_>,
        ) -> usize {
            let blocks = text.len().saturating_sub(ahead) / HASH_BLOCK_BYTES;
            if blocks == 0 {
                return 0;
            }
            let mut hash = $hash::shani::State::load(state);
            let mut chain = Chain::<ROUNDS>::new(key, last, text);
            for block in 0..blocks {
                let offset = block * HASH_BLOCK_BYTES;
                let source = text.source(ahead + offset, HASH_BLOCK_BYTES);
                // SAFETY: `source` names as many readable bytes, which are written only later.
                let hashed = unsafe { source.cast::<[u8; HASH_BLOCK_BYTES]>().read() };
                hash.add($hash::shani::load(&hashed), |quarter| {
                    chain.step(text, offset + quarter * BLOCK_BYTES);
                });
            }
            hash.store(state);
            *last = chain.last();
            blocks * HASH_BLOCK_BYTES
        }
    };
}

const _: () = assert!(HASH_BLOCK_BYTES == 4 * BLOCK_BYTES, "each quarter has its block");

stitched!(encrypt_with_sha1, encrypt_with_sha1_body, encrypt_with_sha1_by, sha1);
stitched!(encrypt_with_sha256, encrypt_with_sha256_body, encrypt_with_sha256_by, sha2);
