//! Authenticated encryption: AES-GCM (NIST SP 800-38D) and ChaCha20-Poly1305 (RFC 8439), one-shot,
//! many at once, and streaming.
//!
//! [`Aead::choose`] picks the widest room that machine and policy leave open, once; keys made from
//! it stay in that room. Nothing here draws nonces: whoever seals must never use one nonce twice
//! with one key, since that gives the authentication key away. A [`Stream`] refuses the nonce that
//! it has sealed with last; other repetitions nobody can see from here.
//!
//! # Examples
//!
//! ```
//! use widelane_cpu::Policy;
//! use widelane_crypto::aead::{Aead, AeadError, Algorithm};
//!
//! fn main() -> Result<(), AeadError> {
//!     let aead = Aead::choose(Algorithm::Aes128Gcm, &Policy::open());
//!     let key = aead.key(&[0x42; 16])?;
//!     let mut record = *b"hello";
//!     let mut tag = [0; 16];
//!     key.seal_in_place(&[7; 12], b"header", &mut record, &mut tag)?;
//!     key.open_in_place(&[7; 12], b"header", &mut record, &tag)?;
//!     assert_eq!(&record, b"hello");
//!     Ok(())
//! }
//! ```

mod chacha;
mod gcm;
mod kernel;
mod stream;

use std::ptr;

use thiserror::Error;
use widelane_cpu::{Policy, Room};
use widelane_kernels::text::Text;
use widelane_secret::{Mask, wipe};

pub use self::stream::{Direction, Stream};

/// Bytes of a whole tag.
pub const TAG_BYTES: usize = 16;

/// Bytes of the shortest tag that is accepted: SP 800-38D allows to cut a tag down to 96 bits.
pub const TAG_BYTES_MIN: usize = 12;

/// Bytes of the nonce that every algorithm takes and that protocols use.
pub const NONCE_BYTES: usize = 12;

/// Bytes of the sample of ciphertext that the mask of a QUIC header is made from.
pub const HEADER_SAMPLE_BYTES: usize = 16;

/// Bytes of the mask of a QUIC header: one for the first byte, four for the packet number.
pub const HEADER_MASK_BYTES: usize = 5;

/// An algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// AES-GCM with a key of 16 bytes.
    Aes128Gcm,
    /// AES-GCM with a key of 24 bytes.
    Aes192Gcm,
    /// AES-GCM with a key of 32 bytes.
    Aes256Gcm,
    /// ChaCha20-Poly1305.
    ChaCha20Poly1305,
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Algorithm; 4] = [
        Algorithm::Aes128Gcm,
        Algorithm::Aes192Gcm,
        Algorithm::Aes256Gcm,
        Algorithm::ChaCha20Poly1305,
    ];

    /// Bytes of the key.
    pub const fn key_bytes(self) -> usize {
        match self {
            Algorithm::Aes128Gcm => 16,
            Algorithm::Aes192Gcm => 24,
            Algorithm::Aes256Gcm | Algorithm::ChaCha20Poly1305 => 32,
        }
    }

    /// The longest text, in bytes: the block counter must not come around.
    pub const fn text_bytes_max(self) -> u64 {
        match self {
            Algorithm::Aes128Gcm | Algorithm::Aes192Gcm | Algorithm::Aes256Gcm => (1 << 36) - 32,
            Algorithm::ChaCha20Poly1305 => (1 << 38) - 64,
        }
    }

    /// The rooms that the algorithm has, best first.
    pub const fn rooms(self) -> &'static [Room] {
        match self {
            Algorithm::Aes128Gcm | Algorithm::Aes192Gcm | Algorithm::Aes256Gcm => {
                gcm::Choice::ROOMS
            }
            Algorithm::ChaCha20Poly1305 => chacha::Choice::ROOMS,
        }
    }
}

/// Why something was not sealed or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AeadError {
    /// The key is not as long as the algorithm wants it.
    #[error("the key has {got} bytes; {algorithm:?} takes {}", algorithm.key_bytes())]
    KeyLength {
        /// The algorithm.
        algorithm: Algorithm,
        /// Bytes of the key.
        got: usize,
    },
    /// The nonce is empty, or ChaCha20-Poly1305 gets one that has not 12 bytes.
    #[error("the nonce has {got} bytes; pass 12, or for AES-GCM any number but none")]
    NonceLength {
        /// Bytes of the nonce.
        got: usize,
    },
    /// The stream has just sealed a message with this nonce.
    #[error("a message was sealed with this nonce already; draw another one")]
    NonceReused,
    /// Input and output differ in length.
    #[error("the output has {got} bytes; pass as many as the input has, {wanted}")]
    OutputLength {
        /// Bytes of the output.
        got: usize,
        /// Bytes of the input.
        wanted: usize,
    },
    /// The text is longer than one nonce can encrypt.
    #[error("the text is longer than one nonce can encrypt; split it into messages")]
    TextTooLong,
    /// The tag is too short or too long to compare.
    #[error("the tag has {got} bytes; pass 12 to 16")]
    TagLength {
        /// Bytes of the tag.
        got: usize,
    },
    /// The message is not what was sealed under this key, nonce and AAD.
    #[error("the tag does not match: the message, its AAD, nonce or key is not the sealed one")]
    Rejected,
    /// The stream is not where this call belongs.
    #[error("the stream expects start, then aad, then update, then finish or verify")]
    OutOfOrder,
}

