//! AES-CBC with HMAC, the record protection of TLS 1.0 to 1.2: one record, or many at once.
//!
//! A record is encrypted in place: the caller leaves room for tag and padding behind the text
//! ([`Key::record_bytes`]). [`Mode::MacThenEncrypt`] is what RFC 5246 says and what needs care when
//! it is opened: whether padding, tag or both are wrong must not be told apart by time
//! (`docs/design/aes-cbc-hmac.md`). [`Mode::EncryptThenMac`] is RFC 7366.
//!
//! # Examples
//!
//! ```
//! use widelane_cpu::Policy;
//! use widelane_crypto::cbc_hmac::{Algorithm, CbcHmac, CbcHmacError, Header, Mode};
//!
//! fn main() -> Result<(), CbcHmacError> {
//!     let suite = CbcHmac::choose(Algorithm::Aes128Sha1, Mode::MacThenEncrypt, &Policy::open());
//!     let key = suite.key(&[0x42; 16], &[0x17; 20])?;
//!     let (iv, header) = ([7; 16], Header { sequence: 0, kind: 23, version: 0x0303 });
//!     let mut record = b"hello".to_vec();
//!     record.resize(key.record_bytes(5), 0);
//!     key.seal(&iv, header, 5, &mut record)?;
//!     assert_eq!(key.open(&iv, header, &mut record)?, 5);
//!     assert_eq!(&record[..5], b"hello");
//!     Ok(())
//! }
//! ```

mod abreast;
mod kernel;
mod many;
mod open;

use thiserror::Error;
use widelane_cpu::{Policy, Room};
use widelane_kernels::text::Text;
use widelane_secret::Mask;

use self::kernel::{Choice, Cipher};
pub use self::many::{Outcome, SealJob, seal_many};
use crate::digest;
use crate::mac::{self, Hmac};

/// Bytes of a block of the cipher, and of an IV.
pub const BLOCK_BYTES: usize = 16;

/// Bytes of the longest text that any record may have: a length is a number of 16 bits. Those of a
/// key may have to be shorter: [`Key::text_bytes_max`].
pub const TEXT_BYTES_MAX: usize = LENGTH_MAX;

/// The longest length that can be authenticated.
const LENGTH_MAX: usize = u16::MAX as usize;

/// Bytes of a block of SHA-1 and SHA-256.
const HASH_BLOCK_BYTES: usize = 64;

/// The first version of TLS whose records bring their IV: TLS 1.1.
const EXPLICIT_IV_VERSION: u16 = 0x0302;

/// Bytes of the header that is authenticated with a text.
const HEADER_BYTES: usize = 13;

/// An algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// AES with a key of 16 bytes, HMAC-SHA-1.
    Aes128Sha1,
    /// AES with a key of 32 bytes, HMAC-SHA-1.
    Aes256Sha1,
    /// AES with a key of 16 bytes, HMAC-SHA-256.
    Aes128Sha256,
    /// AES with a key of 32 bytes, HMAC-SHA-256.
    Aes256Sha256,
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Algorithm; 4] = [
        Algorithm::Aes128Sha1,
        Algorithm::Aes256Sha1,
        Algorithm::Aes128Sha256,
        Algorithm::Aes256Sha256,
    ];

    /// Bytes of the cipher's key.
    pub const fn key_bytes(self) -> usize {
        match self {
            Algorithm::Aes128Sha1 | Algorithm::Aes128Sha256 => 16,
            Algorithm::Aes256Sha1 | Algorithm::Aes256Sha256 => 32,
        }
    }

    /// Bytes of a tag, and of the key of HMAC in TLS.
    pub const fn tag_bytes(self) -> usize {
        self.hash().digest_bytes()
    }

    /// The hash function.
    pub const fn hash(self) -> digest::Algorithm {
        match self {
            Algorithm::Aes128Sha1 | Algorithm::Aes256Sha1 => digest::Algorithm::Sha1,
            Algorithm::Aes128Sha256 | Algorithm::Aes256Sha256 => digest::Algorithm::Sha256,
        }
    }

    /// The rooms of the cipher, best first. Hashes choose for themselves.
    pub const fn rooms(self) -> &'static [Room] {
        Choice::ROOMS
    }
}

/// What is authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// The text, whose tag is encrypted with it (RFC 5246, 6.2.3.2).
    MacThenEncrypt,
    /// The ciphertext and the IV that the record brings, if it brings one ([`Header::iv_bytes`]);
    /// the tag stands behind them (RFC 7366).
    EncryptThenMac,
}

