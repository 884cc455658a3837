//! Key agreement on curve25519 (RFC 7748): many jobs at once, each with a key of its own.
//!
//! [`X25519::choose`] picks the widest room that machine and policy leave open, once; a batch then
//! fills its lanes, and a job that is left over has a kernel of its own. Time and memory accesses
//! depend on no secret, and on no public key either.
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

use widelane_cpu::{Adx, Policy, Room};
use widelane_kernels::curve25519;
use widelane_kernels::lanes::LaneMask;
use widelane_secret::stack::{kib, wiped};
use widelane_secret::wipe;

use crate::choice::{Choice, LANES_MAX, Wide};

/// Words of stack that a batch on curve25519 takes at most.
pub(crate) const STACK: usize = kib(24);

/// The same of one job in general-purpose registers.
const ONE_JOB_STACK: usize = kib(3);

/// The point whose multiples are public keys (RFC 7748 section 4.1).
const BASE_POINT: [u8; 32] = {
    let mut bytes = [0; 32];
    bytes[0] = 9;
    bytes
};

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
    /// The room of batches with a lane for each job.
    choice: Choice,
    derive: Derivation,
}

/// How derivations are executed.
#[derive(Clone, Copy, Debug)]
enum Derivation {
    /// A lane for each job, and otherwise where a job is alone, if it shall.
    LaneEach(Option<Few>),
    /// Few at a time.
    Few(Few),
}

