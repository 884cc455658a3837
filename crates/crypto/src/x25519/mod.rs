//! Key agreement on curve25519 (RFC 7748): many jobs at once, each with a key of its own.
//!
//! [`X25519::choose`] picks the widest room that machine and policy leave open, once; a batch then
//! fills its lanes. Time and memory accesses depend on no secret, and on no public key either.
//!
//! # Examples
//!
//! ```
//! use widelane_cpu::Policy;
//! use widelane_crypto::x25519::{DeriveJob, GenerateJob, Outcome, PrivateKey, X25519};
//!
//! let x25519 = X25519::choose(&Policy::open());
//! let keys = [PrivateKey::from_bytes(&[1; 32]), PrivateKey::from_bytes(&[2; 32])];
//! let mut publics = [[0; 32]; 2];
//! let mut jobs: Vec<_> =
//!     keys.iter().zip(&mut publics).map(|(key, public)| GenerateJob::new(key, public)).collect();
//! x25519.generate_batch(&mut jobs);
//!
//! let mut secrets = [[0; 32]; 2];
//! let [mine, theirs] = &mut secrets;
//! let mut jobs = [
//!     DeriveJob::new(&keys[0], &publics[1], mine),
//!     DeriveJob::new(&keys[1], &publics[0], theirs),
//! ];
//! x25519.derive_batch(&mut jobs);
//! assert!(jobs.iter().all(|job| job.outcome == Outcome::Done));
//! assert_eq!(secrets[0], secrets[1]);
//! ```

use std::fmt;

use widelane_cpu::{Policy, Room};
use widelane_kernels::curve25519;
use widelane_secret::wipe;

use crate::choice::{Choice, LANES_MAX, Wide};
use crate::stack::{CURVE25519_BYTES, scrubbed};

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Outcome {
    /// Not executed yet.
    #[default]
    Pending,
    /// The shared secret is there.
    Done,
    /// The peer's public key is a point of small order: the secret would be zero whatever the
    /// private key (RFC 7748 section 6.1).
    ZeroSharedSecret,
}

/// A private key: any 32 bytes; wiped when dropped.
#[derive(Clone)]
pub struct PrivateKey {
    /// On the heap, so that moving a key leaves no copies behind.
    bytes: Box<[u8; 32]>,
}

/// One key generation: `public` = X25519(`private`, 9).
pub struct GenerateJob<'a> {
    /// The private key.
    pub private: &'a PrivateKey,
    /// Where the public key goes.
    pub public: &'a mut [u8; 32],
}

/// One key agreement: `shared` = X25519(`private`, `peer`).
pub struct DeriveJob<'a> {
    /// The private key.
    pub private: &'a PrivateKey,
    /// The peer's public key.
    pub peer: &'a [u8; 32],
    /// Where the shared secret goes; zeros unless the outcome is [`Outcome::Done`].
    pub shared: &'a mut [u8; 32],
    /// What became of the job.
    pub outcome: Outcome,
}

/// X25519 in the room chosen for it.
#[derive(Clone, Copy, Debug)]
pub struct X25519 {
    choice: Choice,
    /// The room where a derivation takes [`QUAD`](curve25519::QUAD) lanes, if it shall.
    quad: Option<Wide>,
}

impl PrivateKey {
    /// Takes over a private key; bits that RFC 7748 fixes may have any value.
    pub fn from_bytes(bytes: &[u8; 32]) -> Self {
        PrivateKey { bytes: Box::new(*bytes) }
    }

    /// The bytes of the key, as they came.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.bytes
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PrivateKey").finish_non_exhaustive()
    }
}

impl Drop for PrivateKey {
    fn drop(&mut self) {
        wipe(&mut *self.bytes);
    }
}

impl<'a> GenerateJob<'a> {
    /// A job not yet executed.
    pub fn new(private: &'a PrivateKey, public: &'a mut [u8; 32]) -> Self {
        GenerateJob { private, public }
    }
}

impl<'a> DeriveJob<'a> {
    /// A job not yet executed.
    pub fn new(private: &'a PrivateKey, peer: &'a [u8; 32], shared: &'a mut [u8; 32]) -> Self {
        DeriveJob { private, peer, shared, outcome: Outcome::Pending }
    }
}

