//! ML-KEM (FIPS 203): many jobs at once, each with a key of its own.
//!
//! [`MlKem::choose`] picks the widest room that machine and policy leave open, once; a batch then
//! fills its lanes. Time and memory accesses depend on no secret; they do depend on the seeds of
//! matrices in encapsulation keys, which everybody knows (`docs/design/ml-kem.md`).
//!
//! # Examples
//!
//! ```
//! use widelane_cpu::Policy;
//! use widelane_crypto::mlkem::{
//!     DecapsulateJob, EncapsulateJob, MlKem, Outcome, ParameterSet, Workspace,
//! };
//!
//! let ml_kem = MlKem::choose(ParameterSet::MlKem768, &Policy::open());
//! let mut workspace = Workspace::new();
//! // These bytes have to be random.
//! let keys = ml_kem.generate_batch(&mut workspace, &[&[1; 64], &[2; 64]]);
//!
//! let mut ciphertext = [0; 1088];
//! let (mut mine, mut theirs) = ([0; 32], [0; 32]);
//! let message = [3; 32];
//! let mut jobs =
//!     [EncapsulateJob::new(keys[0].encapsulation_key(), &message, &mut ciphertext, &mut theirs)];
//! ml_kem.encapsulate_batch(&mut workspace, &mut jobs);
//! assert_eq!(jobs[0].outcome, Outcome::Done);
//!
//! let mut jobs = [DecapsulateJob::new(&keys[0], &ciphertext, &mut mine)];
//! ml_kem.decapsulate_batch(&mut workspace, &mut jobs);
//! assert_eq!(jobs[0].outcome, Outcome::Done);
//! assert_eq!(mine, theirs);
//! ```

use std::fmt;

use thiserror::Error;
use widelane_cpu::{Policy, Room, choice};
use widelane_kernels::coefficients::Coefficients;
use widelane_kernels::mlkem::{
    self, BUFFERS, Buffer, ExpandedSeed, GROUPS, Group, JOBS_MAX, ML_KEM_512, ML_KEM_768,
    ML_KEM_1024, Parameters,
};
use widelane_secret::stack::{kib, wiped};
use widelane_secret::{Mask, wipe};

/// Bytes of a seed: those that FIPS 203 names d, and then z.
pub const SEED_BYTES: usize = 64;

/// Bytes of a shared secret, and of the random bytes that it is made from.
pub const SHARED_BYTES: usize = 32;

/// The rooms that ML-KEM has, best first.
pub const ROOMS: &[Room] = Choice::ROOMS;

/// Words of stack that a batch takes at most.
const STACK: usize = kib(13);

/// A parameter set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ParameterSet {
    /// ML-KEM-512.
    MlKem512,
    /// ML-KEM-768.
    MlKem768,
    /// ML-KEM-1024.
    MlKem1024,
}

impl ParameterSet {
    /// Every parameter set.
    pub const ALL: [ParameterSet; 3] =
        [ParameterSet::MlKem512, ParameterSet::MlKem768, ParameterSet::MlKem1024];

    const fn parameters(self) -> &'static Parameters {
        match self {
            ParameterSet::MlKem512 => &ML_KEM_512,
            ParameterSet::MlKem768 => &ML_KEM_768,
            ParameterSet::MlKem1024 => &ML_KEM_1024,
        }
    }

    /// Bytes of an encapsulation key.
    pub const fn encapsulation_key_bytes(self) -> usize {
        self.parameters().encapsulation_key_bytes()
    }

    /// Whether bytes are an encapsulation key (FIPS 203, 7.2): as many as one has, and with every
    /// coefficient below q.
    #[must_use]
    pub fn is_encapsulation_key(self, bytes: &[u8]) -> bool {
        bytes.len() == self.encapsulation_key_bytes()
            && are_reduced(&bytes[..bytes.len() - MATRIX_SEED_BYTES])
    }

    /// Whether every coefficient of the secret vector of a decapsulation key is below q. Those of a
    /// generated key are; FIPS 203 does not ask whether those of an imported one are.
    ///
    /// Secrets: the bytes. The time tells nothing but their number.
    #[must_use]
    pub fn is_reduced_decapsulation_key(self, bytes: &[u8]) -> bool {
        bytes.len() == self.decapsulation_key_bytes()
            && are_reduced(&bytes[..self.parameters().encapsulation_key_offset()])
    }

    /// Bytes of a decapsulation key, in its expanded form.
    pub const fn decapsulation_key_bytes(self) -> usize {
        self.parameters().decapsulation_key_bytes()
    }

    /// Bytes of a ciphertext.
    pub const fn ciphertext_bytes(self) -> usize {
        self.parameters().ciphertext_bytes()
    }
}

