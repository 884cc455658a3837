//! Encapsulation (FIPS 203, algorithms 14 and 17).

use core::ops::Range;

use super::generate::{Rows, hashing_keys, matrix_rows_vartime, multiply, unpack_noise};
use super::group::{FromBuffers, ToBuffers};
use super::layout::Layout;
use super::packing::{Compressed, Overflows, Pack, Plain, Unpack};
use super::sampling::{Buffer, Hashing, NoiseTarget, hash, no_messages, noise_bits, words_of};
use super::transform::{Add, Forward, Inverse, TimesGamma};
use super::{
    JOBS_MAX, MESSAGE_BYTES, POLYNOMIAL_BYTES, Parameters, Words32, Workspace, wipe_words,
};
use crate::coefficients::{Coefficients, POLYNOMIALS};
use crate::keccak::sponge::{SHA3_512, Sponges};

/// One encapsulation.
pub struct EncapsulateJob<'a> {
    /// The peer's encapsulation key.
    pub key: &'a [u8],
    /// 32 random bytes, which must be kept secret.
    pub message: &'a [u8; MESSAGE_BYTES],
    /// Where the ciphertext goes.
    pub ciphertext: &'a mut [u8],
    /// Where the shared secret goes.
    pub shared: &'a mut [u8; MESSAGE_BYTES],
    /// Whether the key is one: each of its coefficients is below q. If not, ciphertext and shared
    /// secret are zeros.
    pub is_key: bool,
}

/// Encapsulates 1 to 8 shared secrets. Time depends on the keys, which are public.
///
/// Secrets: messages and shared secrets.
///
/// # Panics
///
/// Panics if there is no job, if there are more than [`JOBS_MAX`], or a length is wrong.
pub fn encapsulate_vartime<C: Coefficients>(
    room: C::Room,
    parameters: &Parameters,
    workspace: &mut Workspace<'_, C>,
    jobs: &mut [EncapsulateJob<'_>],
) {
    let layout = Layout::new(jobs.len());
    let mut keys = [&[][..]; JOBS_MAX];
    let mut messages = [[0; 4]; JOBS_MAX];
    for (index, job) in jobs.iter().enumerate() {
        assert_eq!(job.key.len(), parameters.encapsulation_key_bytes(), "a key has one length");
        assert_eq!(job.ciphertext.len(), parameters.ciphertext_bytes(), "so has a ciphertext");
        keys[index] = job.key;
        messages[index] = words_of(job.message);
    }
    let keys = &keys[..jobs.len()];
    let mut digests = [[0; 4]; JOBS_MAX];
    let hashing = hashing_keys(parameters, keys, &mut digests);
    first_rows_vartime::<C, _, _>(room, parameters, workspace, layout, keys, hashing);
    let mut secrets = derive::<C>(room, workspace, jobs.len(), &messages, &digests);
    let mut is_key = [true; JOBS_MAX];
    encrypt_vartime::<C>(
        room,
        parameters,
        workspace,
        layout,
        Plaintexts { keys, messages: &messages, seeds: &secrets.seeds },
        &mut is_key,
        |job, bytes, polynomial| polynomial.copy_bytes(&mut jobs[job].ciphertext[bytes]),
    );
    for (index, job) in jobs.iter_mut().enumerate() {
        job.is_key = is_key[index];
        let words = if job.is_key { secrets.shared[index] } else { [0; 4] };
        store(&words, job.shared);
        if !job.is_key {
            job.ciphertext.fill(0);
        }
    }
    secrets.wipe();
    wipe_words(&mut messages);
    workspace.wipe(layout.groups(parameters.rank), layout.groups(parameters.rank + 1));
    C::wipe_registers(room);
}

/// Shared secrets, and the seeds of the noise in ciphertexts.
pub(super) struct Secrets {
    pub(super) shared: [Words32; JOBS_MAX],
    pub(super) seeds: [Words32; JOBS_MAX],
}

impl Secrets {
    pub(super) fn wipe(&mut self) {
        wipe_words(&mut self.shared);
        wipe_words(&mut self.seeds);
    }
}

/// Derives secrets from messages and the hashes of keys.
pub(super) fn derive<C: Coefficients>(
    room: C::Room,
    workspace: &mut Workspace<'_, C>,
    jobs: usize,
    messages: &[Words32; JOBS_MAX],
    digests: &[Words32; JOBS_MAX],
) -> Secrets {
    let mut secrets = Secrets { shared: [[0; 4]; JOBS_MAX], seeds: [[0; 4]; JOBS_MAX] };
    let hashing = Hashing {
        function: SHA3_512,
        jobs,
        words: 8,
        word: |job: usize, index: usize| match index.checked_sub(4) {
            None => messages[job][index],
            Some(index) => digests[job][index],
        },
        take: |job: usize, lane: usize, sponges: &Sponges<C::Words>| {
            for index in 0..4 {
                secrets.shared[job][index] = sponges.word(lane, index);
                secrets.seeds[job][index] = sponges.word(lane, 4 + index);
            }
        },
    };
    hash(room, &mut workspace.sponges, hashing);
    secrets
}

/// Stores the bytes of words.
pub(super) fn store(words: &Words32, bytes: &mut [u8; MESSAGE_BYTES]) {
    for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
}

/// A message, and the key that it is encrypted to.
#[derive(Clone, Copy)]
pub(super) struct Plaintexts<'a> {
    pub(super) keys: &'a [&'a [u8]],
    pub(super) messages: &'a [Words32; JOBS_MAX],
    pub(super) seeds: &'a [Words32; JOBS_MAX],
}

