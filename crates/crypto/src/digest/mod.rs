//! Hash functions: SHA-1 and SHA-2 (FIPS 180-4), one-shot, in pieces, and many messages at once.
//!
//! [`Hash::choose`] picks the rooms that machine and policy leave open, once: one for a single
//! message, and one whose lanes take a message each. SHA-1 is here for HMAC, which TLS 1.2 still
//! uses; as the hash of a signature it is broken.
//!
//! # Examples
//!
//! ```
//! use widelane_cpu::Policy;
//! use widelane_crypto::digest::{Algorithm, Digest, Hash};
//!
//! let hash = Hash::choose(Algorithm::Sha256, &Policy::open());
//! let mut stream = hash.begin();
//! stream.update(b"one ");
//! stream.update(b"message");
//! assert_eq!(stream.finish(), hash.digest(b"one message"));
//!
//! let mut digests = [Digest::default(); 2];
//! hash.digest_many(&[b"one message", b"another"], &mut digests);
//! assert_eq!(digests[1], hash.digest(b"another"));
//! ```

// Its macros are in scope from here on.
#[macro_use]
mod kernel;

mod few;
mod lanes;

use std::fmt;

use widelane_cpu::{Policy, Room};
use widelane_kernels::aes_cbc;
use widelane_kernels::text::Text;
use widelane_secret::{Mask, wipe};

pub(crate) use self::few::{Block, FEW_MAX};
pub(crate) use self::kernel::State;
use self::kernel::{Function, LaneRoom, Rooms};
pub(crate) use self::lanes::{Job, Tail};

/// Bytes of the longest digest.
pub const DIGEST_BYTES_MAX: usize = 64;

/// Bytes of the longest block.
pub(crate) const BLOCK_BYTES_MAX: usize = 128;

/// An algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// SHA-1.
    Sha1,
    /// SHA-224.
    Sha224,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Algorithm; 5] = [
        Algorithm::Sha1,
        Algorithm::Sha224,
        Algorithm::Sha256,
        Algorithm::Sha384,
        Algorithm::Sha512,
    ];

    /// Bytes of the digest.
    pub const fn digest_bytes(self) -> usize {
        match self {
            Algorithm::Sha1 => 20,
            Algorithm::Sha224 => 28,
            Algorithm::Sha256 => 32,
            Algorithm::Sha384 => 48,
            Algorithm::Sha512 => 64,
        }
    }

    /// Bytes of a block.
    pub const fn block_bytes(self) -> usize {
        self.function().block_bytes()
    }

    /// The rooms for a single message, best first.
    pub const fn rooms(self) -> &'static [Room] {
        self.function().rooms()
    }

    /// The rooms for many messages at once, best first.
    pub const fn lane_rooms(self) -> &'static [Room] {
        LaneRoom::ROOMS
    }

    const fn function(self) -> Function {
        match self {
            Algorithm::Sha1 => Function::Sha1,
            Algorithm::Sha224 | Algorithm::Sha256 => Function::Sha256,
            Algorithm::Sha384 | Algorithm::Sha512 => Function::Sha512,
        }
    }
}

/// An algorithm in the rooms chosen for it.
#[derive(Clone, Copy, Debug)]
pub struct Hash {
    algorithm: Algorithm,
    rooms: Rooms,
}

impl Hash {
    /// Chooses the best rooms that the machine has and `policy` leaves open.
    #[must_use]
    pub fn choose(algorithm: Algorithm, policy: &Policy) -> Self {
        Hash { algorithm, rooms: Rooms::new(algorithm.function(), policy) }
    }

    /// The algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The room for a single message.
    #[must_use]
    pub fn room(&self) -> Room {
        self.rooms.room()
    }

    /// The room that takes many messages at once, if there is one that gains by it.
    pub fn lane_room(&self) -> Option<Room> {
        self.rooms.lane_room()
    }

