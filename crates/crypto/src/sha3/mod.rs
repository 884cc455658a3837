//! SHA-3 and SHAKE (FIPS 202): one-shot, in pieces, and many messages at once.
//!
//! [`Sha3::choose`] picks the rooms that machine and policy leave open, once: the widest one is for
//! many messages, and plain words are for a single one.
//!
//! # Examples
//!
//! ```
//! use widelane_cpu::Policy;
//! use widelane_crypto::sha3::{Algorithm, Sha3};
//!
//! let sha3 = Sha3::choose(Algorithm::Sha3_256, &Policy::open());
//! let (mut whole, mut pieces) = ([0; 32], [0; 32]);
//! sha3.digest(b"one message", &mut whole);
//! let mut stream = sha3.begin();
//! stream.update(b"one ");
//! stream.update(b"message");
//! stream.finish(&mut pieces);
//! assert_eq!(whole, pieces);
//!
//! let mut digests = [[0; 32]; 2];
//! let [first, second] = &mut digests;
//! sha3.digest_many(&[b"one message", b"another"], &mut [first, second]);
//! assert_eq!(digests[0], whole);
//! ```

use widelane_cpu::{Policy, Room, choice};
use widelane_kernels::keccak::sponge::{Function, SHA3_256, SHA3_512, SHAKE128, SHAKE256, Sponges};
use widelane_kernels::words::Words;

/// The rooms that many messages have, best first.
pub const LANE_ROOMS: &[Room] = Choice::WIDE_ROOMS;

choice! { $
    /// The room of many messages.
    enum Choice by in_room {
        Avx512 => widelane_kernels::words::Avx512x8, Avx2 => widelane_kernels::words::Avx2x4,
        Portable => std::primitive::u64
    }
}

/// An algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// SHA3-256.
    Sha3_256,
    /// SHA3-512.
    Sha3_512,
    /// SHAKE128, whose digests have any length.
    Shake128,
    /// SHAKE256, whose digests have any length.
    Shake256,
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Algorithm; 4] =
        [Algorithm::Sha3_256, Algorithm::Sha3_512, Algorithm::Shake128, Algorithm::Shake256];

    /// Bytes of the digest, if it has a fixed length.
    pub const fn digest_bytes(self) -> Option<usize> {
        match self {
            Algorithm::Sha3_256 => Some(32),
            Algorithm::Sha3_512 => Some(64),
            Algorithm::Shake128 | Algorithm::Shake256 => None,
        }
    }

    const fn function(self) -> Function {
        match self {
            Algorithm::Sha3_256 => SHA3_256,
            Algorithm::Sha3_512 => SHA3_512,
            Algorithm::Shake128 => SHAKE128,
            Algorithm::Shake256 => SHAKE256,
        }
    }

    fn check(self, digest: &[u8]) {
        let is_right = self.digest_bytes().is_none_or(|bytes| bytes == digest.len());
        assert!(is_right, "{self:?} has no digest of {} bytes", digest.len());
    }
}

/// An algorithm in the rooms chosen for it.
#[derive(Clone, Copy, Debug)]
pub struct Sha3 {
    algorithm: Algorithm,
    choice: Choice,
}

impl Sha3 {
    /// Chooses the best rooms that the machine has and `policy` leaves open.
    #[must_use]
    pub fn choose(algorithm: Algorithm, policy: &Policy) -> Self {
        Sha3 { algorithm, choice: Choice::new(policy) }
    }

    /// The algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The room that takes many messages at once, if there is one.
    pub fn lane_room(&self) -> Option<Room> {
        Some(self.choice.room()).filter(|room| *room != Room::Portable)
    }

    /// Stores the digest of a message.
    ///
    /// # Panics
    ///
    /// Panics if the algorithm has no digest of such a length.
    pub fn digest(&self, message: &[u8], digest: &mut [u8]) {
        self.algorithm.check(digest);
        together::<u64>((), self.algorithm.function(), &[message], &mut [digest]);
    }