/// Samples the rows of the matrices of keys with which [`encrypt_vartime`] begins, and hashes
/// messages meanwhile.
pub(super) fn first_rows_vartime<C: Coefficients, W, T>(
    room: C::Room,
    parameters: &Parameters,
    workspace: &mut Workspace<'_, C>,
    layout: Layout,
    keys: &[&[u8]],
    hashing: Hashing<W, T>,
) where
    W: Fn(usize, usize) -> u64,
    T: FnMut(usize, usize, &Sponges<C::Words>),
{
    let rows = Rows { layout, pass: 0, transposed: true };
    let seed = |job: usize| seed_of(keys[job]);
    matrix_rows_vartime::<C, _, _>(room, parameters, workspace, rows, seed, hashing);
}

/// The seed of a key's matrix.
fn seed_of(key: &[u8]) -> &[u8; MESSAGE_BYTES] {
    key.last_chunk().expect("a key ends with its seed")
}

/// Encrypts messages, once the first rows of matrices are sampled, and hands the polynomials of
/// ciphertexts to `take`: of which job, and which of its bytes. Tells which keys are none.
pub(super) fn encrypt_vartime<C: Coefficients>(
    room: C::Room,
    parameters: &Parameters,
    workspace: &mut Workspace<'_, C>,
    layout: Layout,
    plaintexts: Plaintexts<'_>,
    is_key: &mut [bool; JOBS_MAX],
    mut take: impl FnMut(usize, Range<usize>, &Buffer),
) {
    let rank = parameters.rank;
    prepare::<C>(room, parameters, workspace, layout, plaintexts);
    let keys = plaintexts.keys;
    for pass in 0..layout.groups(rank + 1) {
        if pass > 0 {
            let (rows, seed) = (Rows { layout, pass, transposed: true }, |job| seed_of(keys[job]));
            matrix_rows_vartime::<C, _, _>(room, parameters, workspace, rows, seed, no_messages());
        }
        let has_message = pass == layout.place(0, rank).group;
        if has_message {
            public_vectors::<C>(room, parameters, workspace, layout, keys, is_key);
        }
        multiply::<C>(room, parameters, workspace, layout);
        let Workspace { product, noise, message, .. } = &mut *workspace;
        C::call(room, Inverse(product));
        C::call(room, Add { target: product, source: &noise[pass] });
        if has_message {
            C::call(room, Add { target: product, source: message });
        }
        let [vector_bits, last_bits] = parameters.bits;
        let rows = pass * layout.width..rank.min((pass + 1) * layout.width);
        let has_rows = !rows.is_empty();
        for (is_there, bits, rows) in
            [(has_rows, vector_bits, rows), (has_message, last_bits, rank..rank + 1)]
        {
            if !is_there {
                continue;
            }
            pack::<C>(room, workspace, bits);
            for row in rows {
                let begin = 32 * vector_bits * row;
                for job in 0..layout.jobs {
                    let polynomial = &workspace.buffers[layout.place(job, row).lane];
                    take(job, begin..begin + 32 * bits, polynomial);
                }
            }
        }
    }
}