impl X25519 {
    /// Chooses the widest room that the machine has and `policy` leaves open.
    #[must_use]
    pub fn choose(policy: &Policy) -> Self {
        Self::with_a_lane_each(Choice::new(policy))
    }

    /// One for each room with several lanes that the machine has and `policy` leaves open, those
    /// with the fewest lanes first: who has several jobs can choose the one that costs least.
    #[must_use]
    pub fn kernels(policy: &Policy) -> Vec<Self> {
        Choice::with_lanes(policy).map(Self::with_a_lane_each).collect()
    }

    /// The same for derivations only, which have one kernel more: in the narrowest of these rooms
    /// one that takes four lanes for a job, and so costs less for very few jobs.
    #[must_use]
    pub fn derive_kernels(policy: &Policy) -> Vec<Self> {
        let narrowest = Wide::open(policy).last();
        let few = Choice::with_lanes(policy).next().zip(narrowest);
        let few = few.map(|(choice, room)| X25519 { choice, quad: Some(room) });
        few.into_iter().chain(Self::kernels(policy)).collect()
    }

    fn with_a_lane_each(choice: Choice) -> Self {
        X25519 { choice, quad: None }
    }

    /// The room chosen.
    #[must_use]
    pub fn room(&self) -> Room {
        self.choice.room()
    }

    /// How many derivations a full batch has.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.quad.map_or(self.choice.lanes(), |room| room.lanes() / curve25519::QUAD)
    }

    /// Makes public keys, each in a lane of its own.
    ///
    /// A batch costs the same for one job as for all the lanes of the room; more jobs make several
    /// batches.
    pub fn generate_batch(&self, jobs: &mut [GenerateJob<'_>]) {
        for jobs in jobs.chunks_mut(self.choice.lanes()) {
            scrubbed::<CURVE25519_BYTES, _>(|| self.generate(jobs));
        }
    }

    /// Derives shared secrets and stores what became of each job.
    ///
    /// A batch costs the same for one job as for [`lanes`](Self::lanes) of them; more jobs make
    /// several batches.
    pub fn derive_batch(&self, jobs: &mut [DeriveJob<'_>]) {
        for jobs in jobs.chunks_mut(self.lanes()) {
            scrubbed::<CURVE25519_BYTES, _>(|| self.derive(jobs));
        }
    }

    fn generate(&self, jobs: &mut [GenerateJob<'_>]) {
        let count = jobs.len();
        let scalars = lanes_of(jobs, |job| job.private.as_bytes());
        let mut results = [[0; 32]; LANES_MAX];
        in_lanes!(self.choice, |room, L| {
            curve25519::x25519_base::<L>(room, &scalars[..count], &mut results[..count]);
        });
        for (job, result) in jobs.iter_mut().zip(results) {
            *job.public = result;
        }
    }

    fn derive(&self, jobs: &mut [DeriveJob<'_>]) {
        let count = jobs.len();
        let scalars = lanes_of(jobs, |job| job.private.as_bytes());
        let points = lanes_of(jobs, |job| job.peer);
        let mut results = [[0; 32]; LANES_MAX];
        let (scalars, points) = (&scalars[..count], &points[..count]);
        let results_of_jobs = &mut results[..count];
        let zero = match self.quad {
            Some(room) => in_wide!(room, |room, L| {
                curve25519::x25519_quad::<L>(room, scalars, points, results_of_jobs)
            }),
            None => in_lanes!(self.choice, |room, L| {
                curve25519::x25519::<L>(room, scalars, points, results_of_jobs)
            }),
        };
        for (lane, (job, result)) in jobs.iter_mut().zip(results).enumerate() {
            *job.shared = result;
            job.outcome =
                if zero.declassify(lane) { Outcome::ZeroSharedSecret } else { Outcome::Done };
        }
    }
}

/// One field of each job, the first one again where there is none.
fn lanes_of<'a, J>(
    jobs: &'a [J],
    field: impl Fn(&'a J) -> &'a [u8; 32],
) -> [&'a [u8; 32]; LANES_MAX] {
    std::array::from_fn(|lane| field(jobs.get(lane).unwrap_or(&jobs[0])))
}
