//! AES-CBC in the room chosen: which kernel does what.

use widelane_cpu::{Aesni, Policy, Room, Vaes512};
use widelane_kernels::aes_cbc::{self, Block, KeyBytes, aesni, portable, vaes512};
use widelane_kernels::text::Text;

use super::HEADER_BYTES;
use crate::digest::Digest;
use crate::mac;

/// The room chosen, with the token that opens it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Choice {
    Vaes512(Vaes512),
    Aesni(Aesni),
    Portable,
}

/// A key in its room. Boxed, so that moving it leaves no copies behind.
#[derive(Clone)]
pub(super) enum Cipher {
    Vaes512(Vaes512, Box<aes_cbc::Key>),
    Aesni(Aesni, Box<aes_cbc::Key>),
    Portable((), Box<portable::Key>),
}

/// Calls a function of the room that a key lives in.
macro_rules! in_room {
    ($cipher:expr, $function:ident, |$key:ident| $($argument:expr),+) => {
        match $cipher {
            Cipher::Vaes512(room, $key) => vaes512::$function(*room, $($argument),+),
            Cipher::Aesni(room, $key) => aesni::$function(*room, $($argument),+),
            Cipher::Portable(room, $key) => portable::$function(*room, $($argument),+),
        }
    };
}

impl Choice {
    pub(super) fn new(policy: &Policy) -> Self {
        match (Vaes512::enter(policy), Aesni::enter(policy)) {
            (Some(room), _) => Choice::Vaes512(room),
            (None, Some(room)) => Choice::Aesni(room),
            (None, None) => Choice::Portable,
        }
    }

    pub(super) fn room(self) -> Room {
        match self {
            Choice::Vaes512(_) => Room::Vaes512,
            Choice::Aesni(_) => Room::Aesni,
            Choice::Portable => Room::Portable,
        }
    }
}

impl Cipher {
    /// Expands a key of 16 or 32 bytes.
    pub(super) fn new(choice: Choice, bytes: &[u8]) -> Self {
        let bytes = KeyBytes::new(bytes).expect("the caller has looked at the length");
        let mut cipher = match choice {
            Choice::Vaes512(room) => Cipher::Vaes512(room, Box::default()),
            Choice::Aesni(room) => Cipher::Aesni(room, Box::default()),
            Choice::Portable => Cipher::Portable((), Box::default()),
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

    /// Makes the tag of a text, and encrypts as much of it behind the block `last` as is no trouble
    /// on the way. Answers the tag, and how many bytes are encrypted.
    pub(super) fn seal_text(
        &self,
        mac: &mac::Key,
        header: &[u8; HEADER_BYTES],
        last: &mut Block,
        text: &mut [u8],
    ) -> (Digest, usize) {
        let mut stream = mac.begin();
        stream.update(header);
        let done = match self {
            Cipher::Vaes512(_, key) | Cipher::Aesni(_, key) => {
                stream.update_and_encrypt(key, last, text)
            }
            Cipher::Portable((), _) => {
                stream.update(text);
                0
            }
        };
        (stream.finish(), done)
    }

    /// The key and the room with lanes, if it lives there.
    pub(super) fn lanes(&self) -> Option<(Vaes512, &aes_cbc::Key)> {
        match self {
            Cipher::Vaes512(room, key) => Some((*room, key)),
            Cipher::Aesni(..) | Cipher::Portable(..) => None,
        }
    }
}
