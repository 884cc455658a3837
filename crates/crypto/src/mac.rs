//! Message authentication: HMAC (FIPS 198-1) over each hash function, one-shot, in pieces, and many
//! messages at once.
//!
//! A key is two states of the hash: behind its inner and behind its outer pad.
//!
//! # Examples
//!
//! ```
//! use widelane_cpu::Policy;
//! use widelane_crypto::digest::Algorithm;
//! use widelane_crypto::mac::{Hmac, MacError};
//!
//! fn main() -> Result<(), MacError> {
//!     let key = Hmac::choose(Algorithm::Sha256, &Policy::open()).key(b"a secret");
//!     let tag = key.tag(b"a message");
//!     key.verify(b"a message", tag.as_ref())?;
//!     assert_eq!(key.verify(b"another", tag.as_ref()), Err(MacError::Rejected));
//!     Ok(())
//! }
//! ```

use thiserror::Error;
use widelane_cpu::{Policy, Room};
use widelane_secret::stack::{kib, wiped};
use widelane_secret::{Mask, wipe};

use crate::digest::{self, Algorithm, BLOCK_BYTES_MAX, Digest, Hash, Job, State};

/// Stack of hashing a key that is longer than a block.
const STACK: usize = kib(3);

/// Bytes of the shortest tag that is accepted: half of the digest, and 80 bits at least (RFC 2104,
/// section 5).
#[must_use]
pub const fn tag_bytes_min(algorithm: Algorithm) -> usize {
    // Half of the shortest digest has 80 bits.
    algorithm.digest_bytes() / 2
}

/// Why a message was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MacError {
    /// The tag is too short or too long to compare.
    #[error("the tag has {got} bytes; pass {min} to {max}")]
    TagLength {
        /// Bytes of the tag.
        got: usize,
        /// What [`tag_bytes_min`] says.
        min: usize,
        /// Bytes of a whole tag.
        max: usize,
    },
    /// The message is not what the tag was made for, or the key is another one.
    #[error("the tag does not match: the message or the key is not the one it was made with")]
    Rejected,
}

/// HMAC over a hash function in the rooms chosen for it.
#[derive(Clone, Copy, Debug)]
pub struct Hmac {
    hash: Hash,
}

impl Hmac {
    /// Chooses the best rooms that the machine has and `policy` leaves open.
    #[must_use]
    pub fn choose(algorithm: Algorithm, policy: &Policy) -> Self {
        Hmac { hash: Hash::choose(algorithm, policy) }
    }

    /// The hash function and its rooms.
    pub fn hash(&self) -> &Hash {
        &self.hash
    }

    /// The room for a single message.
    #[must_use]
    pub fn room(&self) -> Room {
        self.hash.room()
    }

    /// Prepares a key of any length.
    pub fn key(&self, bytes: &[u8]) -> Key {
        let block_bytes = self.hash.algorithm().block_bytes();
        let mut pads = [[0; BLOCK_BYTES_MAX]; 2];
        let [pad, outer_pad] = &mut pads;
        if bytes.len() > block_bytes {
            // A digest is returned by way of copies.
            wiped::<STACK, _>(|| {
                let mut digest = self.hash.digest(bytes);
                pad[..digest.as_ref().len()].copy_from_slice(digest.as_ref());
                digest.wipe();
            });
        } else {
            pad[..bytes.len()].copy_from_slice(bytes);
        }
        for (inner, outer) in pad.iter_mut().zip(&mut *outer_pad) {
            (*inner, *outer) = (*inner ^ 0x36, *inner ^ 0x5c);
        }
        let mut states = Box::new([*self.hash.initial(); 2]);
        self.hash.compress_pair(&mut states, [&pad[..block_bytes], &outer_pad[..block_bytes]]);
        wipe(pads.as_flattened_mut());
        Key { hash: self.hash, states }
    }
}

/// A key, wiped when it is dropped. Boxed, so that moving it leaves no copies behind.
#[derive(Clone)]
pub struct Key {
    hash: Hash,
    /// Behind the inner pad, and behind the outer one.
    states: Box<[State; 2]>,
}

impl Key {
    /// The hash function and its rooms.
    pub fn hash(&self) -> &Hash {
        &self.hash
    }

    /// Another key of the same hash function.
    pub(crate) fn replaced(&self, bytes: &[u8]) -> Self {
        Hmac { hash: self.hash }.key(bytes)
    }

    /// The tag of a message.
    #[must_use]
    pub fn tag(&self, message: &[u8]) -> Digest {
        let [inner, outer] = &*self.states;
        self.hash.whole(inner, message, Some(outer))
    }

