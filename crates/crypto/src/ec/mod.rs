//! Key generation, ECDH and ECDSA on P-256 and P-384 (FIPS 186-5, SP 800-56A): many jobs at once.
//!
//! [`Ec::choose`] picks the widest room that machine and policy leave open, once; a batch then
//! fills its lanes with independent jobs, each with a key of its own. Time and memory accesses
//! depend on no secret. Nothing is random in here: whoever signs brings entropy, and should that
//! ever repeat, the nonces of two messages still differ, because private key and digest are hashed
//! with it. A point is confirmed to lie on the curve before anything of it leaves, and a signature
//! by a second way to it.
//!
//! # Examples
//!
//! ```
//! use widelane_crypto::ec::{Curve, Ec, Outcome, PrivateKey, SignJob, encoding};
//!
//! fn sign(ec: &Ec, key: &PrivateKey, digest: &[u8], entropy: &[u8; 32]) -> Option<Vec<u8>> {
//!     let mut signature = vec![0; 2 * key.curve().bytes()];
//!     let mut job = SignJob::new(key, digest, entropy, &mut signature);
//!     ec.sign_batch(std::slice::from_mut(&mut job));
//!     let done = job.outcome == Outcome::Done;
//!     done.then(|| encoding::signature_to_der(&signature))
//! }
//! ```

#[macro_use]
mod curve;

mod batch;
pub mod encoding;
mod key;

use widelane_cpu::{Policy, Room};
pub use widelane_kernels::weierstrass::Numbers;

use crate::choice::Choice;
use crate::digest::{Algorithm, Hash};
pub use curve::Curve;
pub use key::{KeyError, PrivateKey, PublicKey, is_point};

/// The rooms that curves have, best first.
pub const ROOMS: &[Room] = Choice::ROOMS;

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Outcome {
    /// Not executed yet.
    #[default]
    Pending,
    /// The output is the result, or the signature is good.
    Done,
    /// A slice has not the length that the curve wants, or the keys are on different curves. An
    /// output of a wrong length is left as it is.
    Mismatched,
    /// The signature is not that of this digest and this key.
    Rejected,
    /// The result of a private operation failed its check: a fault in the machine, or a damaged
    /// key. Nothing has left; try another path.
    FaultDetected,
}

/// One public key to be made of a private one.
pub struct GenerateJob<'a> {
    /// The private key.
    pub private: &'a PrivateKey,
    /// Where the public key goes, as 04 || x || y; zeros unless the outcome is [`Outcome::Done`].
    pub public: &'a mut [u8],
    /// What became of the job.
    pub outcome: Outcome,
}

/// One shared secret to be derived.
pub struct DeriveJob<'a> {
    /// Our private key.
    pub private: &'a PrivateKey,
    /// The peer's public key, on the same curve.
    pub peer: &'a PublicKey,
    /// Where the shared secret goes, an x coordinate; zeros unless the outcome is
    /// [`Outcome::Done`].
    pub shared: &'a mut [u8],
    /// What became of the job.
    pub outcome: Outcome,
}

/// One digest to be signed.
pub struct SignJob<'a> {
    /// The private key.
    pub key: &'a PrivateKey,
    /// The digest. What is longer than the order of the curve is cut off.
    pub digest: &'a [u8],
    /// Fresh random bytes.
    pub entropy: &'a [u8; 32],
    /// Where the signature goes, as r || s; zeros unless the outcome is [`Outcome::Done`].
    pub signature: &'a mut [u8],
    /// What became of the job.
    pub outcome: Outcome,
}

/// One signature to be verified.
pub struct VerifyJob<'a> {
    /// The public key.
    pub key: &'a PublicKey,
    /// The digest. What is longer than the order of the curve is cut off.
    pub digest: &'a [u8],
    /// The signature, as r || s.
    pub signature: &'a [u8],
    /// [`Outcome::Done`] if the signature is good.
    pub outcome: Outcome,
}

impl<'a> GenerateJob<'a> {
    /// A job not yet executed.
    pub fn new(private: &'a PrivateKey, public: &'a mut [u8]) -> Self {
        GenerateJob { private, public, outcome: Outcome::Pending }
    }
}

impl<'a> DeriveJob<'a> {
    /// A job not yet executed.
    pub fn new(private: &'a PrivateKey, peer: &'a PublicKey, shared: &'a mut [u8]) -> Self {
        DeriveJob { private, peer, shared, outcome: Outcome::Pending }
    }
}

impl<'a> SignJob<'a> {
    /// A job not yet executed.
    pub fn new(
        key: &'a PrivateKey,
        digest: &'a [u8],
        entropy: &'a [u8; 32],
        signature: &'a mut [u8],
    ) -> Self {
        SignJob { key, digest, entropy, signature, outcome: Outcome::Pending }
    }
}