/// Whether numbers of 12 bits, packed, are all below q. The time depends on nothing but how many
/// there are.
fn are_reduced(bytes: &[u8]) -> bool {
    // Six bytes are four numbers: every second one, with twelve bits of room above it, twice.
    const NUMBERS: u64 = 0xfff | 0xfff << 24;
    const TO_CARRY: u64 = (4096 - Q) | (4096 - Q) << 24;
    const CARRIES: u64 = 1 << 12 | 1 << 36;
    let carried = bytes.as_chunks().0.iter().fold(0, |carried, [a, b, c, d, e, f]: &[u8; 6]| {
        let four = u64::from_le_bytes([*a, *b, *c, *d, *e, *f, 0, 0]);
        carried | ((four & NUMBERS) + TO_CARRY) | ((four >> 12 & NUMBERS) + TO_CARRY)
    });
    Mask::equal_bytes(&(carried & CARRIES).to_le_bytes(), &[0; 8]).declassify()
}

/// The modulus.
const Q: u64 = 3329;

/// Bytes of the seed of the matrix, which ends an encapsulation key.
const MATRIX_SEED_BYTES: usize = 32;

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Outcome {
    /// Not executed yet.
    #[default]
    Pending,
    /// The results are there.
    Done,
    /// The key or the ciphertext has another length than those of the parameter set; nothing was
    /// written.
    WrongLength,
    /// A coefficient of the encapsulation key is not below q (FIPS 203, 7.2); results are zeros.
    InvalidKey,
}

/// Why bytes are no decapsulation key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// They are too few or too many.
    #[error("a decapsulation key has {expected} bytes, not {actual}")]
    Length {
        /// Bytes of a key.
        expected: usize,
        /// Bytes that came.
        actual: usize,
    },
    /// The hash in the key is not that of the encapsulation key in it (FIPS 203, 7.3).
    #[error("the hash in the decapsulation key is not that of its encapsulation key")]
    Hash,
}

/// A decapsulation key, in its expanded form; wiped when dropped.
#[derive(Clone)]
pub struct DecapsulationKey {
    set: ParameterSet,
    /// On the heap, so that moving a key leaves no copies behind.
    bytes: Box<[u8]>,
}

impl DecapsulationKey {
    /// Takes over the bytes of a key that [`MlKem::generate_batch`] has made; nothing if they are
    /// too few or too many. No more is checked: for others there is [`MlKem::import`].
    pub fn from_generated(set: ParameterSet, bytes: &[u8]) -> Option<Self> {
        let is_whole = bytes.len() == set.decapsulation_key_bytes();
        is_whole.then(|| DecapsulationKey { set, bytes: bytes.into() })
    }

    /// The parameter set.
    pub fn parameter_set(&self) -> ParameterSet {
        self.set
    }

    /// The bytes of the key.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes of the encapsulation key in it.
    pub fn encapsulation_key(&self) -> &[u8] {
        let parameters = self.set.parameters();
        let begin = parameters.encapsulation_key_offset();
        &self.bytes[begin..][..parameters.encapsulation_key_bytes()]
    }
}

impl fmt::Debug for DecapsulationKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("DecapsulationKey").field("set", &self.set).finish_non_exhaustive()
    }
}

impl Drop for DecapsulationKey {
    fn drop(&mut self) {
        wipe(&mut self.bytes);
    }
}

/// One encapsulation.
pub struct EncapsulateJob<'a> {
    /// The peer's encapsulation key.
    pub key: &'a [u8],
    /// Random bytes that nobody else knows.
    pub message: &'a [u8; SHARED_BYTES],
    /// Where the ciphertext goes.
    pub ciphertext: &'a mut [u8],
    /// Where the shared secret goes.
    pub shared: &'a mut [u8; SHARED_BYTES],
    /// What became of the job.
    pub outcome: Outcome,
}

impl<'a> EncapsulateJob<'a> {
    /// A job not yet executed.
    pub fn new(
        key: &'a [u8],
        message: &'a [u8; SHARED_BYTES],
        ciphertext: &'a mut [u8],
        shared: &'a mut [u8; SHARED_BYTES],
    ) -> Self {
        EncapsulateJob { key, message, ciphertext, shared, outcome: Outcome::Pending }
    }
}

/// One decapsulation.
pub struct DecapsulateJob<'a> {
    /// The decapsulation key.
    pub key: &'a DecapsulationKey,
    /// The peer's ciphertext.
    pub ciphertext: &'a [u8],
    /// Where the shared secret goes: whether the ciphertext was good is not told.
    pub shared: &'a mut [u8; SHARED_BYTES],
    /// What became of the job.
    pub outcome: Outcome,
}

