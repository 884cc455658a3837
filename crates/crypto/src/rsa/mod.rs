//! RSA private operations (RFC 8017) by CRT: one by one, and many at once with mixed keys.
//!
//! [`Rsa::choose`] picks the widest room that machine and policy leave open, once; a batch then
//! fills its lanes with independent jobs. Time and memory accesses depend on no secret, so there is
//! no blinding, and every result goes through the public operation before it leaves: a result that
//! fails that check would give the key away (Boneh, DeMillo and Lipton, 1997).
//!
//! # Examples
//!
//! Signing digests with PKCS #1 v1.5, as many at a time as the room has lanes:
//!
//! ```
//! use widelane_crypto::rsa::encoding::{DigestAlgorithm, EncodingError, pkcs1_sign_encode};
//! use widelane_crypto::rsa::{Outcome, PrivateJob, PrivateKey, Rsa};
//!
//! fn sign(
//!     rsa: &Rsa,
//!     key: &PrivateKey,
//!     digests: &[[u8; 32]],
//! ) -> Result<Vec<Option<Vec<u8>>>, EncodingError> {
//!     let mut encoded = vec![vec![0; key.size().bytes()]; digests.len()];
//!     for (digest, encoded) in digests.iter().zip(&mut encoded) {
//!         pkcs1_sign_encode(Some(DigestAlgorithm::Sha256), digest, encoded)?;
//!     }
//!     let mut signatures = encoded.clone();
//!     let mut jobs: Vec<_> = encoded
//!         .iter()
//!         .zip(&mut signatures)
//!         .map(|(input, output)| PrivateJob::new(key, input, output))
//!         .collect();
//!     rsa.private_batch(&mut jobs);
//!     let done = |job: &PrivateJob| (job.outcome == Outcome::Done).then(|| job.output.to_vec());
//!     Ok(jobs.iter().map(done).collect())
//! }
//! ```

pub mod encoding;
mod key;
mod lanes;
mod public;
mod single;

use widelane_cpu::{Policy, Room};
use widelane_kernels::lanes::Ifma512x8;
use widelane_kernels::mont::Batches;

use crate::choice::{Choice, Wide};

pub use key::{Components, KeyError, KeySize, PrivateKey};
pub use public::PublicKey;

/// How many kernels the rooms have together, at most: none has more than this one.
const KERNELS_MAX: usize = Wide::ROOMS.len() * Ifma512x8::KERNELS.len();

/// The rooms that RSA has, best first.
pub const ROOMS: &[Room] = Choice::ROOMS;

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Outcome {
    /// Not executed yet.
    #[default]
    Pending,
    /// The output is the result, and the public operation took it back to the input.
    Done,
    /// The input is not below the modulus, or input or output is not as long as the modulus. An
    /// output of another length is left as it is.
    InputOutOfRange,
    /// The public operation did not take the result back to the input: a hardware fault, or a
    /// damaged key. Nothing has left; try another path.
    FaultDetected,
}

/// One private operation: `output` = `input`^d mod n, big-endian and as long as the modulus.
pub struct PrivateJob<'a> {
    /// The key, which may differ from job to job.
    pub key: &'a PrivateKey,
    /// What is raised to the private exponent: an encoded message or a ciphertext.
    pub input: &'a [u8],
    /// Where the result goes; zeros unless the outcome is [`Outcome::Done`].
    pub output: &'a mut [u8],
    /// What became of the job.
    pub outcome: Outcome,
}

/// RSA in the rooms open for it.
#[derive(Clone, Copy, Debug)]
pub struct Rsa {
    /// The kernels of the rooms chosen, those for fewer jobs first; of two for as many jobs that of
    /// the narrower room.
    kernels: [Option<Kernel>; KERNELS_MAX],
}

/// One kernel for the private operation: it costs the same for one job as for as many as it has
/// lanes. [`Rsa::kernels`] has those that machine and policy leave open.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    room: Wide,
    lanes: usize,
}

impl<'a> PrivateJob<'a> {
    /// A job not yet executed.
    pub fn new(key: &'a PrivateKey, input: &'a [u8], output: &'a mut [u8]) -> Self {
        PrivateJob { key, input, output, outcome: Outcome::Pending }
    }
}

impl Rsa {
    /// Chooses the rooms that the machine has and `policy` leaves open: those with IFMA, or
    /// otherwise that without.
    #[must_use]
    pub fn choose(policy: &Policy) -> Self {
        let mut kernels = Vec::new();
        for room in Wide::counting(policy) {
            let lanes_of_kernels = in_wide!(room, |_room, L| L::KERNELS);
            kernels.extend(lanes_of_kernels.iter().map(|&lanes| Kernel { room, lanes }));
        }
        assert!(kernels.len() <= KERNELS_MAX, "a room has more kernels than `KERNELS_MAX` counts");
        kernels.sort_by_key(|kernel| kernel.lanes);
        Rsa { kernels: std::array::from_fn(|index| kernels.get(index).copied()) }
    }

    /// The best room of those chosen.
    #[must_use]
    pub fn room(&self) -> Room {
        self.each_kernel().last().map_or(Room::Portable, |kernel| kernel.room())
    }

    /// How many jobs a full batch has.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.each_kernel().last().map_or(1, |kernel| kernel.lanes)
    }

    /// Executes the jobs and stores what became of each.
    ///
    /// The result and the time of a job do not depend on the others. The jobs go to the kernel with
    /// the fewest lanes that hold them all, or in full batches to that with the most; jobs of
    /// several key sizes make several batches. Uses up to 160 KiB of stack.
    pub fn private_batch(&self, jobs: &mut [PrivateJob<'_>]) {
        let holds = |kernel: &Kernel| kernel.lanes >= jobs.len();
        if let Some(kernel) = self.each_kernel().find(holds).or(self.each_kernel().last()) {
            return kernel.private_batch(jobs);
        }
        for job in jobs {
            job.outcome = single::private(job.key, job.input, job.output);
        }
    }

    /// The kernels of the rooms chosen, those for fewer jobs first; none in the portable room.
    #[must_use]
    pub fn kernels(&self) -> Vec<Kernel> {
        self.each_kernel().collect()
    }

    fn each_kernel(&self) -> impl Iterator<Item = Kernel> + use<> {
        self.kernels.into_iter().flatten()
    }
}

impl Kernel {
    /// The room of the kernel.
    #[must_use]
    pub fn room(&self) -> Room {
        self.room.room()
    }

    /// How many jobs cost no more than one.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    /// Executes the jobs as [`Rsa::private_batch`] does, all of them by this kernel: more jobs than
    /// [`lanes`](Self::lanes), or jobs of several key sizes, make several batches.
    pub fn private_batch(&self, jobs: &mut [PrivateJob<'_>]) {
        in_wide!(self.room, |room, L| lanes::private::<L>(room, self.lanes, jobs))
    }

    /// Whether `result` is what the private operation makes of `input`, by the public operation.
    /// Uses up to 32 KiB of stack.
    ///
    /// Secrets: the result. The time tells whether it is below the modulus, nothing else.
    #[must_use]
    pub fn confirms(&self, key: &PrivateKey, input: &[u8], result: &[u8]) -> bool {
        in_wide!(self.room, |room, L| lanes::confirms::<L>(room, key, input, result))
    }
}

/// Whether `result` is what the private operation makes of `input`, as [`Kernel::confirms`] says
/// it, in the portable room. Uses up to 72 KiB of stack.
#[must_use]
pub fn confirms_one(key: &PrivateKey, input: &[u8], result: &[u8]) -> bool {
    single::confirms(key, input, result)
}