    /// How many messages are hashed at a time.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.rooms.width()
    }

    /// The digest of a message.
    #[must_use]
    pub fn digest(&self, message: &[u8]) -> Digest {
        self.whole(self.initial(), message, None)
    }

    /// Begins a message that comes in pieces.
    #[must_use]
    pub fn begin(&self) -> Stream {
        self.resume(*self.initial(), 0)
    }

    /// The digests of many messages, whatever their lengths.
    ///
    /// # Panics
    ///
    /// Panics if there are not as many digests as messages.
    pub fn digest_many(&self, messages: &[&[u8]], digests: &mut [Digest]) {
        assert_eq!(messages.len(), digests.len(), "every message has a place for its digest");
        let initial = self.initial();
        self.run(messages.iter().zip(digests).map(|(message, digest)| Job {
            state: initial,
            outer: None,
            head: &[],
            message,
            digest,
        }));
    }

    /// The state before the first block.
    pub(crate) fn initial(&self) -> &'static State {
        kernel::initial(self.algorithm)
    }

    /// Goes on behind `before` bytes, a whole number of blocks, that left `state`.
    #[inline]
    pub(crate) fn resume(&self, state: State, before: u64) -> Stream {
        Stream { hash: *self, state, buffer: [0; BLOCK_BYTES_MAX], bytes: before }
    }

    /// Hashes many messages.
    pub(crate) fn run<'a>(&self, mut jobs: impl ExactSizeIterator<Item = Job<'a>>) {
        lanes::run(self, &mut jobs);
    }

    /// How many of the bytes are whole blocks.
    #[inline]
    fn whole_blocks(&self, bytes: usize) -> usize {
        // Without a division: a block's size is a power of two.
        bytes & !(self.algorithm.block_bytes() - 1)
    }

    /// Bytes in front of a message: the inner pad, if there is a state behind an outer one.
    #[inline]
    fn behind_pad(&self, outer: Option<&State>) -> u64 {
        outer.map_or(0, |_| self.algorithm.block_bytes() as u64)
    }

    /// Adds whole blocks to a state.
    pub(crate) fn compress(&self, state: &mut State, blocks: &[u8]) {
        self.rooms.compress(state, blocks);
    }

    /// Adds whole blocks to two states, as many to each.
    pub(crate) fn compress_pair(&self, states: &mut [State; 2], blocks: [&[u8]; 2]) {
        self.rooms.compress_pair(states.each_mut(), blocks);
    }

    /// Hashes a text while it encrypts it: see [`Rooms::compress_and_encrypt`].
    pub(crate) fn compress_and_encrypt(
        &self,
        state: &mut State,
        ahead: usize,
        key: &aes_cbc::Key,
        last: &mut aes_cbc::Block,
        text: Text<'_>,
    ) -> usize {
        self.rooms.compress_and_encrypt(state, ahead, key, last, text)
    }

    /// See [`Rooms::abreast_min`].
    pub(crate) fn abreast_min(&self) -> Option<usize> {
        self.rooms.abreast_min()
    }

    /// The digest of a message that is there as a whole; or, given the state behind the outer pad
    /// of HMAC, the tag of a message that goes on behind the inner one.
    pub(crate) fn whole(&self, state: &State, message: &[u8], outer: Option<&State>) -> Digest {
        let total = self.behind_pad(outer) + message.len() as u64;
        self.end(state, message, Some(total), outer)
    }

    /// Adds what is left of a message to a copy of its state, padded if the bytes of the whole
    /// message are given; returns the digest, or, given the state behind the outer pad of HMAC, the
    /// tag.
    pub(crate) fn end(
        &self,
        state: &State,
        message: &[u8],
        total: Option<u64>,
        outer: Option<&State>,
    ) -> Digest {
        let mut digest =
            Digest { bytes: [0; DIGEST_BYTES_MAX], length: self.algorithm.digest_bytes() };
        let bytes = digest.bytes.first_chunk_mut().expect("no digest is longer");
        // A digest of SHA-224 lacks a word of its state.
        let is_cut = self.algorithm == Algorithm::Sha224;
        if !(is_cut && outer.is_some()) && self.rooms.end(state, message, total, outer, bytes) {
            if is_cut {
                digest.bytes[digest.length..].fill(0);
            }
            return digest;
        }
        let (blocks, last) = message.split_at(self.whole_blocks(message.len()));
        let (mut state, mut tail) = (*state, Tail::EMPTY);
        self.compress(&mut state, blocks);
        if let Some(total) = total {
            tail.set(self, last, total);
            self.compress(&mut state, tail.blocks());
            tail.wipe();
        }
        if let Some(outer) = outer {
            tail.set_digest(self, &state);
            state = *outer;
            self.compress(&mut state, tail.blocks());
            tail.wipe();
        }
        self.store(&state, &mut digest);
        wipe(&mut state);
        digest
    }

    /// Stores the digest that a last state stands for.
    #[inline]
    fn store(&self, state: &State, digest: &mut Digest) {
        digest.length = self.algorithm.digest_bytes();
        digest.bytes = [0; DIGEST_BYTES_MAX];
        self.rooms.function.write(state, &mut digest.bytes[..digest.length]);
    }
}