impl<'a> DecapsulateJob<'a> {
    /// A job not yet executed.
    pub fn new(
        key: &'a DecapsulationKey,
        ciphertext: &'a [u8],
        shared: &'a mut [u8; SHARED_BYTES],
    ) -> Self {
        DecapsulateJob { key, ciphertext, shared, outcome: Outcome::Pending }
    }
}

/// The memory that batches work in, some 100 KiB. It is for one batch at a time; whoever has many
/// batches keeps it. No batch leaves a secret there.
pub struct Workspace {
    groups: Box<[Group]>,
    buffers: Box<[Buffer]>,
}

impl Workspace {
    /// Memory for batches of any parameter set, in any room.
    pub fn new() -> Self {
        // Made where they are to be: they are too large for a stack.
        Workspace {
            groups: vec![Group::ZERO; GROUPS].into_boxed_slice(),
            buffers: vec![Buffer::ZERO; BUFFERS].into_boxed_slice(),
        }
    }

    /// The same; nothing where there is no memory for it.
    #[must_use]
    pub fn try_new() -> Option<Self> {
        let (mut groups, mut buffers) = (Vec::new(), Vec::new());
        groups.try_reserve_exact(GROUPS).ok()?;
        buffers.try_reserve_exact(BUFFERS).ok()?;
        groups.resize(GROUPS, Group::ZERO);
        buffers.resize(BUFFERS, Buffer::ZERO);
        Some(Workspace { groups: groups.into(), buffers: buffers.into() })
    }

    fn lend<C: Coefficients>(&mut self) -> mlkem::Workspace<'_, C> {
        let groups = self.groups.first_chunk_mut().expect("there are as many groups");
        let buffers = self.buffers.first_chunk_mut().expect("there are as many buffers");
        mlkem::Workspace::new(groups, buffers)
    }
}

impl Default for Workspace {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Workspace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Workspace").finish_non_exhaustive()
    }
}

choice! { $
    /// The room of ML-KEM.
    enum Choice by in_room {
        Vbmi512 => widelane_kernels::coefficients::Vbmi512Pairs,
        Avx512 => widelane_kernels::coefficients::Avx512Pairs,
        Avx2 => widelane_kernels::coefficients::Avx2Pairs,
        Portable => widelane_kernels::coefficients::PortablePairs
    }
}

/// ML-KEM of one parameter set, in the room chosen for it.
#[derive(Clone, Copy, Debug)]
pub struct MlKem {
    set: ParameterSet,
    choice: Choice,
}

impl MlKem {
    /// Chooses the widest room that the machine has and `policy` leaves open.
    #[must_use]
    pub fn choose(set: ParameterSet, policy: &Policy) -> Self {
        MlKem { set, choice: Choice::new(policy) }
    }

    /// The parameter set.
    pub fn parameter_set(&self) -> ParameterSet {
        self.set
    }

    /// The room chosen.
    #[must_use]
    pub fn room(&self) -> Room {
        self.choice.room()
    }

    /// How many jobs a full batch has. A batch of fewer costs less, though not in proportion.
    #[must_use]
    pub fn lanes(&self) -> usize {
        JOBS_MAX
    }

    /// Takes over a decapsulation key, in its expanded form, and checks it (FIPS 203, 7.3).
    ///
    /// # Errors
    ///
    /// See [`KeyError`].
    pub fn import(
        &self,
        workspace: &mut Workspace,
        bytes: &[u8],
    ) -> Result<DecapsulationKey, KeyError> {
        let expected = self.set.decapsulation_key_bytes();
        if bytes.len() != expected {
            return Err(KeyError::Length { expected, actual: bytes.len() });
        }
        let key = DecapsulationKey { set: self.set, bytes: bytes.into() };
        let parameters = self.set.parameters();
        let public = [key.encapsulation_key()];
        let digests = in_room!(self.choice, |room, C| mlkem::hash_keys(
            room,
            parameters,
            &mut workspace.lend::<C>(),
            &public
        ));
        let begin = parameters.encapsulation_key_offset() + parameters.encapsulation_key_bytes();
        let hash = &key.bytes[begin..][..digests[0].len()];
        if Mask::equal_bytes(hash, &digests[0]).declassify() {
            Ok(key)
        } else {
            Err(KeyError::Hash)
        }
    }

