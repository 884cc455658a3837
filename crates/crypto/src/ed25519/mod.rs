//! Signatures of Ed25519 (RFC 8032, the pure variant): many jobs at once, each with its own key.
//!
//! [`Ed25519::choose`] picks the widest room that machine and policy leave open, once; a batch then
//! fills its lanes. Signing takes time that depends on the lengths of the messages alone. A
//! signature is verified as RFC 8032 section 5.1.7 says, without the cofactor, and encodings that
//! are not canonical are rejected.
//!
//! # Examples
//!
//! ```
//! use widelane_cpu::Policy;
//! use widelane_crypto::ed25519::{Ed25519, Outcome, SignJob, SigningKey, VerifyJob};
//!
//! let ed25519 = Ed25519::choose(&Policy::open());
//! let key = SigningKey::from_seed(&[7; 32]);
//! let mut signature = [0; 64];
//! let mut job = SignJob::new(&key, b"message", &mut signature);
//! ed25519.sign_batch(std::slice::from_mut(&mut job));
//! assert_eq!(job.outcome, Outcome::Done);
//!
//! let public = key.public();
//! let mut job = VerifyJob::new(&public, b"message", &signature);
//! ed25519.verify_batch(std::slice::from_mut(&mut job));
//! assert_eq!(job.outcome, Outcome::Done);
//! ```

mod key;

use widelane_cpu::{Policy, Room};
use widelane_kernels::curve25519::{self, Scalar};
use widelane_secret::stack::wiped;
use widelane_secret::wipe;

use crate::choice::{Choice, LANES_MAX};
use crate::digest::{self, Algorithm, Digest, Hash};
use crate::x25519::STACK;

pub use key::SigningKey;

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Outcome {
    /// Not executed yet.
    #[default]
    Pending,
    /// The signature is there, or good.
    Done,
    /// The signature is not that of this message and this key.
    Rejected,
}

/// One signature to be made.
pub struct SignJob<'a> {
    /// The key.
    pub key: &'a SigningKey,
    /// What is signed.
    pub message: &'a [u8],
    /// Where the signature goes.
    pub signature: &'a mut [u8; 64],
    /// What became of the job.
    pub outcome: Outcome,
}

/// One signature to be verified.
pub struct VerifyJob<'a> {
    /// The public key.
    pub public: &'a [u8; 32],
    /// What was signed.
    pub message: &'a [u8],
    /// The signature.
    pub signature: &'a [u8; 64],
    /// What became of the job.
    pub outcome: Outcome,
}

/// Ed25519 in the room chosen for it.
#[derive(Clone, Copy, Debug)]
pub struct Ed25519 {
    choice: Choice,
    hash: Hash,
}

impl<'a> SignJob<'a> {
    /// A job not yet executed.
    pub fn new(key: &'a SigningKey, message: &'a [u8], signature: &'a mut [u8; 64]) -> Self {
        SignJob { key, message, signature, outcome: Outcome::Pending }
    }
}

impl<'a> VerifyJob<'a> {
    /// A job not yet executed.
    pub fn new(public: &'a [u8; 32], message: &'a [u8], signature: &'a [u8; 64]) -> Self {
        VerifyJob { public, message, signature, outcome: Outcome::Pending }
    }
}

impl Ed25519 {
    /// Chooses the widest room that the machine has and `policy` leaves open.
    #[must_use]
    pub fn choose(policy: &Policy) -> Self {
        Ed25519 { choice: Choice::new(policy), hash: Hash::choose(Algorithm::Sha512, policy) }
    }

    /// Chooses the room in which a single job costs least, the narrowest one with several lanes.
    #[must_use]
    pub fn for_one(policy: &Policy) -> Self {
        Ed25519 { choice: Choice::for_one(policy), ..Self::choose(policy) }
    }

    /// One for each room with several lanes that the machine has and `policy` leaves open, those
    /// with the fewest lanes first: who has several jobs can choose the one that costs least.
    #[must_use]
    pub fn kernels(policy: &Policy) -> Vec<Self> {
        let hash = Hash::choose(Algorithm::Sha512, policy);
        Choice::with_lanes(policy).map(|choice| Ed25519 { choice, hash }).collect()
    }

    /// The room chosen.
    #[must_use]
    pub fn room(&self) -> Room {
        self.choice.room()
    }

