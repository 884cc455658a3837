//! Streams: one message after the other, each in pieces of any length.

use std::borrow::Borrow;

use widelane_kernels::text::Text;
use widelane_secret::wipe;

use super::kernel::{BLOCK_BYTES_MAX, Session};
use super::{AeadError, Key, TAG_BYTES, check_tag, compare, same_length};

/// Bytes of a block of AAD.
const AAD_BLOCK_BYTES: usize = 16;

/// Which way a stream goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Plaintext in, ciphertext out.
    Seal,
    /// Ciphertext in, plaintext out.
    Open,
}

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
    /// Ciphertext (or AAD) of a block that is not whole yet.
    partial: [u8; BLOCK_BYTES_MAX],
    /// What that block is encrypted with.
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
            if self.sealed == nonce {
                return Err(AeadError::NonceReused);
            }
            self.key.borrow().check_nonce(nonce)?;
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
    pub fn start_trusted(&mut self, direction: Direction, nonce: &[u8]) -> Result<(), AeadError> {
        let key = self.key.borrow();
        key.check_nonce(nonce)?;
        self.session = Some(key.kernel.begin(nonce));
        (self.aad_bytes, self.text_bytes) = (0, 0);
        (self.direction, self.phase) = (direction, Phase::Aad);
        Ok(())
    }

    /// Authenticates more data that is not encrypted.
    ///
    /// # Errors
    ///
    /// [`AeadError::OutOfOrder`] once there was text.
    pub fn aad(&mut self, aad: &[u8]) -> Result<(), AeadError> {
        if self.phase != Phase::Aad {
            return Err(AeadError::OutOfOrder);
        }
        let kernel = &self.key.borrow().kernel;
        let session = self.session.as_mut().ok_or(AeadError::OutOfOrder)?;
        let held = (self.aad_bytes % AAD_BLOCK_BYTES as u64) as usize;
        self.aad_bytes += aad.len() as u64;
        let (head, rest) = aad.split_at(aad.len().min((AAD_BLOCK_BYTES - held) % AAD_BLOCK_BYTES));
        self.partial[held..held + head.len()].copy_from_slice(head);
        if held > 0 && held + head.len() == AAD_BLOCK_BYTES {
            kernel.authenticate(session, &self.partial[..AAD_BLOCK_BYTES]);
        }
        let (blocks, rest) = rest.split_at(rest.len() - rest.len() % AAD_BLOCK_BYTES);
        kernel.authenticate(session, blocks);
        if !rest.is_empty() {
            self.partial[..rest.len()].copy_from_slice(rest);
        }
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

    /// Ends a message and answers its tag, of which a protocol may send the first bytes only.
    ///
    /// # Errors
    ///
    /// [`AeadError::OutOfOrder`] if no message was started.
    pub fn finish(&mut self) -> Result<[u8; TAG_BYTES], AeadError> {
        self.close_aad()?;
        let block_bytes = self.block_bytes();
        let kernel = &self.key.borrow().kernel;
        let mut session = self.session.take().ok_or(AeadError::OutOfOrder)?;
        let held = (self.text_bytes % block_bytes as u64) as usize;
        kernel.authenticate(&mut session, &self.partial[..held]);
        self.phase = Phase::Idle;
        Ok(kernel.finish(&mut session, self.aad_bytes, self.text_bytes))
    }

    /// Ends a message and compares its tag with the one that it came with.
    ///
    /// # Errors
    ///
    /// [`AeadError::Rejected`] if they differ: then nothing that was opened may be used.
    /// [`AeadError::TagLength`]; [`AeadError::OutOfOrder`] if no message was started.
    pub fn verify(&mut self, tag: &[u8]) -> Result<(), AeadError> {
        check_tag(tag)?;
        compare(&self.finish()?, tag)
    }

    /// Bytes of a block of text.
    fn block_bytes(&self) -> usize {
        self.key.borrow().kernel.block_bytes()
    }

    /// Ends the AAD, if that has not happened.
    fn close_aad(&mut self) -> Result<(), AeadError> {
        let session = self.session.as_mut().ok_or(AeadError::OutOfOrder)?;
        if self.phase == Phase::Aad {
            let held = (self.aad_bytes % AAD_BLOCK_BYTES as u64) as usize;
            self.key.borrow().kernel.authenticate(session, &self.partial[..held]);
            self.phase = Phase::Text;
        }
        Ok(())
    }

    fn text(&mut self, text: Text<'_>) -> Result<(), AeadError> {
        let limit = self.key().algorithm.text_bytes_max();
        if self.text_bytes.saturating_add(text.len() as u64) > limit {
            return Err(AeadError::TextTooLong);
        }
        self.close_aad()?;
        match self.direction {
            Direction::Seal => self.crypt::<true>(text),
            Direction::Open => self.crypt::<false>(text),
        }
        Ok(())
    }

    /// The rest of the block that was begun, whole blocks, and the beginning of another one.
    fn crypt<const SEAL: bool>(&mut self, text: Text<'_>) {
        let block_bytes = self.block_bytes();
        let held = (self.text_bytes % block_bytes as u64) as usize;
        self.text_bytes += text.len() as u64;
        let mut rest = text;
        if held > 0 {
            let (head, behind) = rest.split_at(rest.len().min(block_bytes - held));
            self.crypt_part::<SEAL>(held, head);
            rest = behind;
        }
        let (blocks, rest) = rest.split_at(rest.len() - rest.len() % block_bytes);
        let kernel = &self.key.borrow().kernel;
        let Some(session) = self.session.as_mut() else { return };
        kernel.crypt::<SEAL>(session, blocks);
        if !rest.is_empty() {
            kernel.stream_block(session, &mut self.stream);
            self.crypt_part::<SEAL>(0, rest);
        }
    }

    /// Bytes from `held` on of a block whose stream is at hand.
    fn crypt_part<const SEAL: bool>(&mut self, held: usize, text: Text<'_>) {
        let end = held + text.len();
        let (partial, stream) = (&mut self.partial[held..end], &self.stream[held..end]);
        text.map(|block: &mut [u8; BLOCK_BYTES_MAX]| {
            for ((byte, partial), stream) in block.iter_mut().zip(partial).zip(stream) {
                let input = *byte;
                *byte ^= stream;
                *partial = if SEAL { *byte } else { input };
            }
        });
        if end == self.block_bytes()
            && let Some(session) = self.session.as_mut()
        {
            self.key.borrow().kernel.authenticate(session, &self.partial[..end]);
        }
    }
}

impl<K: Borrow<Key>> Drop for Stream<K> {
    fn drop(&mut self) {
        wipe(&mut self.stream);
    }
}
