//! Decapsulation (FIPS 203, algorithms 15 and 18).

use widelane_secret::Mask;

use super::encrypt::{Plaintexts, derive, encrypt_vartime, first_rows_vartime, store};
use super::generate::multiply;
use super::group::{FromBuffers, ToBuffers};
use super::layout::Layout;
use super::packing::{Compressed, Pack, Plain, Unpack};
use super::sampling::{Buffer, Hashing, words_of};
use super::transform::{Forward, Inverse, SubtractFrom, TimesGamma};
use super::{
    JOBS_MAX, MESSAGE_BYTES, POLYNOMIAL_BYTES, Parameters, Words32, Workspace, wipe_words,
};
use crate::coefficients::{Coefficients, POLYNOMIALS};
use crate::keccak::sponge::{SHAKE256, Sponges};

/// One decapsulation.
pub struct DecapsulateJob<'a> {
    /// The decapsulation key, in its expanded form.
    pub key: &'a [u8],
    /// The ciphertext.
    pub ciphertext: &'a [u8],
    /// Where the shared secret goes.
    pub shared: &'a mut [u8; MESSAGE_BYTES],
}

/// Decapsulates 1 to 8 shared secrets. Time depends on the keys' seeds of matrices, which are
/// public. Whether a ciphertext was made by encapsulation is a secret: if not, the result is what
/// FIPS 203 calls implicit rejection.
///
/// Secrets: keys but for the encapsulation keys in them, and shared secrets.
///
/// # Panics
///
/// Panics if there is no job, if there are more than [`JOBS_MAX`], or a length is wrong.
pub fn decapsulate_vartime<C: Coefficients>(
    room: C::Room,
    parameters: &Parameters,
    workspace: &mut Workspace<'_, C>,
    jobs: &mut [DecapsulateJob<'_>],
) {
    let layout = Layout::new(jobs.len());
    let begin = parameters.encapsulation_key_offset();
    let public = begin..begin + parameters.encapsulation_key_bytes();
    let mut keys = [&[][..]; JOBS_MAX];
    let mut digests = [[0; 4]; JOBS_MAX];
    for (index, job) in jobs.iter().enumerate() {
        assert_eq!(job.key.len(), parameters.decapsulation_key_bytes(), "a key has one length");
        assert_eq!(job.ciphertext.len(), parameters.ciphertext_bytes(), "so has a ciphertext");
        keys[index] = &job.key[public.clone()];
        let digest = job.key[public.end..].first_chunk().expect("the hash is behind the key");
        digests[index] = words_of(digest);
    }
    let mut messages = decrypt::<C>(room, parameters, workspace, layout, jobs);
    let mut secrets = derive::<C>(room, workspace, jobs.len(), &messages, &digests);
    let keys = &keys[..jobs.len()];
    let mut rejections = reject_vartime::<C>(room, parameters, workspace, layout, jobs, keys);
    let mut differences = [0; JOBS_MAX];
    encrypt_vartime::<C>(
        room,
        parameters,
        workspace,
        layout,
        Plaintexts { keys, messages: &messages, seeds: &secrets.seeds },
        &mut [true; JOBS_MAX],
        |job, bytes, polynomial| {
            let found = polynomial.differences(&jobs[job].ciphertext[bytes]);
            differences[job] |= u64::from(found);
        },
    );
    for (index, job) in jobs.iter_mut().enumerate() {
        let is_equal = Mask::is_zero(differences[index]);
        let mut shared = [0; 4];
        for (word, (yes, no)) in
            shared.iter_mut().zip(secrets.shared[index].iter().zip(&rejections[index]))
        {
            *word = is_equal.select(*yes, *no);
        }
        store(&shared, job.shared);
        wipe_words(&mut [shared]);
    }
    secrets.wipe();
    wipe_words(&mut rejections);
    wipe_words(&mut messages);
    workspace.wipe(layout.groups(parameters.rank), layout.groups(parameters.rank + 1));
    C::wipe_registers(room);
}

/// Decrypts the messages of ciphertexts.
fn decrypt<C: Coefficients>(
    room: C::Room,
    parameters: &Parameters,
    workspace: &mut Workspace<'_, C>,
    layout: Layout,
    jobs: &[DecapsulateJob<'_>],
) -> [Words32; JOBS_MAX] {
    let rank = parameters.rank;
    let [vector_bits, last_bits] = parameters.bits;
    let Workspace { matrix, secret, times_gamma, message, buffers, .. } = &mut *workspace;
    let buffers: &mut [Buffer; POLYNOMIALS] =
        buffers.first_chunk_mut().expect("a buffer for each lane");
    for (group, (source, target)) in
        secret[..layout.groups(rank)].iter_mut().zip(times_gamma.iter_mut()).enumerate()
    {
        let entries = group * layout.width..rank.min((group + 1) * layout.width);
        for (job, DecapsulateJob { ciphertext, .. }) in jobs.iter().enumerate() {
            for index in entries.clone() {
                let bytes = &ciphertext[32 * vector_bits * index..][..32 * vector_bits];
                buffers[layout.place(job, index).lane].put_bytes(bytes);
            }
        }
        C::call(room, FromBuffers { buffers, bits: vector_bits, target: source });
        match vector_bits {
            10 => C::call(room, Unpack::<Compressed<10>, 10>::new(source)),
            _ => C::call(room, Unpack::<Compressed<11>, 11>::new(source)),
        }
        C::call(room, Forward(source));
        C::call(room, TimesGamma { source, target });
    }
    for (index, target) in matrix[..rank].iter_mut().enumerate() {
        for (job, DecapsulateJob { key, .. }) in jobs.iter().enumerate() {
            let bytes = &key[POLYNOMIAL_BYTES * index..][..POLYNOMIAL_BYTES];
            buffers[layout.place(job, 0).lane].put_bytes(bytes);
        }
        C::call(room, FromBuffers { buffers, bits: 12, target });
        C::call(room, Unpack::<Plain, 12>::new(target));
    }
    for (job, DecapsulateJob { ciphertext, .. }) in jobs.iter().enumerate() {
        let last = &ciphertext[parameters.ciphertext_vector_bytes()..];
        buffers[layout.place(job, 0).lane].put_bytes(last);
    }
    C::call(room, FromBuffers { buffers, bits: last_bits, target: message });
    match last_bits {
        4 => C::call(room, Unpack::<Compressed<4>, 4>::new(message)),
        _ => C::call(room, Unpack::<Compressed<5>, 5>::new(message)),
    }
    multiply::<C>(room, parameters, workspace, layout);
    let Workspace { matrix, product, message, packed, buffers, .. } = &mut *workspace;
    // The secret vectors: the matrix takes their place.
    matrix[..rank].iter_mut().for_each(super::Group::wipe);
    C::call(room, Inverse(product));
    C::call(room, SubtractFrom { target: product, source: message });
    C::call(room, Pack::<Compressed<1>, 1>::new(product, packed));
    let buffers: &mut [Buffer; POLYNOMIALS] =
        buffers.first_chunk_mut().expect("a buffer for each lane");
    C::call(room, ToBuffers { packed, bits: 1, buffers });
    let mut messages = [[0; 4]; JOBS_MAX];
    for (job, message) in messages[..jobs.len()].iter_mut().enumerate() {
        let mut bytes = [0; MESSAGE_BYTES];
        buffers[layout.place(job, 0).lane].copy_bytes(&mut bytes);
        *message = words_of(&bytes);
        widelane_secret::wipe(&mut bytes);
    }
    messages
}

/// The secrets for ciphertexts that were not made by encapsulation. The first rows of matrices are
/// sampled meanwhile.
fn reject_vartime<C: Coefficients>(
    room: C::Room,
    parameters: &Parameters,
    workspace: &mut Workspace<'_, C>,
    layout: Layout,
    jobs: &[DecapsulateJob<'_>],
    keys: &[&[u8]],
) -> [Words32; JOBS_MAX] {
    let mut rejections = [[0; 4]; JOBS_MAX];
    let mut heads = [[0; 4]; JOBS_MAX];
    let mut chunks = [&[][..]; JOBS_MAX];
    for (index, job) in jobs.iter().enumerate() {
        heads[index] = words_of(job.key.last_chunk().expect("a key ends with these bytes"));
        chunks[index] = job.ciphertext.as_chunks::<8>().0;
    }
    let hashing = Hashing {
        function: SHAKE256,
        jobs: jobs.len(),
        words: 4 + parameters.ciphertext_bytes() / 8,
        word: |job: usize, index: usize| match index.checked_sub(4) {
            None => heads[job][index],
            Some(index) => u64::from_le_bytes(chunks[job][index]),
        },
        take: |job: usize, lane: usize, sponges: &Sponges<C::Words>| {
            for (index, word) in rejections[job].iter_mut().enumerate() {
                *word = sponges.word(lane, index);
            }
        },
    };
    first_rows_vartime::<C, _, _>(room, parameters, workspace, layout, keys, hashing);
    wipe_words(&mut heads);
    rejections
}