impl<'a> VerifyJob<'a> {
    /// A job not yet executed.
    pub fn new(key: &'a PublicKey, digest: &'a [u8], signature: &'a [u8]) -> Self {
        VerifyJob { key, digest, signature, outcome: Outcome::Pending }
    }
}

/// Elliptic curves in the room chosen for them.
#[derive(Clone, Copy, Debug)]
pub struct Ec {
    choice: Choice,
    /// Whether all lanes work on one signature at a time.
    signs_alone: bool,
    /// What nonces are made with.
    hash: Hash,
}

/// The result and the time of a job do not depend on the others. A batch costs the same for one job
/// as for [`lanes`](Self::lanes) of them; more jobs, or jobs on several curves, make several
/// batches, each of which uses up to 64 KiB of stack.
impl Ec {
    /// Chooses the widest room that the machine has and `policy` leaves open.
    #[must_use]
    pub fn choose(policy: &Policy) -> Self {
        Self::with_a_lane_each(Choice::new(policy), policy)
    }

    /// Chooses the room in which a single job costs least: the narrowest one with several lanes,
    /// since a room takes as long for one job as for all its lanes.
    #[must_use]
    pub fn for_one(policy: &Policy) -> Self {
        Self::with_a_lane_each(Choice::for_one(policy), policy)
    }

    /// The same for signatures only: all lanes work on one, where there are several.
    #[must_use]
    pub fn sign_for_one(policy: &Policy) -> Self {
        let for_one = Self::for_one(policy);
        Ec { signs_alone: for_one.lanes() > 1, ..for_one }
    }

    /// One for each room with several lanes that the machine has and `policy` leaves open, those
    /// with the fewest lanes first: who has several jobs can choose the one that costs least.
    #[must_use]
    pub fn kernels(policy: &Policy) -> Vec<Self> {
        let kernel = |choice| Self::with_a_lane_each(choice, policy);
        Choice::with_lanes(policy).map(kernel).collect()
    }

    /// The same for signatures only, which have one kernel more: in the narrowest of these rooms
    /// one whose lanes share a signature, and which so takes less time for a single one.
    #[must_use]
    pub fn sign_kernels(policy: &Policy) -> Vec<Self> {
        let kernels = Self::kernels(policy);
        let alone = kernels.first().map(|kernel| Ec { signs_alone: true, ..*kernel });
        alone.into_iter().chain(kernels).collect()
    }

    fn with_a_lane_each(choice: Choice, policy: &Policy) -> Self {
        Ec { choice, signs_alone: false, hash: Hash::choose(Algorithm::Sha512, policy) }
    }

    /// The room chosen.
    #[must_use]
    pub fn room(&self) -> Room {
        self.choice.room()
    }

    /// How many jobs a full batch has; of a kernel whose lanes share a signature, one.
    #[must_use]
    pub fn lanes(&self) -> usize {
        if self.signs_alone { 1 } else { self.choice.lanes() }
    }

    /// Makes public keys.
    pub fn generate_batch(&self, jobs: &mut [GenerateJob<'_>]) {
        in_lanes!(self.choice, |room, L| batch::generate::<L>(room, jobs));
    }

    /// Derives shared secrets.
    pub fn derive_batch(&self, jobs: &mut [DeriveJob<'_>]) {
        in_lanes!(self.choice, |room, L| batch::derive::<L>(room, jobs));
    }

    /// Signs digests by ECDSA.
    ///
    /// The nonce is SHA-512(private key || entropy || 0 || digest) modulo the order of the curve.
    pub fn sign_batch(&self, jobs: &mut [SignJob<'_>]) {
        in_lanes!(self.choice, |room, L| {
            if self.signs_alone {
                batch::sign_alone::<L>(room, &self.hash, jobs);
            } else {
                batch::sign::<L>(room, &self.hash, jobs);
            }
        });
    }

    /// A nonce for a signature that is made elsewhere, which must be verified before it leaves;
    /// nothing if there is none in these bytes of entropy, once in 2³² times.
    ///
    /// It is SHA-512(private key || entropy || 1 || digest), cut to the length of the curve's
    /// order, if that is below the order: never one of [`sign_batch`](Self::sign_batch).
    #[must_use]
    pub fn nonce(&self, key: &PrivateKey, digest: &[u8], entropy: &[u8; 32]) -> Option<PrivateKey> {
        batch::nonce(&self.hash, key, digest, entropy)
    }

    /// Verifies signatures of ECDSA. Time depends on nothing but how many there are of each curve.
    pub fn verify_batch(&self, jobs: &mut [VerifyJob<'_>]) {
        in_lanes!(self.choice, |room, L| batch::verify::<L>(room, jobs));
    }
}
