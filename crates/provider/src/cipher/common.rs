//! What the contexts of all ciphers have: a key, the message on its way, and its tag.
#![allow(unsafe_code, reason = "parameters are pointers of the program's")]

use std::ffi::{CStr, c_int};
use std::sync::Arc;

use widelane_bridge::counters::CipherKind;
use widelane_crypto::aead::{Aead, AeadError, Direction, Key, Stream, TAG_BYTES};
use widelane_ossl_sys::core::{self, AEAD_TLS1_AAD_BYTES, OsslParam};
use widelane_secret::Mask;

use super::piece::Piece;
use super::tally::Tally;
use crate::config::config;
use crate::delegate::Delegate;

/// Why a call fails: a reason for libcrypto's queue, where the default provider gives one.
#[derive(Debug)]
pub(super) struct Refused(pub(super) Option<c_int>);

impl Refused {
    /// A failure without a reason.
    pub(super) const SILENTLY: Refused = Refused(None);
}

impl From<c_int> for Refused {
    fn from(reason: c_int) -> Self {
        Refused(Some(reason))
    }
}

impl From<AeadError> for Refused {
    fn from(_error: AeadError) -> Self {
        Refused::SILENTLY
    }
}

/// A context: what EVP holds of ours. Its copy goes on by itself.
pub(super) trait Context: Clone {
    /// The reason of every update that fails.
    const UPDATE_FAILED: Option<c_int>;

    /// A context without a key.
    fn new(delegate: Arc<Delegate>, kind: CipherKind) -> Self;

    /// What it has in common with others.
    fn common(&self) -> &Common;

    /// Begins messages in a direction, with a key or an IV, or both, or as before.
    fn init(
        &mut self,
        direction: Direction,
        key: Option<&[u8]>,
        iv: Option<&[u8]>,
    ) -> Result<(), Refused>;

    /// Goes on with the message; answers the bytes of the result.
    fn advance(&mut self, piece: Piece<'_>) -> Result<usize, Refused>;

    /// Sets the parameter of a name; there may be others that we do not know.
    fn set(&mut self, name: &CStr, param: &OsslParam) -> Result<(), Refused>;

    /// Answers the parameter of a name.
    ///
    /// # Safety
    /// The parameter must have room for what it asks for.
    unsafe fn answer(&mut self, name: &CStr, param: &mut OsslParam) -> Result<(), Refused>;
}

/// What all contexts have.
#[derive(Clone)]
pub(super) struct Common {
    /// For random bytes and errors.
    pub(super) delegate: Arc<Delegate>,
    /// Which way messages go.
    pub(super) direction: Direction,
    /// The tag of the last message that was sealed, or of the next that is opened.
    pub(super) tag: [u8; TAG_BYTES],
    aead: Aead,
    stream: Option<Stream<Key>>,
    tally: Tally,
}

/// The header of a record of TLS 1.2, which says how long the text is.
pub(super) type Header = [u8; AEAD_TLS1_AAD_BYTES];

impl Common {
    pub(super) fn new(delegate: Arc<Delegate>, kind: CipherKind) -> Self {
        let aead = config().aead(kind);
        Common {
            delegate,
            direction: Direction::Seal,
            tag: [0; TAG_BYTES],
            aead,
            stream: None,
            tally: Tally::new(kind, aead.room()),
        }
    }

    /// Bytes of a key.
    pub(super) fn key_bytes(&self) -> usize {
        self.aead.algorithm().key_bytes()
    }

    /// Whether there is a key.
    pub(super) fn has_key(&self) -> bool {
        self.stream.is_some()
    }

    /// Takes a key, if one is given.
    pub(super) fn set_key(&mut self, key: Option<&[u8]>) -> Result<(), Refused> {
        let Some(key) = key else { return Ok(()) };
        let key = self.aead.key(key).map_err(|_| core::PROV_R_INVALID_KEY_LENGTH)?;
        self.stream = Some(Stream::new(key));
        Ok(())
    }

    /// Starts a message.
    pub(super) fn start(&mut self, nonce: &[u8]) -> Result<(), Refused> {
        let stream = self.stream.as_mut().ok_or(Refused::SILENTLY)?;
        // Whether a program may use a nonce again, EVP's rules say.
        Ok(stream.start_trusted(self.direction, nonce)?)
    }

    /// Goes on with a message; answers the bytes of the piece.
    pub(super) fn feed(&mut self, piece: Piece<'_>) -> Result<usize, Refused> {
        let stream = self.stream.as_mut().ok_or(Refused::SILENTLY)?;
        let text = match piece {
            Piece::Aad(bytes) => {
                stream.aad(bytes)?;
                return Ok(bytes.len());
            }
            Piece::InPlace(text) => {
                stream.update_in_place(text)?;
                text.len()
            }
            Piece::Between(input, output) => {
                stream.update(input, output)?;
                input.len()
            }
            Piece::End => 0,
        };
        self.tally.text(text);
        Ok(text)
    }

    /// Ends a message: keeps its tag, or compares what there is of the tag that it came with.
    pub(super) fn finish(&mut self, tag_bytes: usize) -> Result<(), Refused> {
        let stream = self.stream.as_mut().ok_or(Refused::SILENTLY)?;
        let tag = stream.finish()?;
        self.tally.message();
        match self.direction {
            Direction::Seal => self.tag = tag,
            Direction::Open => {
                let same = Mask::equal_bytes(&tag[..tag_bytes], &self.tag[..tag_bytes]);
                if !same.declassify() {
                    return Err(Refused::SILENTLY);
                }
            }
        }
        Ok(())
    }

    /// Seals or opens a record of TLS 1.2 where it is, text and tag; answers the bytes of text. A
    /// record whose tag does not match is wiped.
    pub(super) fn record(
        &mut self,
        nonce: &[u8],
        header: &Header,
        record: &mut [u8],
    ) -> Result<usize, Refused> {
        let key = self.stream.as_ref().ok_or(Refused::SILENTLY)?.key();
        let (text, tag) = record.split_last_chunk_mut().ok_or(Refused::SILENTLY)?;
        match self.direction {
            Direction::Seal => key.seal_in_place(nonce, header, text, tag)?,
            Direction::Open => key.open_in_place(nonce, header, text, tag)?,
        }
        self.tally.text(text.len());
        self.tally.message();
        Ok(text.len())
    }

    /// Takes the header of the next record of TLS 1.2; its length field counts `overhead` bytes
    /// beside the text, and those of the tag if the record is to be opened.
    pub(super) fn header(&self, bytes: &[u8], overhead: usize) -> Option<Header> {
        let mut header = Header::try_from(bytes).ok()?;
        let [.., high, low] = &mut header;
        let tag_bytes = if self.direction == Direction::Open { TAG_BYTES } else { 0 };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let text = length.checked_sub(overhead + tag_bytes)?;
        [*high, *low] = u16::try_from(text).ok()?.to_be_bytes();
        Some(header)
    }
}