/// What is authenticated with a text, but for its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The number of the record.
    pub sequence: u64,
    /// Its content type: 23 is application data.
    pub kind: u8,
    /// Its version: 0x0303 is TLS 1.2.
    pub version: u16,
}

impl Header {
    /// Bytes of the IV that such a record brings: one block from TLS 1.1 on.
    pub fn iv_bytes(self) -> usize {
        if self.version >= EXPLICIT_IV_VERSION { BLOCK_BYTES } else { 0 }
    }

    fn bytes(self, length: usize) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[8] = self.kind;
        bytes[9..11].copy_from_slice(&self.version.to_be_bytes());
        bytes[11..].copy_from_slice(&(length as u16).to_be_bytes());
        bytes
    }
}

/// Why a record was not sealed or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CbcHmacError {
    /// The cipher's key is not as long as the algorithm wants it.
    #[error("the cipher's key has {got} bytes; {algorithm:?} takes {}", algorithm.key_bytes())]
    KeyLength {
        /// The algorithm.
        algorithm: Algorithm,
        /// Bytes of the key.
        got: usize,
    },
    /// The record has not the length that its text asks for.
    #[error("the record has {got} bytes; pass {wanted}, as `record_bytes` says for its text")]
    RecordLength {
        /// Bytes of the record.
        got: usize,
        /// Bytes that it should have.
        wanted: usize,
    },
    /// The text is longer than a record can say.
    #[error("the text has {got} bytes; split it into records of at most {max}")]
    TextTooLong {
        /// Bytes of the text.
        got: usize,
        /// What [`Key::text_bytes_max`] says.
        max: usize,
    },
    /// What is decrypted on its own is not whole blocks.
    #[error("the text has {got} bytes; CBC takes whole blocks of 16")]
    NotWholeBlocks {
        /// Bytes of the text.
        got: usize,
    },
    /// The record is not what was sealed under these keys, with this IV and header.
    #[error("the record does not match: it, its header, IV or key is not the sealed one")]
    Rejected,
}

/// An algorithm in the rooms chosen for it.
#[derive(Clone, Copy, Debug)]
pub struct CbcHmac {
    algorithm: Algorithm,
    mode: Mode,
    choice: Choice,
    hmac: Hmac,
}

impl CbcHmac {
    /// Chooses the best rooms that the machine has and `policy` leaves open.
    #[must_use]
    pub fn choose(algorithm: Algorithm, mode: Mode, policy: &Policy) -> Self {
        let hmac = Hmac::choose(algorithm.hash(), policy);
        CbcHmac { algorithm, mode, choice: Choice::new(policy), hmac }
    }

    /// The algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The room of the cipher.
    #[must_use]
    pub fn room(&self) -> Room {
        self.choice.room()
    }

    /// The hash function and its rooms.
    pub fn hash(&self) -> &digest::Hash {
        self.hmac.hash()
    }

    /// Expands the keys; that of HMAC may have any length.
    ///
    /// # Errors
    ///
    /// [`CbcHmacError::KeyLength`].
    pub fn key(&self, cipher: &[u8], mac: &[u8]) -> Result<Key, CbcHmacError> {
        let CbcHmac { algorithm, mode, choice, hmac } = *self;
        if cipher.len() != algorithm.key_bytes() {
            return Err(CbcHmacError::KeyLength { algorithm, got: cipher.len() });
        }
        Ok(Key { algorithm, mode, cipher: Cipher::new(choice, cipher), mac: hmac.key(mac) })
    }
}

/// The keys of one direction of a connection, wiped when they are dropped.
#[derive(Clone)]
pub struct Key {
    algorithm: Algorithm,
    mode: Mode,
    cipher: Cipher,
    mac: mac::Key,
}

impl Key {
    /// The algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// What is authenticated.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Takes another key of HMAC; that of the cipher stays.
    pub fn set_mac(&mut self, mac: &[u8]) {
        self.mac = self.mac.replaced(mac);
    }

    /// Bytes of the longest text that a record may have: what is authenticated says its length in
    /// 16 bits. In [`Mode::EncryptThenMac`] that is the length of IV and ciphertext.
    #[must_use]
    pub fn text_bytes_max(&self) -> usize {
        let blocks = self.encrypted_bytes_max() / BLOCK_BYTES;
        TEXT_BYTES_MAX.min(blocks * BLOCK_BYTES - self.tag_bytes_inside() - 1)
    }

    /// Bytes of the record of a text: what of it stands behind the IV.
    pub fn record_bytes(&self, text_bytes: usize) -> usize {
        self.encrypted_bytes(text_bytes) + self.tag_bytes_behind()
    }