    /// Accepts a message if `tag` is its tag, or the beginning of it, which has [`tag_bytes_min`]
    /// bytes at least.
    ///
    /// # Errors
    ///
    /// [`MacError::TagLength`] or [`MacError::Rejected`].
    pub fn verify(&self, message: &[u8], tag: &[u8]) -> Result<(), MacError> {
        matches(self.hash.algorithm(), || self.tag(message), tag)
    }

    /// Begins a message that comes in pieces.
    #[inline]
    #[must_use]
    pub fn begin(&self) -> Stream {
        let inner = self.hash.resume(self.inner_state(), self.block_bytes());
        Stream { inner, outer: self.states[1] }
    }

    fn block_bytes(&self) -> u64 {
        self.hash.algorithm().block_bytes() as u64
    }

    /// The state behind the inner pad.
    pub(crate) fn inner_state(&self) -> State {
        self.states[0]
    }

    /// The states behind the inner pad and behind the outer one.
    pub(crate) fn states(&self) -> &[State; 2] {
        &self.states
    }

    /// The tag of a message whose last blocks are still to be added to its state, which is wiped.
    pub(crate) fn end(&self, inner: &mut State, last: &[u8]) -> Digest {
        let tag = self.hash.end(inner, last, None, Some(&self.states[1]));
        wipe(inner);
        tag
    }

    /// The job that makes the tag of a message behind a head, which is shorter than a block.
    pub(crate) fn job<'a>(
        &'a self,
        head: &'a [u8],
        message: &'a [u8],
        digest: &'a mut Digest,
    ) -> Job<'a> {
        let [state, outer] = &*self.states;
        Job { state, outer: Some(outer), head, message, digest }
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        wipe(self.states.as_flattened_mut());
    }
}

/// A message that comes in pieces.
#[derive(Clone)]
pub struct Stream {
    inner: digest::Stream,
    /// Behind the outer pad.
    outer: State,
}

impl Stream {
    /// Adds a piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.inner.update(piece);
    }

    /// The tag of all pieces.
    #[must_use]
    pub fn finish(self) -> Digest {
        self.end()
    }

    /// The tag of all pieces, of a stream that goes on no more: it stays where it is, since a copy
    /// would have to be wiped as well.
    pub(crate) fn end(&self) -> Digest {
        self.inner.end(Some(&self.outer))
    }

    /// Accepts the message if `tag` is its tag, or the beginning of it, which has [`tag_bytes_min`]
    /// bytes at least.
    ///
    /// # Errors
    ///
    /// [`MacError::TagLength`] or [`MacError::Rejected`].
    pub fn verify(self, tag: &[u8]) -> Result<(), MacError> {
        matches(self.inner.hash().algorithm(), || self.end(), tag)
    }
}

/// Whether `tag` is the expected one, or the beginning of it. The expected one is wiped: a forged
/// message would be accepted with it.
fn matches(
    algorithm: Algorithm,
    expected: impl FnOnce() -> Digest,
    tag: &[u8],
) -> Result<(), MacError> {
    let (min, max) = (tag_bytes_min(algorithm), algorithm.digest_bytes());
    let got = tag.len();
    if !(min..=max).contains(&got) {
        return Err(MacError::TagLength { got, min, max });
    }
    let mut expected = expected();
    let matches = Mask::equal_bytes(&expected.as_ref()[..got], tag).declassify();
    expected.wipe();
    if matches { Ok(()) } else { Err(MacError::Rejected) }
}

impl Drop for Stream {
    fn drop(&mut self) {
        wipe(&mut self.outer);
    }
}

/// One message of many.
pub struct TagJob<'a> {
    /// The key, which may differ from job to job.
    pub key: &'a Key,
    /// The message.
    pub message: &'a [u8],
    /// Where the tag goes.
    pub tag: Digest,
}

/// Makes the tags of many messages, whatever their keys and lengths.
///
/// Neighbours with one hash function share the lanes of a room.
pub fn tag_many(jobs: &mut [TagJob<'_>]) {
    let family = |job: &TagJob<'_>| {
        (job.key.hash.algorithm(), job.key.hash.lane_room(), job.key.hash.room())
    };
    for jobs in jobs.chunk_by_mut(|left, right| family(left) == family(right)) {
        let hash = jobs[0].key.hash;
        hash.run(jobs.iter_mut().map(|job| job.key.job(&[], job.message, &mut job.tag)));
    }
}
