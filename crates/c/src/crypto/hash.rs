//! SHA-1, SHA-2, and HMAC over them.
#![allow(unsafe_code, reason = "functions for C")]

use widelane_crypto::digest::{Algorithm, Digest, Hash};
use widelane_crypto::mac::{self, Hmac, Key, MacError, TagJob};

use super::Crypto;
use super::jobs::{self, refused};
use crate::door;
use crate::status::Status;

/// A hash function.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashAlgorithm {
    /// SHA-1, whose digest has 20 bytes; as the hash of a signature it is broken.
    Sha1 = 0,
    /// SHA-224, whose digest has 28 bytes.
    Sha224 = 1,
    /// SHA-256, whose digest has 32 bytes.
    Sha256 = 2,
    /// SHA-384, whose digest has 48 bytes.
    Sha384 = 3,
    /// SHA-512, whose digest has 64 bytes.
    Sha512 = 4,
}

/// One message to be hashed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HashJob {
    /// The message.
    pub message: *const u8,
    /// How many bytes it has.
    pub message_length: usize,
    /// Where the digest goes.
    pub digest: *mut u8,
    /// How many bytes there are for it: as many as it has.
    pub digest_length: usize,
    /// What became of the job: one of `widelane_status`.
    pub status: u32,
}

/// A key of HMAC; may be used by several threads at once.
pub struct HmacKey(Key);

/// One message to be authenticated.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HmacJob {
    /// The key, which may differ from job to job.
    pub key: *const HmacKey,
    /// The message.
    pub message: *const u8,
    /// How many bytes it has.
    pub message_length: usize,
    /// The tag: written by `widelane_hmac_tag_many`, compared by `widelane_hmac_verify_many`.
    pub tag: *mut u8,
    /// How many bytes of it: as many as the digest has; to compare, the first half of them or more.
    pub tag_length: usize,
    /// What became of the job: one of `widelane_status`.
    pub status: u32,
}

/// A message, and the place of its digest or tag.
pub(super) struct Lent<'a, K> {
    key: K,
    message: &'a [u8],
    place: &'a mut [u8],
}

jobs::lent!(HashJob as Lent<'a, ()>, |job| {
    message: array(job.message, job.message_length),
    digest: places(job.digest, job.digest_length),
} => Lent { key: (), message, place: digest });

/// Hashes messages, whatever their lengths; `algorithm` is one of `widelane_hash_algorithm`.
///
/// # Safety
///
/// `crypto` is one that is not freed; there are `job_count` jobs, each points to what it says, and
/// no digest overlaps anything else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_hash_many(
    crypto: *const Crypto,
    algorithm: u32,
    jobs: *mut HashJob,
    job_count: usize,
) -> Status {
    // SAFETY: the caller vouches for it.
    unsafe {
        jobs::batch(jobs, job_count, |lent| {
            let algorithm = door::choice(&Algorithm::ALL, algorithm, "algorithm")?;
            let hash = Hash::choose(algorithm, &door::reference(crypto)?.policy);
            let messages: Vec<&[u8]> = lent.iter().map(|job| job.message).collect();
            let mut digests = vec![Digest::default(); lent.len()];
            hash.digest_many(&messages, &mut digests);
            Ok(lent
                .into_iter()
                .zip(&digests)
                .map(|(job, digest)| write(digest, job.place))
                .collect())
        })
    }
}

/// Prepares a key of any length; `algorithm` is one of `widelane_hash_algorithm`.
///
/// # Safety
///
/// `crypto` is one that is not freed, there are as many bytes as said, and `key` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_hmac_key_new(
    crypto: *const Crypto,
    algorithm: u32,
    bytes: *const u8,
    length: usize,
    key: *mut *mut HmacKey,
) -> Status {
    let made = || {
        let algorithm = door::choice(&Algorithm::ALL, algorithm, "algorithm")?;
        // SAFETY: the caller vouches for it.
        let (crypto, bytes) = unsafe { (door::reference(crypto)?, door::array(bytes, length)?) };
        let prepared = Hmac::choose(algorithm, &crypto.policy).key(bytes);
        Ok(HmacKey(prepared))
    };
    // SAFETY: the caller vouches for it.
    unsafe { door::make(key, made) }
}

