//! AES-CBC in the room chosen: which kernel does what.

use widelane_cpu::choice;
use widelane_kernels::aes_cbc::lanes::{self, LANES, LaneKeys};
use widelane_kernels::aes_cbc::{self, Block, KeyBytes, aesni, portable, vaes256, vaes512};
use widelane_kernels::text::Text;
use widelane_secret::wipe;

use super::{BLOCK_BYTES, HASH_BLOCK_BYTES, HEADER_BYTES};
use crate::digest::{Digest, Tail};
use crate::mac;

keyed_choice! { $
    /// The room of AES-CBC.
    pub(super) enum Choice, Cipher by in_room {
        Vaes512 => vaes512, Vaes256 => vaes256, Aesni => aesni, Portable => portable
    }
}

impl Cipher {
    /// Encrypts whole blocks behind the block `last`, and leaves the last one there.
    pub(super) fn encrypt(&self, last: &mut Block, text: Text<'_>) {
        in_room!(self, |room, key, cbc| cbc::encrypt(room, key, last, text));
    }

    /// Decrypts whole blocks behind the block `last`, and leaves the last one there.
    pub(super) fn decrypt(&self, last: &mut Block, text: Text<'_>) {
        in_room!(self, |room, key, cbc| cbc::decrypt(room, key, last, text));
    }

    /// Makes the tag of a text that stands behind `iv_bytes` bytes, and encrypts the whole blocks
    /// of both behind the block `last` on the way. Answers the tag, and how many bytes are
    /// encrypted.
    pub(super) fn seal_text(
        &self,
        mac: &mac::Key,
        header: &[u8; HEADER_BYTES],
        last: &mut Block,
        iv_bytes: usize,
        text: &mut [u8],
    ) -> (Digest, usize) {
        let hash = mac.hash();
        let hashed = &text[iv_bytes..];
        let filling = hashed.len().min(HASH_BLOCK_BYTES - HEADER_BYTES);
        let (filling, rest) = hashed.split_at(filling);
        let (blocks, rest) = rest.as_chunks::<HASH_BLOCK_BYTES>();
        let ahead = iv_bytes + filling.len();
        let begun = HEADER_BYTES + filling.len();
        let mut first = [0; HASH_BLOCK_BYTES];
        first[..HEADER_BYTES].copy_from_slice(header);
        first[HEADER_BYTES..begun].copy_from_slice(filling);
        // The pad of HMAC is a block in front. What the tail has of the text is taken now: it will
        // be encrypted, and is in its place long before it is read.
        let total = (HASH_BLOCK_BYTES + HEADER_BYTES + hashed.len()) as u64;
        let first_is_whole = begun == HASH_BLOCK_BYTES;
        let mut tail = Tail::EMPTY;
        tail.set(hash, if first_is_whole { rest } else { &first[..begun] }, total);
        let mut state = mac.inner_state();
        let (mut done, whole) = (0, text.len() / BLOCK_BYTES * BLOCK_BYTES);
        if first_is_whole {
            hash.compress(&mut state, &first);
        }
        if !blocks.is_empty() {
            if let Cipher::Vaes512(_, key) | Cipher::Vaes256(_, key) | Cipher::Aesni(_, key) = self
            {
                let text = Text::in_place(text);
                done = hash.compress_and_encrypt(&mut state, ahead, key, last, text);
            }
            if done == 0 {
                let blocks = text[ahead..].as_chunks::<HASH_BLOCK_BYTES>().0;
                hash.compress(&mut state, blocks.as_flattened());
            }
        }
        wipe(&mut first);
        // The chain goes on before the hash does, so that the CPU overlaps the two.
        self.encrypt(last, Text::in_place(&mut text[done..whole]));
        let tag = mac.end(&mut state, tail.blocks());
        tail.wipe();
        (tag, whole)
    }

    /// The key and the room with lanes, if it lives there.
    pub(super) fn lanes(&self) -> Option<(LaneRoom, &aes_cbc::Key)> {
        match self {
            Cipher::Vaes512(room, key) => Some((LaneRoom::Vaes512(*room), key)),
            Cipher::Vaes256(room, key) => Some((LaneRoom::Vaes256(*room), key)),
            Cipher::Aesni(..) | Cipher::Portable(..) => None,
        }
    }
}

/// The kernel of lanes in registers of half the width, by the name that the other one has.
mod halves {
    pub(super) use widelane_kernels::aes_cbc::lanes::encrypt_in_halves as encrypt;
}

choice! { $
    /// A room with lanes.
    pub(super) enum LaneRoom without portable by in_lane_room {
        Vaes512 => lanes, Vaes256 => halves
    }
}

impl LaneRoom {
    /// See [`lanes::encrypt`].
    pub(super) fn encrypt<const ROWS: usize>(
        self,
        keys: &LaneKeys<ROWS>,
        last: &mut [[Block; LANES]; ROWS],
        texts: &[[Text<'_>; LANES]; ROWS],
        blocks: usize,
    ) {
        in_lane_room!(self, |room, cbc| cbc::encrypt(room, keys, last, texts, blocks));
    }
}
