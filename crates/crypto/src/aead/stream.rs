//! Streams: one message after the other, each in pieces of any length.

use std::borrow::Borrow;

pub use widelane_kernels::text::Direction;
use widelane_kernels::text::Text;
use widelane_secret::wipe;

use super::kernel::{BLOCK_BYTES_MAX, Kernel, Session};
use super::{AeadError, Key, TAG_BYTES, check_tag, compare, same_length};

/// Bytes of a block of AAD.
const AAD_BLOCK_BYTES: usize = 16;

/// Bytes of AAD that are held back: whole blocks, for the header of any protocol.
const AAD_HELD_MAX: usize = 4 * AAD_BLOCK_BYTES;

/// Messages in pieces: `start`, then any number of `aad`, then any number of `update`, then
/// `finish` for the tag or `verify` with it.
///
/// A message that is opened in pieces gives its plaintext away before the tag is seen: whoever
/// reads it must not act on it until [`verify`](Self::verify) has agreed. Use [`Key::open`] where
/// the message is at hand.
#[derive(Clone)]
pub struct Stream<K: Borrow<Key>> {
    key: K,
    phase: Phase,
    direction: Direction,
    session: Option<Session>,
    aad_bytes: u64,
    text_bytes: u64,
    /// The end of the AAD, which is authenticated with the first text.
    aad: [u8; AAD_HELD_MAX],
    aad_held: usize,
    /// The tag of the message if it ends here, and whether it is known: most messages have one
    /// text, and it comes with that.
    tag: [u8; TAG_BYTES],
    has_tag: bool,
    /// Ciphertext of a block that is not whole yet.
    partial: [u8; BLOCK_BYTES_MAX],
    /// What that block is encrypted with, unless a tag is known.
    stream: [u8; BLOCK_BYTES_MAX],
    /// The nonce of the last message that was sealed.
    sealed: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Aad,
    Text,
}

impl<K: Borrow<Key>> Stream<K> {
    /// A stream that has not been started.
    pub fn new(key: K) -> Self {
        Stream {
            key,
            phase: Phase::Idle,
            direction: Direction::Seal,
            session: None,
            aad_bytes: 0,
            text_bytes: 0,
            aad: [0; AAD_HELD_MAX],
            aad_held: 0,
            tag: [0; TAG_BYTES],
            has_tag: false,
            partial: [0; BLOCK_BYTES_MAX],
            stream: [0; BLOCK_BYTES_MAX],
            sealed: Vec::new(),
        }
    }

    /// The key.
    pub fn key(&self) -> &Key {
        self.key.borrow()
    }

    /// Starts a message, and forgets one that was not finished.
    ///
    /// # Errors
    ///
    /// [`AeadError::NonceLength`]; [`AeadError::NonceReused`] if the last message that this stream
    /// sealed had the same nonce.
    pub fn start(&mut self, direction: Direction, nonce: &[u8]) -> Result<(), AeadError> {
        if direction == Direction::Seal {
            // Before a nonce was used, the last one is empty.
            self.key.borrow().check_nonce(nonce)?;
            if self.sealed == nonce {
                return Err(AeadError::NonceReused);
            }
            self.sealed.clear();
            self.sealed.extend_from_slice(nonce);
        }
        self.start_trusted(direction, nonce)
    }

    /// Starts a message as [`start`](Self::start) does, with a nonce that the caller answers for:
    /// no nonce is refused for having been used, nor remembered.
    ///
    /// # Errors
    ///
    /// [`AeadError::NonceLength`].
    #[inline]
    pub fn start_trusted(&mut self, direction: Direction, nonce: &[u8]) -> Result<(), AeadError> {
        let key = self.key.borrow();
        key.check_nonce(nonce)?;
        self.session = Some(key.kernel.begin(nonce));
        (self.aad_bytes, self.text_bytes, self.aad_held) = (0, 0, 0);
        (self.direction, self.phase, self.has_tag) = (direction, Phase::Aad, false);
        Ok(())
    }

    /// Authenticates more data that is not encrypted.
    ///
    /// # Errors
    ///
    /// [`AeadError::OutOfOrder`] once there was text.
    #[inline]
    pub fn aad(&mut self, aad: &[u8]) -> Result<(), AeadError> {
        if self.phase != Phase::Aad {
            return Err(AeadError::OutOfOrder);
        }
        let session = self.session.as_mut().ok_or(AeadError::OutOfOrder)?;
        let kernel = &self.key.borrow().kernel;
        self.aad_bytes += aad.len() as u64;
        let mut rest = aad;
        if self.aad_held + rest.len() > AAD_HELD_MAX {
            let (head, behind) = rest.split_at(AAD_HELD_MAX - self.aad_held);
            self.aad[self.aad_held..].copy_from_slice(head);
            kernel.authenticate(session, &self.aad);
            let (blocks, behind) = behind.split_at(behind.len() - behind.len() % AAD_BLOCK_BYTES);
            kernel.authenticate(session, blocks);
            (rest, self.aad_held) = (behind, 0);
        }
        self.aad[self.aad_held..self.aad_held + rest.len()].copy_from_slice(rest);
        self.aad_held += rest.len();
        Ok(())
    }

    /// Encrypts or decrypts more of the message.
    ///
    /// # Errors
    ///
    /// If a length is wrong or no message was started; nothing is written then.
    pub fn update(&mut self, input: &[u8], output: &mut [u8]) -> Result<(), AeadError> {
        same_length(input, output)?;
        self.text(Text::between(input, output))
    }

