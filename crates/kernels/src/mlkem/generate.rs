//! Key generation (FIPS 203, algorithms 13 and 16).

use super::group::{Group, ToBuffers};
use super::layout::{Layout, Place};
use super::packing::{Noise, Pack, Plain, Unpack};
use super::sampling::{
    Entry, Hashing, NoiseTarget, hash, no_messages, noise_bits, uniform_vartime,
};
use super::transform::{Forward, Products, RestoreAndAdd, TimesGamma};
use super::{
    BUFFERS, JOBS_MAX, MESSAGE_BYTES, POLYNOMIAL_BYTES, Parameters, Words32, Workspace, wipe_words,
};
use crate::coefficients::{Coefficients, Row};
use crate::keccak::sponge::{SHA3_256, SHA3_512, Sponges};
use crate::registers::Register;
use crate::words::Words;

/// What a seed expands to: the seed of the matrix, which is public, and that of noise.
#[derive(Clone, Copy, Default)]
pub struct ExpandedSeed {
    /// The matrix's.
    pub matrix: [u8; MESSAGE_BYTES],
    /// That of noise, as words.
    pub noise: Words32,
}

/// One key pair.
pub struct GenerateJob<'a> {
    /// Where it comes from.
    pub seed: &'a ExpandedSeed,
    /// What decapsulation returns for a ciphertext that encapsulation did not make: z of FIPS 203.
    pub rejection: &'a [u8; MESSAGE_BYTES],
    /// Where the decapsulation key goes, expanded; it contains the encapsulation key.
    pub key: &'a mut [u8],
}

/// Expands 1 to 8 seeds (the first halves, that FIPS 203 names d).
///
/// Secrets: seeds.
///
/// # Panics
///
/// Panics if there are more seeds than results, or more than [`JOBS_MAX`].
pub fn expand<C: Coefficients>(
    room: C::Room,
    parameters: &Parameters,
    workspace: &mut Workspace<'_, C>,
    seeds: &[&[u8; MESSAGE_BYTES]],
    expanded: &mut [ExpandedSeed],
) {
    // The rank is appended as a byte, and the suffix of the function follows there.
    let rank = parameters.rank as u64;
    let sponges = &mut workspace.sponges;
    let lanes = <C::Words as Register>::LANES;
    for begin in (0..seeds.len()).step_by(lanes) {
        let jobs = begin..seeds.len().min(begin + lanes);
        sponges.clear();
        for job in jobs.clone() {
            sponges.add_bytes(job - begin, 0, seeds[job]);
            sponges.add_word(job - begin, 4, rank);
            sponges.pad(job - begin, 33, SHA3_512);
        }
        sponges.permute_within(room);
        for job in jobs {
            let target = &mut expanded[job];
            for (index, bytes) in target.matrix.as_chunks_mut().0.iter_mut().enumerate() {
                *bytes = sponges.word(job - begin, index).to_le_bytes();
            }
            for (index, word) in target.noise.iter_mut().enumerate() {
                *word = sponges.word(job - begin, 4 + index);
            }
        }
    }
    sponges.clear();
    C::wipe_registers(room);
}

/// Hashes 1 to 8 encapsulation keys of one parameter set.
///
/// # Panics
///
/// Panics if there are more than [`JOBS_MAX`] keys, or a key is too short.
pub fn hash_keys<C: Coefficients>(
    room: C::Room,
    parameters: &Parameters,
    workspace: &mut Workspace<'_, C>,
    keys: &[&[u8]],
) -> [[u8; MESSAGE_BYTES]; JOBS_MAX] {
    let words = hash_keys_within::<C>(room, parameters, workspace, keys);
    C::wipe_registers(room);
    words.map(|words| {
        let mut bytes = [0; MESSAGE_BYTES];
        for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        bytes
    })
}

/// As [`hash_keys`], as a part of a batch.
fn hash_keys_within<C: Coefficients>(
    room: C::Room,
    parameters: &Parameters,
    workspace: &mut Workspace<'_, C>,
    keys: &[&[u8]],
) -> [Words32; JOBS_MAX] {
    let mut digests = [[0; 4]; JOBS_MAX];
    hash(room, &mut workspace.sponges, hashing_keys(parameters, keys, &mut digests));
    digests
}