/// Wipes and frees a key.
///
/// # Safety
///
/// `key` is null or one that is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_hmac_key_free(key: *mut HmacKey) {
    // SAFETY: the caller vouches for it.
    unsafe { door::take(key) }
}

jobs::lent!(HmacJob as Lent<'a, &'a Key>, |job| {
    key: reference(job.key),
    message: array(job.message, job.message_length),
    tag: places(job.tag, job.tag_length),
} => Lent { key: &key.0, message, place: tag });

/// Makes the tags of messages.
///
/// # Safety
///
/// There are `job_count` jobs; each points to what it says, and no tag overlaps anything else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_hmac_tag_many(jobs: *mut HmacJob, job_count: usize) -> Status {
    // SAFETY: the caller vouches for it.
    unsafe { jobs::batch(jobs, job_count, |lent| Ok(tagged(lent))) }
}

/// Makes tags and writes them to their places. A tag may be a secret, such as a key that is
/// derived, so the heap keeps none.
fn tagged(lent: Vec<Lent<'_, &Key>>) -> Vec<jobs::Outcome> {
    let tag = Digest::default();
    let untagged = lent.iter().map(|job| TagJob { key: job.key, message: job.message, tag });
    let mut jobs: Vec<TagJob<'_>> = untagged.collect();
    mac::tag_many(&mut jobs);
    let mut written = |(job, made): (Lent<'_, &Key>, &mut TagJob<'_>)| {
        let outcome = write(&made.tag, job.place);
        made.tag.wipe();
        outcome
    };
    lent.into_iter().zip(&mut jobs).map(&mut written).collect()
}

/// Compares the tags of messages, in a time that does not depend on where they differ.
///
/// # Safety
///
/// As for `widelane_hmac_tag_many`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_hmac_verify_many(jobs: *mut HmacJob, job_count: usize) -> Status {
    let verify = |job: Lent<'_, &Key>| match job.key.verify(job.message, job.place) {
        Ok(()) => Ok(()),
        Err(error @ MacError::Rejected) => refused(Status::Rejected, error),
        Err(error) => refused(Status::Argument, error),
    };
    // SAFETY: the caller vouches for it.
    unsafe { jobs::batch(jobs, job_count, |jobs| Ok(jobs.into_iter().map(verify).collect())) }
}

/// Writes a digest or a tag to its place.
fn write(digest: &Digest, place: &mut [u8]) -> jobs::Outcome {
    let (digest, got) = (digest.as_ref(), place.len());
    if got != digest.len() {
        let wanted = digest.len();
        return refused(Status::Argument, format!("the place has {got} bytes; pass {wanted}"));
    }
    place.copy_from_slice(digest);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use widelane_cpu::Policy;
    use widelane_testkit::leftovers::Secret;

    use super::*;

    #[test]
    fn the_heap_keeps_no_tag() {
        let key = Hmac::choose(Algorithm::Sha512, &Policy::open()).key(b"key");
        let mut place = [0; 64];
        let lent = Lent { key: &key, message: b"message", place: &mut place };
        assert_eq!(tagged(vec![lent]), [Ok(())]);
        let mut secret = Secret::default();
        place.reverse();
        secret.add(&place);
        place.reverse();
        assert_ne!(secret.count(), 0, "the tag is in its place");
        black_box(&mut place).fill(0);
        overwrite_stack();
        assert_eq!(secret.count(), 0);
        black_box(&place);
    }

    #[inline(never)]
    fn overwrite_stack() {
        black_box([0u8; 32 << 10]);
    }
}
