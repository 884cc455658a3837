//! AES-CBC in the room chosen: which kernel does what.

use widelane_cpu::{Aesni, Vaes256, Vaes512};
use widelane_kernels::aes_cbc::lanes::{self, LANES, LaneKeys};
use widelane_kernels::aes_cbc::{self, Block, KeyBytes, aesni, portable, vaes256, vaes512};
use widelane_kernels::text::Text;
use widelane_secret::wipe;

use super::{BLOCK_BYTES, HASH_BLOCK_BYTES, HEADER_BYTES};
use crate::choice::AesChoice;
use crate::digest::{Digest, Tail};
use crate::mac;

/// A key in its room. Boxed, so that moving it leaves no copies behind.
#[derive(Clone)]
pub(super) enum Cipher {
    Vaes512(Vaes512, Box<aes_cbc::Key>),
    Vaes256(Vaes256, Box<aes_cbc::Key>),
    Aesni(Aesni, Box<aes_cbc::Key>),
    Portable((), Box<portable::Key>),
}

/// Calls a function of the room that a key lives in.
macro_rules! in_room {
    ($cipher:expr, $function:ident, |$key:ident| $($argument:expr),+) => {
        match $cipher {
            Cipher::Vaes512(room, $key) => vaes512::$function(*room, $($argument),+),
            Cipher::Vaes256(room, $key) => vaes256::$function(*room, $($argument),+),
            Cipher::Aesni(room, $key) => aesni::$function(*room, $($argument),+),
            Cipher::Portable(room, $key) => portable::$function(*room, $($argument),+),
        }
    };
}

impl Cipher {
    /// Expands a key of 16 or 32 bytes.
    pub(super) fn new(choice: AesChoice, bytes: &[u8]) -> Self {
        let bytes = KeyBytes::new(bytes).expect("the caller has looked at the length");
        let mut cipher = match choice {
            AesChoice::Vaes512(room) => Cipher::Vaes512(room, Box::default()),
            AesChoice::Vaes256(room) => Cipher::Vaes256(room, Box::default()),
            AesChoice::Aesni(room) => Cipher::Aesni(room, Box::default()),
            AesChoice::Portable => Cipher::Portable((), Box::default()),
        };
        in_room!(&mut cipher, expand, |key| bytes, key);
        cipher
    }

    /// Encrypts whole blocks behind the block `last`, and leaves the last one there.
    pub(super) fn encrypt(&self, last: &mut Block, text: Text<'_>) {
        in_room!(self, encrypt, |key| key, last, text);
    }

    /// Decrypts whole blocks behind the block `last`, and leaves the last one there.
    pub(super) fn decrypt(&self, last: &mut Block, text: Text<'_>) {
        in_room!(self, decrypt, |key| key, last, text);
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
    pub(super) fn lanes(&self) -> Option<(Lanes, &aes_cbc::Key)> {
        match self {
            Cipher::Vaes512(room, key) => Some((Lanes::Vaes512(*room), key)),
            Cipher::Vaes256(room, key) => Some((Lanes::Vaes256(*room), key)),
            Cipher::Aesni(..) | Cipher::Portable(..) => None,
        }
    }
}

/// A room with lanes.
#[derive(Clone, Copy)]
pub(super) enum Lanes {
    Vaes512(Vaes512),
    Vaes256(Vaes256),
}

impl Lanes {
    /// See [`lanes::encrypt`].
    pub(super) fn encrypt<const ROWS: usize>(
        self,
        keys: &LaneKeys<ROWS>,
        last: &mut [[Block; LANES]; ROWS],
        texts: &[[Text<'_>; LANES]; ROWS],
        blocks: usize,
    ) {
        match self {
            Lanes::Vaes512(room) => lanes::encrypt(room, keys, last, texts, blocks),
            Lanes::Vaes256(room) => lanes::encrypt_in_halves(room, keys, last, texts, blocks),
        }
    }
}