/// An algorithm in the room chosen for it.
#[derive(Clone, Copy, Debug)]
pub struct Aead {
    algorithm: Algorithm,
    choice: kernel::Choice,
}

impl Aead {
    /// Chooses the widest room that the machine has and `policy` leaves open.
    #[must_use]
    pub fn choose(algorithm: Algorithm, policy: &Policy) -> Self {
        Aead { algorithm, choice: kernel::Choice::new(algorithm, policy) }
    }

    /// The algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The room chosen.
    #[must_use]
    pub fn room(&self) -> Room {
        self.choice.room()
    }

    /// Expands a key.
    ///
    /// # Errors
    ///
    /// [`AeadError::KeyLength`].
    pub fn key(&self, bytes: &[u8]) -> Result<Key, AeadError> {
        let Aead { algorithm, choice } = *self;
        if bytes.len() != algorithm.key_bytes() {
            return Err(AeadError::KeyLength { algorithm, got: bytes.len() });
        }
        let kernel = kernel::Kernel::new(choice, bytes);
        Ok(Key { algorithm, kernel })
    }
}

/// A key, expanded for its room; wiped when it is dropped.
#[derive(Clone)]
pub struct Key {
    algorithm: Algorithm,
    kernel: kernel::Kernel,
}

/// One message of many: sealed in place.
pub struct SealJob<'a> {
    /// The key, which may differ from job to job.
    pub key: &'a Key,
    /// The nonce, never used with the key before.
    pub nonce: &'a [u8; NONCE_BYTES],
    /// What is authenticated but not encrypted.
    pub aad: &'a [u8],
    /// The message; left alone if it is too long.
    pub text: &'a mut [u8],
    /// Where the tag goes.
    pub tag: &'a mut [u8; TAG_BYTES],
    /// What became of the job.
    pub outcome: Outcome,
}

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Outcome {
    /// Not executed yet.
    #[default]
    Pending,
    /// Text and tag are the sealed message.
    Done,
    /// The text is longer than one nonce can encrypt, and was left as it is.
    TextTooLong,
}

impl SealJob<'_> {
    /// Looks at the length of the text and notes what becomes of the job; returns whether it is to
    /// be sealed.
    #[inline]
    fn accept(&mut self) -> bool {
        let fits = self.text.len() as u64 <= self.key.algorithm.text_bytes_max();
        self.outcome = if fits { Outcome::Done } else { Outcome::TextTooLong };
        fits
    }
}

impl Key {
    /// The algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The room in which the key works.
    #[must_use]
    pub fn room(&self) -> Room {
        self.kernel.room()
    }

    /// Encrypts `plaintext` into `ciphertext` and authenticates it together with `aad`.
    ///
    /// # Errors
    ///
    /// If a length is wrong; nothing is written then.
    pub fn seal(
        &self,
        nonce: &[u8],
        aad: &[u8],
        plaintext: &[u8],
        ciphertext: &mut [u8],
        tag: &mut [u8; TAG_BYTES],
    ) -> Result<(), AeadError> {
        same_length(plaintext, ciphertext)?;
        self.check(nonce, plaintext.len())?;
        self.kernel.seal(nonce, aad, Text::between(plaintext, ciphertext), tag);
        Ok(())
    }

    /// Encrypts `text` where it is and authenticates it together with `aad`.
    ///
    /// # Errors
    ///
    /// If a length is wrong; nothing is written then.
    pub fn seal_in_place(
        &self,
        nonce: &[u8],
        aad: &[u8],
        text: &mut [u8],
        tag: &mut [u8; TAG_BYTES],
    ) -> Result<(), AeadError> {
        self.check(nonce, text.len())?;
        self.kernel.seal(nonce, aad, Text::in_place(text), tag);
        Ok(())
    }

