//! What the contexts of ciphers with tags have: a key, the message on its way, and its tag.

use std::sync::Arc;

use widelane_bridge::counters::CipherKind;
use widelane_crypto::aead::{Aead, Algorithm, Direction, Key, Stream, TAG_BYTES};
use widelane_ossl_sys::core;
use widelane_secret::{Mask, wipe};

use super::context::{Header, Refused};
use super::piece::Piece;
use super::tally::Tally;
use crate::choosing;
use crate::config::config;
use crate::delegate::Delegate;
use crate::secret::Secret;

/// What contexts of ciphers with tags have.
#[derive(Clone)]
pub(super) struct Tagged {
    /// For random bytes and errors.
    pub(super) delegate: Arc<Delegate>,
    /// Which way messages go.
    pub(super) direction: Direction,
    /// The tag of the last message that was sealed, or of the next that is opened.
    pub(super) tag: [u8; TAG_BYTES],
    aead: Aead,
    stream: Option<Stream<Key>>,
    /// The key once more, where it may have to go to another room.
    given: Option<Secret>,
    /// The policy that the room follows from.
    chosen: usize,
    tally: Tally,
}

impl Tagged {
    pub(super) fn new(delegate: Arc<Delegate>, kind: CipherKind, algorithm: Algorithm) -> Self {
        let aead = super::aead(algorithm);
        Tagged {
            delegate,
            direction: Direction::Seal,
            tag: [0; TAG_BYTES],
            aead,
            stream: None,
            given: None,
            chosen: choosing::chosen(),
            tally: Tally::new(kind, aead.room()),
        }
    }

    /// Bytes of a key.
    pub(super) fn key_bytes(&self) -> usize {
        self.aead.algorithm().key_bytes()
    }

    /// Whether there is a key.
    #[inline]
    pub(super) fn has_key(&self) -> bool {
        self.stream.is_some()
    }

    /// Takes a key, if one is given.
    pub(super) fn set_key(&mut self, key: Option<&[u8]>) -> Result<(), Refused> {
        let Some(bytes) = key else { return Ok(()) };
        let key = self.aead.key(bytes).map_err(|_| core::PROV_R_INVALID_KEY_LENGTH)?;
        self.stream = Some(Stream::new(key));
        let may_change = config().alternatives.len() > 1;
        self.given = may_change.then(|| Secret(bytes.into()));
        Ok(())
    }

    /// Before a message begins: goes to the room that the policy has which holds now.
    #[inline]
    fn follow(&mut self) -> Result<(), Refused> {
        if self.chosen == choosing::chosen() { Ok(()) } else { self.change_room() }
    }

    #[cold]
    fn change_room(&mut self) -> Result<(), Refused> {
        self.chosen = choosing::chosen();
        let aead = super::aead(self.aead.algorithm());
        let Some(given) = self.given.as_ref().filter(|_| aead.room() != self.aead.room()) else {
            return Ok(());
        };
        let key = aead.key(given);
        self.stream = Some(Stream::new(key.map_err(|_| core::PROV_R_INVALID_KEY_LENGTH)?));
        self.aead = aead;
        self.tally = self.tally.in_room(aead.room());
        Ok(())
    }

    /// Starts a message.
    #[inline]
    pub(super) fn start(&mut self, nonce: &[u8]) -> Result<(), Refused> {
        self.follow()?;
        let stream = self.stream.as_mut().ok_or(Refused::SILENTLY)?;
        // Whether a program may use a nonce again, EVP's rules say.
        Ok(stream.start_trusted(self.direction, nonce)?)
    }

    /// Goes on with a message; returns the bytes of the piece.
    #[inline]
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
    #[inline]
    pub(super) fn finish(&mut self, tag_bytes: usize) -> Result<(), Refused> {
        let stream = self.stream.as_mut().ok_or(Refused::SILENTLY)?;
        let mut tag = stream.finish()?;
        self.tally.message();
        match self.direction {
            Direction::Seal => self.tag = tag,
            Direction::Open => {
                let same = Mask::equal_bytes(&tag[..tag_bytes], &self.tag[..tag_bytes]);
                // Under one nonce, that of a forged message helps to find the authentication key.
                wipe(&mut tag);
                if !same.declassify() {
                    return Err(Refused::SILENTLY);
                }
            }
        }
        Ok(())
    }

    /// Seals or opens a record of TLS 1.2 where it is, text and tag; returns the bytes of text. A
    /// record whose tag does not match is wiped.
    pub(super) fn record(
        &mut self,
        nonce: &[u8],
        header: &Header,
        record: &mut [u8],
    ) -> Result<usize, Refused> {
        self.follow()?;
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