    /// Begins a message that comes in pieces.
    #[must_use]
    pub fn begin(&self) -> Stream {
        Stream { algorithm: self.algorithm, sponge: Sponges::default(), filled: 0 }
    }

    /// Stores the digests of many messages, whatever their lengths.
    ///
    /// # Panics
    ///
    /// Panics if there are not as many digests as messages, or one has a length that the algorithm
    /// has not.
    pub fn digest_many(&self, messages: &[&[u8]], digests: &mut [&mut [u8]]) {
        assert_eq!(messages.len(), digests.len(), "every message has a place for its digest");
        digests.iter().for_each(|digest| self.algorithm.check(digest));
        let function = self.algorithm.function();
        let choice = if messages.len() == 1 { Choice::Portable(()) } else { self.choice };
        in_room!(choice, |room, W| together::<W>(room, function, messages, digests));
    }
}

/// Hashes messages, as many at once as there are lanes.
fn together<W: Words<Word = u64>>(
    room: W::Room,
    function: Function,
    messages: &[&[u8]],
    digests: &mut [&mut [u8]],
) {
    let rate = function.rate_bytes;
    let mut sponges = Sponges::<W>::default();
    for (messages, digests) in messages.chunks(W::LANES).zip(digests.chunks_mut(W::LANES)) {
        sponges.clear();
        let mut block = 0;
        // A message ends in the block that its padding begins in; what a lane makes behind its
        // digest is of no interest.
        let is_busy = |block: usize, message: &[u8], digest: &[u8]| {
            block < message.len() / rate + digest.len().div_ceil(rate).max(1)
        };
        while messages
            .iter()
            .zip(&*digests)
            .any(|(message, digest)| is_busy(block, message, digest))
        {
            for (lane, message) in messages.iter().enumerate() {
                let begin = block * rate;
                if begin <= message.len() {
                    let piece = &message[begin..message.len().min(begin + rate)];
                    sponges.add_bytes(lane, 0, piece);
                    if piece.len() < rate {
                        sponges.pad(lane, piece.len(), function);
                    }
                }
            }
            sponges.permute(room);
            for (lane, (message, digest)) in messages.iter().zip(&mut *digests).enumerate() {
                if let Some(squeezed) = block.checked_sub(message.len() / rate)
                    && squeezed * rate < digest.len()
                {
                    let end = digest.len().min((squeezed + 1) * rate);
                    sponges.copy_bytes(lane, 0, &mut digest[squeezed * rate..end]);
                }
            }
            block += 1;
        }
    }
}

/// A message that comes in pieces; wiped when it is dropped.
#[derive(Clone)]
pub struct Stream {
    algorithm: Algorithm,
    sponge: Sponges<u64>,
    /// Bytes of the block at hand that are added already.
    filled: usize,
}

impl Stream {
    /// The algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Adds a piece.
    pub fn update(&mut self, piece: &[u8]) {
        let rate = self.algorithm.function().rate_bytes;
        let mut rest = piece;
        while !rest.is_empty() {
            let (head, behind) = rest.split_at(rest.len().min(rate - self.filled));
            self.sponge.add_bytes(0, self.filled, head);
            self.filled += head.len();
            if self.filled == rate {
                self.sponge.permute(());
                self.filled = 0;
            }
            rest = behind;
        }
    }

    /// Stores the digest of all pieces.
    ///
    /// # Panics
    ///
    /// Panics if the algorithm has no digest of such a length.
    pub fn finish(mut self, digest: &mut [u8]) {
        self.algorithm.check(digest);
        let function = self.algorithm.function();
        self.sponge.pad(0, self.filled, function);
        for block in digest.chunks_mut(function.rate_bytes) {
            self.sponge.permute(());
            self.sponge.copy_bytes(0, 0, block);
        }
    }
}