    /// How many jobs a full batch has.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.choice.lanes()
    }

    /// Signs messages.
    ///
    /// A batch costs the same for one job as for [`lanes`](Self::lanes) of them, but for the
    /// hashing; more jobs make several batches.
    pub fn sign_batch(&self, jobs: &mut [SignJob<'_>]) {
        for jobs in jobs.chunks_mut(self.lanes()) {
            wiped::<STACK, _>(|| self.sign(jobs));
        }
    }

    /// Verifies signatures and stores for each whether it is good.
    ///
    /// Nothing here is a secret. A batch costs the same for one job as for [`lanes`](Self::lanes)
    /// of them, but for the hashing; more jobs make several batches.
    pub fn verify_batch(&self, jobs: &mut [VerifyJob<'_>]) {
        for jobs in jobs.chunks_mut(self.lanes()) {
            self.verify(jobs);
        }
    }

    fn sign(&self, jobs: &mut [SignJob<'_>]) {
        let count = jobs.len();
        let prefixed = jobs.iter().map(|job| (&job.key.prefix()[..], job.message));
        let mut nonces = self.scalars_of(prefixed);
        let mut nonce_bytes = nonces.map(Scalar::to_bytes);
        let mut points = [[0; 32]; LANES_MAX];
        self.multiply_base(&nonce_bytes[..count], &mut points[..count]);
        let mut heads = [[0; 64]; LANES_MAX];
        for ((head, point), job) in heads.iter_mut().zip(&points).zip(&*jobs) {
            *head = joined(point, job.key.public_bytes());
        }
        let headed = heads.iter().zip(&*jobs).map(|(head, job)| (&head[..], job.message));
        let challenges = self.scalars_of(headed);
        for (lane, job) in jobs.iter_mut().enumerate() {
            let scalar = challenges[lane].multiply_add(job.key.scalar(), &nonces[lane]);
            *job.signature = joined(&points[lane], &scalar.to_bytes());
            job.outcome = Outcome::Done;
        }
        nonces.iter_mut().for_each(Scalar::wipe);
        wipe(nonce_bytes.as_flattened_mut());
    }

    fn verify(&self, jobs: &mut [VerifyJob<'_>]) {
        let count = jobs.len();
        let mut scalars = [[0; 32]; LANES_MAX];
        let mut heads = [[0; 64]; LANES_MAX];
        let mut in_range = [false; LANES_MAX];
        for (lane, job) in jobs.iter().enumerate() {
            let (point, scalar) = split(job.signature);
            if let Some(scalar) = Scalar::from_canonical(scalar) {
                scalars[lane] = scalar.to_bytes();
                in_range[lane] = true;
            }
            heads[lane] = joined(point, job.public);
        }
        let headed = heads.iter().zip(&*jobs).map(|(head, job)| (&head[..], job.message));
        let challenges = self.scalars_of(headed).map(Scalar::to_bytes);
        let publics: [&[u8; 32]; LANES_MAX] =
            std::array::from_fn(|lane| jobs.get(lane).unwrap_or(&jobs[0]).public);
        let mut points = [[0; 32]; LANES_MAX];
        let is_point = in_lanes!(self.choice, |room, L| curve25519::ed25519_difference::<L>(
            room,
            &publics[..count],
            &scalars.each_ref()[..count],
            &challenges.each_ref()[..count],
            &mut points[..count]
        ));
        for (lane, job) in jobs.iter_mut().enumerate() {
            let (point, _) = split(job.signature);
            let good = in_range[lane] && is_point.declassify(lane) && points[lane] == *point;
            job.outcome = if good { Outcome::Done } else { Outcome::Rejected };
        }
    }

    /// Encodes the multiples of the base point.
    fn multiply_base(&self, scalars: &[[u8; 32]], points: &mut [[u8; 32]]) {
        let scalars: [&[u8; 32]; LANES_MAX] =
            std::array::from_fn(|lane| scalars.get(lane).unwrap_or(&scalars[0]));
        in_lanes!(self.choice, |room, L| {
            curve25519::ed25519_base::<L>(room, &scalars[..points.len()], points);
        });
    }

    /// SHA-512 of each message behind its head, as a scalar: as many at a time as there are lanes.
    /// The others are zero.
    fn scalars_of<'a>(
        &self,
        messages: impl ExactSizeIterator<Item = (&'a [u8], &'a [u8])>,
    ) -> [Scalar; LANES_MAX] {
        let state = self.hash.initial();
        let (mut scalars, count) = ([Scalar::default(); LANES_MAX], messages.len());
        let mut digests = [Digest::default(); LANES_MAX];
        self.hash.run(messages.zip(&mut digests).map(|((head, message), digest)| digest::Job {
            state,
            outer: None,
            head,
            message,
            digest,
        }));
        for (scalar, digest) in scalars.iter_mut().zip(&mut digests[..count]) {
            *scalar = Scalar::from_wide(whole(digest));
            digest.wipe();
        }
        scalars
    }
}

/// The bytes of a digest of SHA-512.
fn whole(digest: &Digest) -> &[u8; 64] {
    digest.as_ref().try_into().expect("the digest of SHA-512 has 64 bytes")
}

/// The halves of a signature, or of a digest.
fn split(bytes: &[u8; 64]) -> (&[u8; 32], &[u8; 32]) {
    let (halves, _) = bytes.as_chunks();
    (&halves[0], &halves[1])
}

/// Two halves, one behind the other.
fn joined(first: &[u8; 32], second: &[u8; 32]) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[..32].copy_from_slice(first);
    bytes[32..].copy_from_slice(second);
    bytes
}
