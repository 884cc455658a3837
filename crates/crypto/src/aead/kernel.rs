//! Keys of either algorithm, and their messages on the way.
//!
//! What takes a text is inlined down to the door of its room. A text is three words, and every
//! function that hands them on copies two of them at once: such a load waits until the stores of
//! both have left the core, and a message would not begin before the one in front of it is done.

use widelane_cpu::{Policy, Room};
use widelane_kernels::text::{Direction, Text};

use super::{
    Algorithm, HEADER_MASK_BYTES, HEADER_SAMPLE_BYTES, NONCE_BYTES, TAG_BYTES, chacha, gcm,
};

/// Bytes of the longest block of a key stream.
pub(super) const BLOCK_BYTES_MAX: usize = 64;

/// The room chosen for an algorithm.
#[derive(Clone, Copy, Debug)]
pub(super) enum Choice {
    Gcm(gcm::Choice),
    ChaCha(chacha::Rooms),
}

/// A key in its room.
#[derive(Clone)]
pub(super) enum Kernel {
    Gcm(gcm::Kernel),
    ChaCha(chacha::Kernel),
}

/// A message on its way: what its stream remembers.
#[derive(Clone)]
pub(super) enum Session {
    Gcm(gcm::Session),
    ChaCha(chacha::Session),
}

/// Calls a method of a key with its session.
macro_rules! with_session {
    ($kernel:expr, $session:expr, |$key:ident, $own:ident| $call:expr) => {
        match ($kernel, $session) {
            (Kernel::Gcm($key), Session::Gcm($own)) => $call,
            (Kernel::ChaCha($key), Session::ChaCha($own)) => $call,
            _ => unreachable!("a stream keeps the key that began its session"),
        }
    };
}

impl Choice {
    pub(super) fn new(algorithm: Algorithm, policy: &Policy) -> Self {
        match algorithm {
            Algorithm::Aes128Gcm | Algorithm::Aes192Gcm | Algorithm::Aes256Gcm => {
                Choice::Gcm(gcm::Choice::new(policy))
            }
            Algorithm::ChaCha20Poly1305 => Choice::ChaCha(chacha::Rooms::new(policy)),
        }
    }

    pub(super) fn room(self) -> Room {
        match self {
            Choice::Gcm(choice) => choice.room(),
            Choice::ChaCha(rooms) => rooms.room(),
        }
    }
}

impl Kernel {
    /// Expands a key as long as the algorithm wants it.
    pub(super) fn new(choice: Choice, bytes: &[u8]) -> Self {
        match choice {
            Choice::Gcm(choice) => Kernel::Gcm(gcm::Kernel::new(choice, bytes)),
            Choice::ChaCha(rooms) => Kernel::ChaCha(chacha::Kernel::new(rooms, bytes)),
        }
    }

    pub(super) fn room(&self) -> Room {
        match self {
            Kernel::Gcm(kernel) => kernel.room(),
            Kernel::ChaCha(kernel) => kernel.room(),
        }
    }

    /// Bytes of a block of text: what the key stream comes in.
    #[inline]
    pub(super) fn block_bytes(&self) -> usize {
        match self {
            Kernel::Gcm(_) => 16,
            Kernel::ChaCha(_) => 64,
        }
    }

    /// See [`super::Key::header_mask`].
    pub(super) fn header_mask(
        &self,
        sample: &[u8; HEADER_SAMPLE_BYTES],
    ) -> [u8; HEADER_MASK_BYTES] {
        match self {
            Kernel::Gcm(kernel) => kernel.header_mask(sample),
            Kernel::ChaCha(kernel) => kernel.header_mask(sample),
        }
    }

    #[inline(always)]
    pub(super) fn seal(&self, nonce: &[u8], aad: &[u8], text: Text<'_>, tag: &mut [u8; TAG_BYTES]) {
        match self {
            Kernel::Gcm(kernel) => kernel.seal(nonce, aad, text, tag),
            Kernel::ChaCha(kernel) => kernel.seal(twelve(nonce), aad, text, tag),
        }
    }

    /// Decrypts and stores the tag that the message should have come with.
    #[inline(always)]
    pub(super) fn open(&self, nonce: &[u8], aad: &[u8], text: Text<'_>, tag: &mut [u8; TAG_BYTES]) {
        match self {
            Kernel::Gcm(kernel) => kernel.open(nonce, aad, text, tag),
            Kernel::ChaCha(kernel) => kernel.open(twelve(nonce), aad, text, tag),
        }
    }

    #[inline]
    pub(super) fn begin(&self, nonce: &[u8]) -> Session {
        match self {
            Kernel::Gcm(kernel) => Session::Gcm(kernel.begin(nonce)),
            Kernel::ChaCha(kernel) => Session::ChaCha(kernel.begin(twelve(nonce))),
        }
    }

    /// Takes AAD and text of a message from the beginning on, and keeps the ciphertext of a last
    /// block that is not whole; stores the tag that the message has if it ends here.
    #[inline(always)]
    pub(super) fn start(
        &self,
        direction: Direction,
        session: &mut Session,
        aad: &[u8],
        text: Text<'_>,
        last: &mut [u8; BLOCK_BYTES_MAX],
        tag: &mut [u8; TAG_BYTES],
    ) {
        let last = &mut last[..text.len() % self.block_bytes()];
        with_session!(self, session, |kernel, session| {
            kernel.start(direction, session, aad, text, last, tag);
        });
    }

    /// Goes on with a message that did not end with what [`start`](Self::start) took, given the
    /// ciphertext of its last block that is not whole.
    pub(super) fn go_on(session: &mut Session, last: &[u8]) {
        match session {
            Session::Gcm(session) => gcm::Kernel::go_on(session, last),
            Session::ChaCha(_) => {}
        }
    }

    /// Authenticates whole blocks, or the last one.
    pub(super) fn authenticate(&self, session: &mut Session, bytes: &[u8]) {
        with_session!(self, session, |kernel, session| kernel.authenticate(session, bytes));
    }

    /// Encrypts or decrypts whole blocks and authenticates the ciphertext.
    pub(super) fn crypt(&self, direction: Direction, session: &mut Session, text: Text<'_>) {
        with_session!(self, session, |kernel, session| kernel.crypt(direction, session, text));
    }

    /// Stores what the next block is encrypted with.
    pub(super) fn stream_block(&self, session: &mut Session, block: &mut [u8; BLOCK_BYTES_MAX]) {
        with_session!(self, session, |kernel, session| {
            let block = block.first_chunk_mut().expect("no block is longer");
            kernel.stream_block(session, block);
        });
    }

    /// Stores the tag of a message of so many bytes.
    pub(super) fn finish(
        &self,
        session: &mut Session,
        aad: u64,
        text: u64,
        tag: &mut [u8; TAG_BYTES],
    ) {
        with_session!(self, session, |kernel, session| kernel.finish(session, aad, text, tag));
    }
}

/// As many bytes of the end of a text as `kept` has: their ciphertext is there before the text is
/// decrypted, and after it is encrypted.
#[inline(always)]
pub(super) fn end_of<'a>(text: Text<'a>, kept: &[u8]) -> Text<'a> {
    text.split_at(text.len() - kept.len()).1
}

fn twelve(nonce: &[u8]) -> &[u8; NONCE_BYTES] {
    nonce.try_into().expect("the caller has looked at the length")
}