/// Packs the polynomials of the product into buffers, compressed to `bits` bits.
fn pack<C: Coefficients>(room: C::Room, workspace: &mut Workspace<'_, C>, bits: usize) {
    let Workspace { product, packed, buffers, .. } = workspace;
    match bits {
        4 => C::call(room, Pack::<Compressed<4>, 4>::new(product, packed)),
        5 => C::call(room, Pack::<Compressed<5>, 5>::new(product, packed)),
        10 => C::call(room, Pack::<Compressed<10>, 10>::new(product, packed)),
        _ => C::call(room, Pack::<Compressed<11>, 11>::new(product, packed)),
    }
    let buffers = buffers.first_chunk_mut().expect("a buffer for each lane");
    C::call(room, ToBuffers { packed, bits, buffers });
}

/// Samples noise, transforms the secret vectors, and unpacks messages.
fn prepare<C: Coefficients>(
    room: C::Room,
    parameters: &Parameters,
    workspace: &mut Workspace<'_, C>,
    layout: Layout,
    plaintexts: Plaintexts<'_>,
) {
    let rank = parameters.rank;
    let [secret_eta, noise_eta] = parameters.etas;
    let (vectors, sums) = (layout.groups(rank), layout.groups(rank + 1));
    let Workspace { sponges, secret, times_gamma, noise, message, .. } = workspace;
    let targets = [
        NoiseTarget { groups: &mut secret[..], count: rank, eta: secret_eta },
        NoiseTarget { groups: &mut noise[..], count: rank + 1, eta: noise_eta },
    ];
    noise_bits::<C>(room, sponges, layout, plaintexts.seeds, targets);
    for (source, target) in secret[..vectors].iter_mut().zip(times_gamma.iter_mut()) {
        unpack_noise::<C>(room, source, secret_eta);
        C::call(room, Forward(source));
        C::call(room, TimesGamma { source, target });
    }
    for group in &mut noise[..sums] {
        unpack_noise::<C>(room, group, noise_eta);
    }
    message.clear_packed(1);
    for (job, words) in plaintexts.messages[..layout.jobs].iter().enumerate() {
        let lane = layout.place(job, rank).lane;
        for (index, word) in words.iter().enumerate() {
            message.put_words(lane, 1, index, &[*word]);
        }
    }
    C::call(room, Unpack::<Compressed<1>, 1>::new(message));
}

/// Puts the vectors of encapsulation keys where rows of the matrix are: their products with the
/// secret vectors hide messages.
fn public_vectors<C: Coefficients>(
    room: C::Room,
    parameters: &Parameters,
    workspace: &mut Workspace<'_, C>,
    layout: Layout,
    keys: &[&[u8]],
    is_key: &mut [bool; JOBS_MAX],
) {
    let Workspace { matrix, packed, buffers, .. } = workspace;
    let buffers = buffers.first_chunk_mut().expect("a buffer for each lane");
    for (column, target) in matrix[..parameters.rank].iter_mut().enumerate() {
        let unpacked = if layout.width == 1 { &mut *target } else { &mut *packed };
        for (job, key) in keys.iter().enumerate() {
            let bytes = &key[POLYNOMIAL_BYTES * column..][..POLYNOMIAL_BYTES];
            buffers[layout.place(job, parameters.rank).lane].put_bytes(bytes);
        }
        C::call(room, FromBuffers { buffers, bits: 12, target: unpacked });
        C::call(room, Unpack::<Plain, 12>::new(unpacked));
        let overflows = C::call(room, Overflows(unpacked)).0;
        for (job, is_key) in is_key[..keys.len()].iter_mut().enumerate() {
            let lane = layout.place(job, parameters.rank).lane;
            *is_key &= overflows[lane] | overflows[lane + POLYNOMIALS] == 0;
        }
        if layout.width > 1 {
            for job in 0..keys.len() {
                target.copy_lane(layout.place(job, parameters.rank).lane, packed);
            }
        }
    }
}