    /// Decrypts `ciphertext` into `plaintext` if `tag` is the one it was sealed with.
    ///
    /// # Errors
    ///
    /// If a length is wrong; nothing is written then. [`AeadError::Rejected`] if the tag does not
    /// match; `plaintext` is all zeros then.
    pub fn open(
        &self,
        nonce: &[u8],
        aad: &[u8],
        ciphertext: &[u8],
        plaintext: &mut [u8],
        tag: &[u8],
    ) -> Result<(), AeadError> {
        same_length(ciphertext, plaintext)?;
        self.check(nonce, ciphertext.len())?;
        check_tag(tag)?;
        let mut expected = [0; TAG_BYTES];
        self.kernel.open(nonce, aad, Text::between(ciphertext, plaintext), &mut expected);
        release(&mut expected, tag, plaintext)
    }

    /// Decrypts `text` where it is if `tag` is the one it was sealed with.
    ///
    /// # Errors
    ///
    /// If a length is wrong; nothing is written then. [`AeadError::Rejected`] if the tag does not
    /// match; `text` is all zeros then.
    pub fn open_in_place(
        &self,
        nonce: &[u8],
        aad: &[u8],
        text: &mut [u8],
        tag: &[u8],
    ) -> Result<(), AeadError> {
        self.check(nonce, text.len())?;
        check_tag(tag)?;
        let mut expected = [0; TAG_BYTES];
        self.kernel.open(nonce, aad, Text::in_place(text), &mut expected);
        release(&mut expected, tag, text)
    }

    /// The mask of QUIC's header protection for a sample of ciphertext (RFC 9001, 5.4.3 and 5.4.4).
    ///
    /// The key must be one that QUIC derives for this purpose alone, never a packet's.
    #[must_use]
    pub fn header_mask(&self, sample: &[u8; HEADER_SAMPLE_BYTES]) -> [u8; HEADER_MASK_BYTES] {
        self.kernel.header_mask(sample)
    }

    fn check(&self, nonce: &[u8], text_bytes: usize) -> Result<(), AeadError> {
        self.check_nonce(nonce)?;
        if text_bytes as u64 > self.algorithm.text_bytes_max() {
            return Err(AeadError::TextTooLong);
        }
        Ok(())
    }

    fn check_nonce(&self, nonce: &[u8]) -> Result<(), AeadError> {
        let fits = match self.algorithm {
            Algorithm::Aes128Gcm | Algorithm::Aes192Gcm | Algorithm::Aes256Gcm => !nonce.is_empty(),
            Algorithm::ChaCha20Poly1305 => nonce.len() == NONCE_BYTES,
        };
        if fits { Ok(()) } else { Err(AeadError::NonceLength { got: nonce.len() }) }
    }
}

/// Seals the jobs in place, whatever their keys, and stores what became of each.
///
/// Short messages overlap in the pipeline: 32 records of 64 bytes take less time than 32 calls.
pub fn seal_many(jobs: &mut [SealJob<'_>]) {
    let family = |key: &Key| match key.kernel {
        kernel::Kernel::Gcm(_) => (0, key.room()),
        kernel::Kernel::ChaCha(_) => (1, key.room()),
    };
    let relatives = |left: &SealJob<'_>, right: &SealJob<'_>| {
        ptr::eq(left.key, right.key) || family(left.key) == family(right.key)
    };
    for run in jobs.chunk_by_mut(relatives) {
        match run[0].key.kernel {
            kernel::Kernel::Gcm(_) => gcm::seal_many(run),
            kernel::Kernel::ChaCha(_) => chacha::seal_many(run),
        }
    }
}

/// Leaves the plaintext where it is if the tags are equal, and wipes it if they are not.
fn release(
    expected: &mut [u8; TAG_BYTES],
    tag: &[u8],
    plaintext: &mut [u8],
) -> Result<(), AeadError> {
    let released = compare(expected, tag);
    if released.is_err() {
        wipe(plaintext);
    }
    released
}

/// Compares what there is of a tag, in a time that does not depend on where tags differ, and wipes
/// the expected one: that of a forged message and that of the genuine one with its nonce together
/// tell the authentication key.
fn compare(expected: &mut [u8; TAG_BYTES], tag: &[u8]) -> Result<(), AeadError> {
    let matches = Mask::equal_bytes(&expected[..tag.len()], tag).declassify();
    wipe(expected);
    if matches { Ok(()) } else { Err(AeadError::Rejected) }
}

fn check_tag(tag: &[u8]) -> Result<(), AeadError> {
    match tag.len() {
        TAG_BYTES_MIN..=TAG_BYTES => Ok(()),
        got => Err(AeadError::TagLength { got }),
    }
}

fn same_length(input: &[u8], output: &[u8]) -> Result<(), AeadError> {
    if input.len() == output.len() {
        Ok(())
    } else {
        Err(AeadError::OutputLength { got: output.len(), wanted: input.len() })
    }
}