    /// Seals a record: its first `text_bytes` bytes are the text, and the others are overwritten.
    ///
    /// # Errors
    ///
    /// If a length is wrong; nothing is written then.
    pub fn seal(
        &self,
        iv: &[u8; BLOCK_BYTES],
        header: Header,
        text_bytes: usize,
        record: &mut [u8],
    ) -> Result<(), CbcHmacError> {
        self.check(text_bytes, record.len())?;
        let last = &mut { *iv };
        match self.mode {
            Mode::MacThenEncrypt => self.seal_padded(last, 0, header, text_bytes, record),
            Mode::EncryptThenMac => self.seal_tagged(last, header, text_bytes, record),
        }
        Ok(())
    }

    /// Seals the next record of a connection. Of [`Header::iv_bytes`] bytes at its beginning its IV
    /// is made: they are encrypted as if they were text, behind the block `last`, which is the IV
    /// where there are none. Leaves there the last block that was encrypted.
    ///
    /// # Errors
    ///
    /// If a length is wrong; nothing is written then.
    pub fn seal_next(
        &self,
        last: &mut [u8; BLOCK_BYTES],
        header: Header,
        text_bytes: usize,
        record: &mut [u8],
    ) -> Result<(), CbcHmacError> {
        let iv_bytes = header.iv_bytes();
        let got = record.len();
        let behind = got.checked_sub(iv_bytes);
        let behind = behind.ok_or(CbcHmacError::RecordLength { got, wanted: iv_bytes })?;
        self.check(text_bytes, behind)?;
        match self.mode {
            Mode::MacThenEncrypt => self.seal_padded(last, iv_bytes, header, text_bytes, record),
            Mode::EncryptThenMac => {
                let (iv, rest) = record.split_at_mut(iv_bytes);
                self.cipher.encrypt(last, Text::in_place(iv));
                self.seal_tagged(last, header, text_bytes, rest);
            }
        }
        Ok(())
    }

    fn seal_padded(
        &self,
        last: &mut [u8; BLOCK_BYTES],
        iv_bytes: usize,
        header: Header,
        text_bytes: usize,
        record: &mut [u8],
    ) {
        let (header, end) = (header.bytes(text_bytes), iv_bytes + text_bytes);
        let (tag, done) =
            self.cipher.seal_text(&self.mac, &header, last, iv_bytes, &mut record[..end]);
        complete(record, end, tag.as_ref());
        self.cipher.encrypt(last, Text::in_place(&mut record[done..]));
    }

    fn seal_tagged(
        &self,
        last: &mut [u8; BLOCK_BYTES],
        header: Header,
        text_bytes: usize,
        record: &mut [u8],
    ) {
        let (iv, (encrypted, tag)) = (*last, record.split_at_mut(self.encrypted_bytes(text_bytes)));
        pad(encrypted, text_bytes);
        self.cipher.encrypt(last, Text::in_place(encrypted));
        tag.copy_from_slice(self.outer_tag(&iv, header, encrypted).as_ref());
    }

    /// Opens a record where it is, and returns how many bytes of text stand at its beginning.
    ///
    /// # Errors
    ///
    /// [`CbcHmacError::Rejected`], for whatever reason; the record is all zeros then.
    pub fn open(
        &self,
        iv: &[u8; BLOCK_BYTES],
        header: Header,
        record: &mut [u8],
    ) -> Result<usize, CbcHmacError> {
        let opened = match self.mode {
            Mode::MacThenEncrypt => self.open_padded(iv, header, record),
            Mode::EncryptThenMac => self.open_tagged(iv, header, record),
        };
        if opened.is_err() {
            record.fill(0);
        }
        opened
    }

    /// Encrypts whole blocks behind the block `last`, and leaves the last one there: AES-CBC alone.
    ///
    /// # Errors
    ///
    /// [`CbcHmacError::NotWholeBlocks`]; nothing is written then.
    pub fn encrypt(
        &self,
        last: &mut [u8; BLOCK_BYTES],
        blocks: &mut [u8],
    ) -> Result<(), CbcHmacError> {
        whole_blocks(blocks.len())?;
        self.cipher.encrypt(last, Text::in_place(blocks));
        Ok(())
    }

    /// Decrypts whole blocks behind the block `last`, and leaves the last one there: AES-CBC alone.
    ///
    /// # Errors
    ///
    /// [`CbcHmacError::NotWholeBlocks`]; nothing is written then.
    pub fn decrypt(
        &self,
        last: &mut [u8; BLOCK_BYTES],
        blocks: &mut [u8],
    ) -> Result<(), CbcHmacError> {
        whole_blocks(blocks.len())?;
        self.cipher.decrypt(last, Text::in_place(blocks));
        Ok(())
    }