/// How very few derivations are executed.
#[derive(Clone, Copy, Debug)]
enum Few {
    /// [`QUAD`](curve25519::QUAD) lanes for each.
    Quad(Wide),
    /// One after another.
    One(Adx),
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
    /// The rooms there are, best first.
    pub const ROOMS: &'static [Room] = &{
        let mut rooms = [Room::Portable; Choice::ROOMS.len() + 1];
        let (wide, narrow) = rooms.split_at_mut(Choice::WIDE_ROOMS.len());
        wide.copy_from_slice(Choice::WIDE_ROOMS);
        narrow[0] = Room::Adx;
        rooms
    };

    /// Chooses the widest room that the machine has and `policy` leaves open.
    #[must_use]
    pub fn choose(policy: &Policy) -> Self {
        let (choice, few) = (Choice::new(policy), Few::open(policy).next());
        let derive = match few {
            Some(few) if choice.lanes() == 1 => Derivation::Few(few),
            _ => Derivation::LaneEach(few),
        };
        X25519 { choice, derive }
    }

    /// Chooses where a single key generation costs least: the first of [`kernels`](Self::kernels).
    #[must_use]
    pub fn for_one(policy: &Policy) -> Self {
        Self::kernels(policy).into_iter().next().unwrap_or_else(|| Self::choose(policy))
    }

    /// The same for derivations: the first of [`derive_kernels`](Self::derive_kernels).
    #[must_use]
    pub fn derive_for_one(policy: &Policy) -> Self {
        Self::derive_kernels(policy).into_iter().next().unwrap_or_else(|| Self::choose(policy))
    }

    /// One for each room with several lanes that the machine has and `policy` leaves open, those
    /// with the fewest lanes first: who has several jobs can choose the one that costs least. Where
    /// there is none, one for a single job.
    #[must_use]
    pub fn kernels(policy: &Policy) -> Vec<Self> {
        let kernels: Vec<_> = Self::with_lanes(policy).collect();
        if kernels.is_empty() { Self::few(policy).collect() } else { kernels }
    }

    /// The same for derivations only, which have kernels for very few jobs besides: in the
    /// narrowest room with lanes one that takes four of them for a job, and one in general-purpose
    /// registers, which costs a fifth more. The first one for one job is that which costs least.
    #[must_use]
    pub fn derive_kernels(policy: &Policy) -> Vec<Self> {
        let mut few: Vec<_> = Self::few(policy).collect();
        few.sort_by_key(Self::lanes);
        few.into_iter().chain(Self::with_lanes(policy)).collect()
    }

    fn few(policy: &Policy) -> impl Iterator<Item = Self> + use<> {
        let choice = Choice::for_one(policy);
        Few::open(policy).map(move |few| X25519 { choice, derive: Derivation::Few(few) })
    }

    /// One for each room with several lanes.
    fn with_lanes(policy: &Policy) -> impl Iterator<Item = Self> + use<> {
        let derive = Derivation::LaneEach(None);
        Choice::with_lanes(policy).map(move |choice| X25519 { choice, derive })
    }

    /// The room chosen.
    #[must_use]
    pub fn room(&self) -> Room {
        match self.derive {
            Derivation::Few(Few::One(_)) => Room::Adx,
            Derivation::LaneEach(_) | Derivation::Few(Few::Quad(_)) => self.choice.room(),
        }
    }

    /// How many derivations a full batch has.
    #[must_use]
    pub fn lanes(&self) -> usize {
        match self.derive {
            Derivation::LaneEach(_) => self.choice.lanes(),
            Derivation::Few(few) => few.jobs(),
        }
    }

    /// Makes public keys, each in a lane of its own.
    ///
    /// A batch costs the same for one job as for all the lanes of the room; more jobs make several
    /// batches.
    pub fn generate_batch(&self, jobs: &mut [GenerateJob<'_>]) {
        if let Derivation::Few(Few::One(room)) = self.derive {
            for GenerateJob { private, public } in jobs {
                alone(room, private, &BASE_POINT, public);
            }
            return;
        }
        for jobs in jobs.chunks_mut(self.choice.lanes()) {
            wiped::<STACK, _>(|| self.generate(jobs));
        }
    }

    /// Derives shared secrets and stores what became of each job.
    ///
    /// A batch costs the same for one job as for [`lanes`](Self::lanes) of them; more jobs make
    /// several batches.
    pub fn derive_batch(&self, jobs: &mut [DeriveJob<'_>]) {
        for jobs in jobs.chunks_mut(self.lanes()) {
            match self.derive {
                Derivation::Few(few) | Derivation::LaneEach(Some(few))
                    if jobs.len() <= few.worthwhile() =>
                {
                    jobs.chunks_mut(few.jobs()).for_each(|jobs| few.derive(jobs));
                }
                _ => wiped::<STACK, _>(|| self.derive_in_lanes(jobs)),
            }
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

    fn derive_in_lanes(&self, jobs: &mut [DeriveJob<'_>]) {
        derive(jobs, |scalars, points, results| {
            in_lanes!(self.choice, |room, L| {
                curve25519::x25519::<L>(room, scalars, points, results)
            })
        });
    }
}

impl Few {
    /// Those that machine and policy have, that which costs least first.
    fn open(policy: &Policy) -> impl Iterator<Item = Self> + use<> {
        let quad = Wide::narrowest(policy).map(Few::Quad);
        quad.into_iter().chain(Adx::enter(policy).map(Few::One))
    }

    /// Up to how many jobs cost less this way, one group after another, than with a lane each.
    fn worthwhile(self) -> usize {
        match self {
            Few::Quad(Wide::Fma256(_)) => 2,
            _ => self.jobs(),
        }
    }

    /// How many jobs are executed at once.
    fn jobs(self) -> usize {
        match self {
            Few::Quad(room) => room.lanes() / curve25519::QUAD,
            Few::One(_) => 1,
        }
    }

    /// Executes at most so many jobs.
    fn derive(self, jobs: &mut [DeriveJob<'_>]) {
        match self {
            Few::One(room) => {
                for job in jobs {
                    let zero = alone(room, job.private, job.peer, job.shared);
                    job.outcome = outcome(zero, 0);
                }
            }
            Few::Quad(room) => wiped::<STACK, _>(|| {
                derive(jobs, |scalars, points, results| {
                    in_wide!(room, |room, L| {
                        curve25519::x25519_quad::<L>(room, scalars, points, results)
                    })
                });
            }),
        }
    }
}

/// Executes jobs by a kernel that takes scalars, points and where the results go.
fn derive(
    jobs: &mut [DeriveJob<'_>],
    kernel: impl FnOnce(&[&[u8; 32]], &[&[u8; 32]], &mut [[u8; 32]]) -> LaneMask,
) {
    let count = jobs.len();
    let scalars = lanes_of(jobs, |job| job.private.as_bytes());
    let points = lanes_of(jobs, |job| job.peer);
    let mut results = [[0; 32]; LANES_MAX];
    let zero = kernel(&scalars[..count], &points[..count], &mut results[..count]);
    for (lane, (job, result)) in jobs.iter_mut().zip(results).enumerate() {
        *job.shared = result;
        job.outcome = outcome(zero, lane);
    }
}

/// X25519(`private`, `point`) in general-purpose registers, and in lane 0 whether it is zero.
fn alone(room: Adx, private: &PrivateKey, point: &[u8; 32], result: &mut [u8; 32]) -> LaneMask {
    wiped::<ONE_JOB_STACK, _>(|| curve25519::x25519_one(room, private.as_bytes(), point, result))
}

fn outcome(zero: LaneMask, lane: usize) -> Outcome {
    if zero.declassify(lane) { Outcome::ZeroSharedSecret } else { Outcome::Done }
}

/// One field of each job, the first one again where there is none.
fn lanes_of<'a, J>(
    jobs: &'a [J],
    field: impl Fn(&'a J) -> &'a [u8; 32],
) -> [&'a [u8; 32]; LANES_MAX] {
    std::array::from_fn(|lane| field(jobs.get(lane).unwrap_or(&jobs[0])))
}