/// The hashes of encapsulation keys, which begin with SHA3-256's digest.
#[allow(clippy::type_complexity, reason = "the types of two closures")]
pub(super) fn hashing_keys<'a, S: Words<Word = u64>>(
    parameters: &Parameters,
    keys: &[&'a [u8]],
    digests: &'a mut [Words32; JOBS_MAX],
) -> Hashing<impl Fn(usize, usize) -> u64 + 'a, impl FnMut(usize, usize, &Sponges<S>) + 'a> {
    let mut chunks = [&[][..]; JOBS_MAX];
    for (chunks, key) in chunks.iter_mut().zip(keys) {
        *chunks = key.as_chunks::<8>().0;
    }
    Hashing {
        function: SHA3_256,
        jobs: keys.len(),
        words: parameters.encapsulation_key_bytes() / 8,
        word: move |job: usize, index: usize| u64::from_le_bytes(chunks[job][index]),
        take: |job: usize, lane: usize, sponges: &Sponges<S>| {
            for (index, word) in digests[job].iter_mut().enumerate() {
                *word = sponges.word(lane, index);
            }
        },
    }
}

/// Makes 1 to 8 key pairs. Time depends on the seeds of their matrices, which are public.
///
/// Secrets: seeds of noise, the bytes for rejection, and the results but for the encapsulation keys
/// in them.
///
/// # Panics
///
/// Panics if there is no job, if there are more than [`JOBS_MAX`], or a key has a wrong length.
pub fn generate_vartime<C: Coefficients>(
    room: C::Room,
    parameters: &Parameters,
    workspace: &mut Workspace<'_, C>,
    jobs: &mut [GenerateJob<'_>],
) {
    let layout = Layout::new(jobs.len());
    let rank = parameters.rank;
    let vectors = layout.groups(rank);
    for job in &*jobs {
        assert_eq!(job.key.len(), parameters.decapsulation_key_bytes(), "a key has one length");
    }
    let mut seeds = [[0; 4]; JOBS_MAX];
    for (seed, job) in seeds.iter_mut().zip(&*jobs) {
        *seed = job.seed.noise;
    }
    let [eta, _] = parameters.etas;
    let Workspace { sponges, secret, times_gamma, noise, .. } = &mut *workspace;
    let targets = [
        NoiseTarget { groups: &mut secret[..], count: rank, eta },
        NoiseTarget { groups: &mut noise[..], count: rank, eta },
    ];
    noise_bits::<C>(room, sponges, layout, &seeds, targets);
    wipe_words(&mut seeds);
    for group in secret[..vectors].iter_mut().chain(&mut noise[..vectors]) {
        unpack_noise::<C>(room, group, eta);
        C::call(room, Forward(group));
    }
    for (source, target) in secret[..vectors].iter().zip(times_gamma.iter_mut()) {
        C::call(room, TimesGamma { source, target });
    }
    for index in 0..rank {
        let Place { group, .. } = layout.place(0, index);
        if layout.place(0, index).lane == 0 {
            C::call(room, Pack::<Plain, 12>::new(&workspace.secret[group], workspace.packed));
            to_buffers::<C>(room, workspace);
        }
        for (job, GenerateJob { key, .. }) in jobs.iter_mut().enumerate() {
            let bytes = &mut key[POLYNOMIAL_BYTES * index..][..POLYNOMIAL_BYTES];
            workspace.buffers[layout.place(job, index).lane].copy_bytes(bytes);
        }
    }
    for pass in 0..vectors {
        public_rows_vartime::<C>(room, parameters, workspace, layout, pass, jobs);
    }
    workspace.wipe(vectors, vectors);
    finish::<C>(room, parameters, workspace, jobs);
}

/// Writes what stands behind the vectors of keys: the matrix's seed, the hash, and z.
fn finish<C: Coefficients>(
    room: C::Room,
    parameters: &Parameters,
    workspace: &mut Workspace<'_, C>,
    jobs: &mut [GenerateJob<'_>],
) {
    let vector = parameters.vector_bytes();
    let public = vector..vector + parameters.encapsulation_key_bytes();
    for job in &mut *jobs {
        job.key[2 * vector..][..MESSAGE_BYTES].copy_from_slice(&job.seed.matrix);
    }
    let mut keys = [&[][..]; JOBS_MAX];
    for (key, job) in keys.iter_mut().zip(&*jobs) {
        *key = &job.key[public.clone()];
    }
    let digests = hash_keys::<C>(room, parameters, workspace, &keys[..jobs.len()]);
    for (job, digest) in jobs.iter_mut().zip(&digests) {
        let (_, end) = job.key.split_at_mut(public.end);
        let (hash, rejection) = end.split_at_mut(MESSAGE_BYTES);
        hash.copy_from_slice(digest);
        rejection.copy_from_slice(job.rejection);
    }
}

/// Rows of the public vector: those that one pass makes of each job.
fn public_rows_vartime<C: Coefficients>(
    room: C::Room,
    parameters: &Parameters,
    workspace: &mut Workspace<'_, C>,
    layout: Layout,
    pass: usize,
    jobs: &mut [GenerateJob<'_>],
) {
    let seed = |job: usize| &jobs[job].seed.matrix;
    let rows = Rows { layout, pass, transposed: false };
    matrix_rows_vartime::<C, _, _>(room, parameters, workspace, rows, seed, no_messages());
    multiply::<C>(room, parameters, workspace, layout);
    let Workspace { product, packed, noise, .. } = &mut *workspace;
    C::call(room, RestoreAndAdd { target: product, source: &noise[pass] });
    C::call(room, Pack::<Plain, 12>::new(product, packed));
    to_buffers::<C>(room, workspace);
    let first = pass * layout.width;
    for row in first..parameters.rank.min(first + layout.width) {
        for (job, GenerateJob { key, .. }) in jobs.iter_mut().enumerate() {
            let offset = parameters.vector_bytes() + POLYNOMIAL_BYTES * row;
            let bytes = &mut key[offset..][..POLYNOMIAL_BYTES];
            workspace.buffers[layout.place(job, row).lane].copy_bytes(bytes);
        }
    }
}

/// Moves packed polynomials of 12 bits for a coefficient to buffers.
fn to_buffers<C: Coefficients>(room: C::Room, workspace: &mut Workspace<'_, C>) {
    let Workspace { packed, buffers, .. } = workspace;
    let buffers = buffers.first_chunk_mut().expect("a buffer for each lane");
    C::call(room, ToBuffers { packed, bits: 12, buffers });
}

/// Rows of matrices.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) layout: Layout,
    /// Which pass over the rows needs them.
    pub(super) pass: usize,
    /// Whether they are columns of the matrix that FIPS 203 has.
    pub(super) transposed: bool,
}

/// Samples the entries of the matrices that a pass over rows needs, and hashes messages meanwhile.
pub(super) fn matrix_rows_vartime<'a, C: Coefficients, W, T>(
    room: C::Room,
    parameters: &Parameters,
    workspace: &mut Workspace<'_, C>,
    rows: Rows,
    seed: impl Fn(usize) -> &'a [u8; MESSAGE_BYTES],
    hashing: Hashing<W, T>,
) where
    W: Fn(usize, usize) -> u64,
    T: FnMut(usize, usize, &Sponges<C::Words>),
{
    let nowhere = Place { group: 0, lane: 0 };
    let none = Entry { seed: seed(0), indices: [0; 2], place: nowhere };
    let mut entries = [none; BUFFERS];
    let count = parameters.entries(rows, seed, &mut entries);
    let Workspace { sponges, buffers, matrix, .. } = workspace;
    let entries = &entries[..count];
    uniform_vartime::<C, _, _>(room, sponges, buffers, entries, &mut matrix[..], hashing);
}

/// The sums of products of the matrix and the secret vectors.
pub(super) fn multiply<C: Coefficients>(
    room: C::Room,
    parameters: &Parameters,
    workspace: &mut Workspace<'_, C>,
    layout: Layout,
) {
    match parameters.rank {
        2 => products::<C, 2>(room, workspace, layout),
        3 => products::<C, 3>(room, workspace, layout),
        _ => products::<C, 4>(room, workspace, layout),
    }
}

fn products<C: Coefficients, const K: usize>(
    room: C::Room,
    workspace: &mut Workspace<'_, C>,
    layout: Layout,
) {
    let Workspace { matrix, secret, times_gamma, product, .. } = workspace;
    let multiplicands: &[Group; K] = matrix.first_chunk().expect("a rank is 4 at most");
    let mut choices = [Row::ZERO; K];
    let mut multipliers = [&secret[0]; K];
    let mut scaled = [&times_gamma[0]; K];
    for index in 0..K {
        let group = layout.place(0, index).group;
        choices[index] = layout.choice(index);
        (multipliers[index], scaled[index]) = (&secret[group], &times_gamma[group]);
    }
    let (choices, times_gamma, target) = (&choices, scaled, product);
    if layout.width == 1 {
        let task: Products<'_, K, false> =
            Products { multiplicands, multipliers, times_gamma, choices, target };
        C::call(room, task);
    } else {
        let task: Products<'_, K, true> =
            Products { multiplicands, multipliers, times_gamma, choices, target };
        C::call(room, task);
    }
}

/// Unpacks noise.
pub(super) fn unpack_noise<C: Coefficients>(room: C::Room, group: &mut Group, eta: usize) {
    match eta {
        2 => C::call(room, Unpack::<Noise<2>, 4>::new(group)),
        _ => C::call(room, Unpack::<Noise<3>, 6>::new(group)),
    }
}