    fn check(&self, text_bytes: usize, record_bytes: usize) -> Result<(), CbcHmacError> {
        let max = self.text_bytes_max();
        if text_bytes > max {
            return Err(CbcHmacError::TextTooLong { got: text_bytes, max });
        }
        let wanted = self.record_bytes(text_bytes);
        if record_bytes != wanted {
            return Err(CbcHmacError::RecordLength { got: record_bytes, wanted });
        }
        Ok(())
    }

    /// Bytes that are encrypted for a text, padding included: the shortest that there is.
    fn encrypted_bytes(&self, text_bytes: usize) -> usize {
        (text_bytes + self.tag_bytes_inside() + 1).next_multiple_of(BLOCK_BYTES)
    }

    /// The most bytes that may be encrypted, so that there is a length to be authenticated: if an
    /// IV counts, with one, whether the record brings it or not.
    fn encrypted_bytes_max(&self) -> usize {
        match self.mode {
            Mode::MacThenEncrypt => LENGTH_MAX + self.algorithm.tag_bytes() + 1,
            Mode::EncryptThenMac => LENGTH_MAX - BLOCK_BYTES,
        }
    }

    /// Bytes of the tag that are encrypted with a text.
    fn tag_bytes_inside(&self) -> usize {
        self.algorithm.tag_bytes() - self.tag_bytes_behind()
    }

    /// Bytes of the tag that stand behind what is encrypted.
    fn tag_bytes_behind(&self) -> usize {
        match self.mode {
            Mode::MacThenEncrypt => 0,
            Mode::EncryptThenMac => self.algorithm.tag_bytes(),
        }
    }

    /// The tag of a record that is encrypted.
    fn outer_tag(
        &self,
        iv: &[u8; BLOCK_BYTES],
        header: Header,
        encrypted: &[u8],
    ) -> digest::Digest {
        let iv = &iv[..header.iv_bytes()];
        let mut stream = self.mac.begin();
        stream.update(&header.bytes(iv.len() + encrypted.len()));
        stream.update(iv);
        stream.update(encrypted);
        stream.end()
    }

    /// Opens a record of [`Mode::EncryptThenMac`]: nothing is decrypted before the tag is checked.
    fn open_tagged(
        &self,
        iv: &[u8; BLOCK_BYTES],
        header: Header,
        record: &mut [u8],
    ) -> Result<usize, CbcHmacError> {
        let encrypted_bytes = record.len().saturating_sub(self.algorithm.tag_bytes());
        let shape = encrypted_bytes > 0 && encrypted_bytes.is_multiple_of(BLOCK_BYTES);
        if !shape || encrypted_bytes > self.encrypted_bytes_max() {
            return Err(CbcHmacError::Rejected);
        }
        let (encrypted, tag) = record.split_at_mut(encrypted_bytes);
        let mut expected = self.outer_tag(iv, header, encrypted);
        let same = Mask::equal_bytes(expected.as_ref(), tag).declassify();
        // A forged record would be accepted with it.
        expected.wipe();
        if !same {
            return Err(CbcHmacError::Rejected);
        }
        self.cipher.decrypt(&mut { *iv }, Text::in_place(encrypted));
        // The record is authentic, so its padding may be looked at in any time.
        let padding = usize::from(encrypted[encrypted_bytes - 1]);
        let text_bytes = encrypted_bytes.checked_sub(padding + 1).ok_or(CbcHmacError::Rejected)?;
        let same = encrypted[text_bytes..].iter().all(|byte| usize::from(*byte) == padding);
        if same { Ok(text_bytes) } else { Err(CbcHmacError::Rejected) }
    }
}

/// Puts tag and padding behind `bytes` bytes of a record.
fn complete(record: &mut [u8], bytes: usize, tag: &[u8]) {
    record[bytes..][..tag.len()].copy_from_slice(tag);
    pad(record, bytes + tag.len());
}

/// Fills a record up behind `bytes` bytes: as many bytes as the number that each of them is, and
/// one more.
fn pad(record: &mut [u8], bytes: usize) {
    let padding = record.len() - bytes - 1;
    record[bytes..].fill(padding as u8);
}

fn whole_blocks(got: usize) -> Result<(), CbcHmacError> {
    if got.is_multiple_of(BLOCK_BYTES) { Ok(()) } else { Err(CbcHmacError::NotWholeBlocks { got }) }
}