    /// Makes a key of each seed, which has to be random.
    pub fn generate_batch(
        &self,
        workspace: &mut Workspace,
        seeds: &[&[u8; SEED_BYTES]],
    ) -> Vec<DecapsulationKey> {
        let zeros = || vec![0; self.set.decapsulation_key_bytes()].into_boxed_slice();
        let mut keys: Vec<_> =
            seeds.iter().map(|_| DecapsulationKey { set: self.set, bytes: zeros() }).collect();
        for (seeds, keys) in seeds.chunks(JOBS_MAX).zip(keys.chunks_mut(JOBS_MAX)) {
            wiped::<STACK, _>(|| self.generate(workspace, seeds, keys));
        }
        keys
    }

    fn generate(
        &self,
        workspace: &mut Workspace,
        seeds: &[&[u8; SEED_BYTES]],
        keys: &mut [DecapsulationKey],
    ) {
        let parameters = self.set.parameters();
        let mut expanded = [ExpandedSeed::default(); JOBS_MAX];
        let firsts: Vec<_> =
            seeds.iter().map(|seed| seed.first_chunk().expect("half of a seed")).collect();
        in_room!(self.choice, |room, C| mlkem::expand(
            room,
            parameters,
            &mut workspace.lend::<C>(),
            &firsts,
            &mut expanded
        ));
        let mut jobs: Vec<_> = seeds
            .iter()
            .zip(&expanded)
            .zip(keys)
            .map(|((seed, expanded), key)| mlkem::GenerateJob {
                seed: expanded,
                rejection: seed.last_chunk().expect("half of a seed"),
                key: &mut key.bytes,
            })
            .collect();
        in_room!(self.choice, |room, C| mlkem::generate_vartime(
            room,
            parameters,
            &mut workspace.lend::<C>(),
            &mut jobs
        ));
        expanded.iter_mut().for_each(|seed| wipe(&mut seed.noise));
    }

    /// Encapsulates a shared secret for each key, and stores what became of each job.
    pub fn encapsulate_batch(&self, workspace: &mut Workspace, jobs: &mut [EncapsulateJob<'_>]) {
        for jobs in jobs.chunks_mut(JOBS_MAX) {
            wiped::<STACK, _>(|| self.encapsulate(workspace, jobs));
        }
    }

    fn encapsulate(&self, workspace: &mut Workspace, jobs: &mut [EncapsulateJob<'_>]) {
        let lengths = (self.set.encapsulation_key_bytes(), self.set.ciphertext_bytes());
        let mut lent = Vec::with_capacity(JOBS_MAX);
        let mut outcomes = Vec::with_capacity(JOBS_MAX);
        for job in jobs {
            job.outcome = Outcome::WrongLength;
            if (job.key.len(), job.ciphertext.len()) == lengths {
                lent.push(mlkem::EncapsulateJob {
                    key: job.key,
                    message: job.message,
                    ciphertext: job.ciphertext,
                    shared: job.shared,
                    is_key: true,
                });
                outcomes.push(&mut job.outcome);
            }
        }
        if lent.is_empty() {
            return;
        }
        let parameters = self.set.parameters();
        in_room!(self.choice, |room, C| mlkem::encapsulate_vartime(
            room,
            parameters,
            &mut workspace.lend::<C>(),
            &mut lent
        ));
        for (outcome, job) in outcomes.into_iter().zip(&lent) {
            *outcome = if job.is_key { Outcome::Done } else { Outcome::InvalidKey };
        }
    }

    /// Decapsulates shared secrets, and stores what became of each job.
    ///
    /// # Panics
    ///
    /// Panics if a key is one of another parameter set.
    pub fn decapsulate_batch(&self, workspace: &mut Workspace, jobs: &mut [DecapsulateJob<'_>]) {
        for jobs in jobs.chunks_mut(JOBS_MAX) {
            wiped::<STACK, _>(|| self.decapsulate(workspace, jobs));
        }
    }

    fn decapsulate(&self, workspace: &mut Workspace, jobs: &mut [DecapsulateJob<'_>]) {
        let mut lent = Vec::with_capacity(JOBS_MAX);
        for job in jobs {
            assert_eq!(job.key.set, self.set, "a key belongs to its parameter set");
            job.outcome = Outcome::WrongLength;
            if job.ciphertext.len() == self.set.ciphertext_bytes() {
                job.outcome = Outcome::Done;
                lent.push(mlkem::DecapsulateJob {
                    key: &job.key.bytes,
                    ciphertext: job.ciphertext,
                    shared: job.shared,
                });
            }
        }
        if !lent.is_empty() {
            let parameters = self.set.parameters();
            in_room!(self.choice, |room, C| mlkem::decapsulate_vartime(
                room,
                parameters,
                &mut workspace.lend::<C>(),
                &mut lent
            ));
        }
    }
}