/// A digest: as many bytes as its algorithm has, none by default. Compared in a time that does not
/// depend on where two differ, since tags of HMAC are digests.
#[derive(Clone, Copy)]
pub struct Digest {
    bytes: [u8; DIGEST_BYTES_MAX],
    length: usize,
}

impl Digest {
    /// Clears a digest that is a secret.
    pub fn wipe(&mut self) {
        wipe(&mut self.bytes);
    }
}

impl Default for Digest {
    fn default() -> Self {
        Digest { bytes: [0; DIGEST_BYTES_MAX], length: 0 }
    }
}

impl PartialEq for Digest {
    fn eq(&self, other: &Self) -> bool {
        self.length == other.length && Mask::equal_bytes(self.as_ref(), other.as_ref()).declassify()
    }
}

impl Eq for Digest {}

impl AsRef<[u8]> for Digest {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

/// A message that comes in pieces; wiped when it is dropped.
#[derive(Clone)]
pub struct Stream {
    hash: Hash,
    state: State,
    /// The beginning of a block that is not whole yet.
    buffer: [u8; BLOCK_BYTES_MAX],
    /// Bytes of the message so far.
    bytes: u64,
}

impl Stream {
    /// The algorithm and its rooms.
    pub fn hash(&self) -> &Hash {
        &self.hash
    }

    /// Adds a piece.
    pub fn update(&mut self, piece: &[u8]) {
        let block_bytes = self.hash.algorithm.block_bytes();
        let filled = self.filled();
        self.bytes = self.bytes.wrapping_add(piece.len() as u64);
        let mut piece = piece;
        if filled > 0 {
            let (head, rest) = piece.split_at(piece.len().min(block_bytes - filled));
            self.buffer[filled..][..head.len()].copy_from_slice(head);
            if filled + head.len() < block_bytes {
                return;
            }
            self.hash.compress(&mut self.state, &self.buffer[..block_bytes]);
            piece = rest;
        }
        let (blocks, rest) = piece.split_at(self.hash.whole_blocks(piece.len()));
        if !blocks.is_empty() {
            self.hash.compress(&mut self.state, blocks);
        }
        self.buffer[..rest.len()].copy_from_slice(rest);
    }

    /// The digest of all pieces.
    #[must_use]
    pub fn finish(self) -> Digest {
        self.end(None)
    }

    /// The digest of all pieces; or, given the state behind the outer pad of HMAC, the tag.
    pub(crate) fn end(&self, outer: Option<&State>) -> Digest {
        self.hash.end(&self.state, self.rest(), Some(self.bytes), outer)
    }

    /// What does not fill a block.
    fn rest(&self) -> &[u8] {
        &self.buffer[..self.filled()]
    }

    /// How many bytes that are. Without a division: a block's size is a power of two.
    fn filled(&self) -> usize {
        self.bytes as usize & (self.hash.algorithm.block_bytes() - 1)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        wipe(&mut self.state);
        wipe(&mut self.buffer);
    }
}