    /// Encrypts or decrypts more of the message where it is.
    ///
    /// # Errors
    ///
    /// If the message gets too long or none was started; nothing is written then.
    pub fn update_in_place(&mut self, text: &mut [u8]) -> Result<(), AeadError> {
        self.text(Text::in_place(text))
    }

    /// Ends a message and returns its tag, of which a protocol may send the first bytes only.
    ///
    /// # Errors
    ///
    /// [`AeadError::OutOfOrder`] if no message was started.
    #[inline]
    pub fn finish(&mut self) -> Result<[u8; TAG_BYTES], AeadError> {
        self.end()?;
        let tag = self.tag;
        wipe(&mut self.tag);
        Ok(tag)
    }

    /// Ends a message and keeps its tag.
    #[inline]
    fn end(&mut self) -> Result<(), AeadError> {
        if self.phase == Phase::Aad {
            self.update_in_place(&mut [])?;
        }
        let held = self.held();
        let session = self.session.as_mut().ok_or(AeadError::OutOfOrder)?;
        self.phase = Phase::Idle;
        if !std::mem::take(&mut self.has_tag) {
            let kernel = &self.key.borrow().kernel;
            kernel.authenticate(session, &self.partial[..held]);
            kernel.finish(session, self.aad_bytes, self.text_bytes, &mut self.tag);
        }
        // Wiped where it is: taking it out would leave a copy behind.
        self.session = None;
        Ok(())
    }

    /// Ends a message and compares its tag with the one that it came with.
    ///
    /// # Errors
    ///
    /// [`AeadError::Rejected`] if they differ: then nothing that was opened may be used.
    /// [`AeadError::TagLength`]; [`AeadError::OutOfOrder`] if no message was started.
    pub fn verify(&mut self, tag: &[u8]) -> Result<(), AeadError> {
        check_tag(tag)?;
        self.end()?;
        compare(&mut self.tag, tag)
    }

    /// Bytes of a block of text.
    fn block_bytes(&self) -> usize {
        self.key.borrow().kernel.block_bytes()
    }

    /// Bytes of a block that is not whole yet.
    fn held(&self) -> usize {
        (self.text_bytes % self.block_bytes() as u64) as usize
    }

    /// The first text, with all AAD if none was authenticated yet, or more of it.
    #[inline(always)]
    fn text(&mut self, text: Text<'_>) -> Result<(), AeadError> {
        let limit = self.key().algorithm.text_bytes_max();
        if self.text_bytes.saturating_add(text.len() as u64) > limit {
            return Err(AeadError::TextTooLong);
        }
        let session = self.session.as_mut().ok_or(AeadError::OutOfOrder)?;
        let kernel = &self.key.borrow().kernel;
        let aad = &self.aad[..self.aad_held];
        match self.phase {
            Phase::Aad if aad.len() as u64 == self.aad_bytes => {
                let (partial, tag) = (&mut self.partial, &mut self.tag);
                kernel.start(self.direction, session, aad, text, partial, tag);
                self.has_tag = true;
                self.text_bytes = text.len() as u64;
            }
            Phase::Aad => {
                kernel.authenticate(session, aad);
                self.crypt_more(text)?;
            }
            Phase::Text | Phase::Idle => self.crypt_more(text)?,
        }
        self.phase = Phase::Text;
        Ok(())
    }

    /// The rest of the block that was begun, whole blocks, and the beginning of another one.
    fn crypt_more(&mut self, text: Text<'_>) -> Result<(), AeadError> {
        let (held, block_bytes) = (self.held(), self.block_bytes());
        self.text_bytes += text.len() as u64;
        let mut rest = text;
        if self.has_tag {
            let session = self.session.as_mut().ok_or(AeadError::OutOfOrder)?;
            Kernel::go_on(session, &self.partial[..held]);
        }
        if held > 0 {
            if self.has_tag {
                self.stream_block()?;
            }
            let (head, behind) = rest.split_at(rest.len().min(block_bytes - held));
            self.crypt_part(held, head)?;
            rest = behind;
        }
        self.has_tag = false;
        let (blocks, rest) = rest.split_at(rest.len() - rest.len() % block_bytes);
        let session = self.session.as_mut().ok_or(AeadError::OutOfOrder)?;
        self.key.borrow().kernel.crypt(self.direction, session, blocks);
        if !rest.is_empty() {
            self.stream_block()?;
            self.crypt_part(0, rest)?;
        }
        Ok(())
    }

    /// Makes what the next block is encrypted with.
    fn stream_block(&mut self) -> Result<(), AeadError> {
        let session = self.session.as_mut().ok_or(AeadError::OutOfOrder)?;
        self.key.borrow().kernel.stream_block(session, &mut self.stream);
        Ok(())
    }

    /// Bytes from `held` on of a block whose stream is at hand.
    fn crypt_part(&mut self, held: usize, text: Text<'_>) -> Result<(), AeadError> {
        let is_sealed = self.direction == Direction::Seal;
        let end = held + text.len();
        let (partial, stream) = (&mut self.partial[held..end], &self.stream[held..end]);
        text.map(|block: &mut [u8; BLOCK_BYTES_MAX]| {
            for ((byte, partial), stream) in block.iter_mut().zip(partial).zip(stream) {
                let input = *byte;
                *byte ^= stream;
                *partial = if is_sealed { *byte } else { input };
            }
        });
        if end == self.block_bytes() {
            let session = self.session.as_mut().ok_or(AeadError::OutOfOrder)?;
            self.key.borrow().kernel.authenticate(session, &self.partial[..end]);
        }
        Ok(())
    }
}

impl<K: Borrow<Key>> Drop for Stream<K> {
    fn drop(&mut self) {
        wipe(&mut self.stream);
        wipe(&mut self.tag);
    }
}
