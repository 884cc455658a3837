//! AES-GCM and ChaCha20-Poly1305.
#![allow(unsafe_code, reason = "functions for C")]

use widelane_crypto::aead::{
    self, Aead, AeadError, Algorithm, Key, NONCE_BYTES, Outcome, SealJob, TAG_BYTES,
};

use super::Crypto;
use super::jobs::{self, refused};
use crate::door;
use crate::status::Status;

/// An algorithm of authenticated encryption.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AeadAlgorithm {
    /// AES-GCM with a key of 16 bytes.
    Aes128Gcm = 0,
    /// AES-GCM with a key of 24 bytes.
    Aes192Gcm = 1,
    /// AES-GCM with a key of 32 bytes.
    Aes256Gcm = 2,
    /// ChaCha20-Poly1305, with a key of 32 bytes.
    Chacha20Poly1305 = 3,
}

/// A key of authenticated encryption; may be used by several threads at once.
pub struct AeadKey(Key);

/// One message, sealed or opened where it is.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AeadJob {
    /// The key, which may differ from job to job.
    pub key: *const AeadKey,
    /// The nonce, 12 bytes. When sealing, never use one twice with the same key.
    pub nonce: *const u8,
    /// What is authenticated but not encrypted.
    pub aad: *const u8,
    /// How many bytes that is.
    pub aad_length: usize,
    /// The message.
    pub text: *mut u8,
    /// How many bytes it has.
    pub text_length: usize,
    /// The tag, 16 bytes: written when sealing, compared when opening.
    pub tag: *mut u8,
    /// What became of the job: one of `widelane_status`.
    pub status: u32,
}

/// Expands a key; `algorithm` is one of `widelane_aead_algorithm`.
///
/// # Safety
///
/// `crypto` is one that is not freed, there are as many bytes as said, and `key` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_aead_key_new(
    crypto: *const Crypto,
    algorithm: u32,
    bytes: *const u8,
    length: usize,
    key: *mut *mut AeadKey,
) -> Status {
    let made = || {
        let algorithm = door::choice(&Algorithm::ALL, algorithm, "algorithm")?;
        // SAFETY: the caller vouches for it.
        let (crypto, bytes) = unsafe { (door::reference(crypto)?, door::array(bytes, length)?) };
        let expanded = Aead::choose(algorithm, &crypto.policy).key(bytes);
        let expanded = expanded.map_err(|error| Status::Argument.because(error))?;
        Ok(AeadKey(expanded))
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
pub unsafe extern "C" fn widelane_aead_key_free(key: *mut AeadKey) {
    // SAFETY: the caller vouches for it.
    unsafe { door::take(key) }
}

jobs::lent!(AeadJob as SealJob<'a>, |job| {
    key: reference(job.key),
    nonce: reference(job.nonce.cast::<[u8; NONCE_BYTES]>()),
    aad: array(job.aad, job.aad_length),
    text: places(job.text, job.text_length),
    tag: exclusive(job.tag.cast::<[u8; TAG_BYTES]>()),
} => SealJob { key: &key.0, nonce, aad, text, tag, outcome: Outcome::Pending });

/// Seals messages: encrypts each text and writes its tag.
///
/// # Safety
///
/// There are `job_count` jobs; each points to what it says, and no text and no tag overlaps
/// anything else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_aead_seal_many(jobs: *mut AeadJob, job_count: usize) -> Status {
    // SAFETY: the caller vouches for it.
    unsafe {
        jobs::batch(jobs, job_count, |mut jobs| {
            aead::seal_many(&mut jobs);
            let outcome = |job: &SealJob<'_>| match job.outcome {
                Outcome::Done => Ok(()),
                Outcome::Pending | Outcome::TextTooLong => {
                    refused(Status::Argument, AeadError::TextTooLong)
                }
            };
            Ok(jobs.iter().map(outcome).collect())
        })
    }
}

/// Opens messages: decrypts each text whose tag is right, and clears the others.
///
/// # Safety
///
/// As for `widelane_aead_seal_many`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_aead_open_many(jobs: *mut AeadJob, job_count: usize) -> Status {
    let open = |job: SealJob<'_>| match job.key.open_in_place(job.nonce, job.aad, job.text, job.tag)
    {
        Ok(()) => Ok(()),
        Err(error @ AeadError::Rejected) => refused(Status::Rejected, error),
        Err(error) => refused(Status::Argument, error),
    };
    // SAFETY: the caller vouches for it.
    unsafe { jobs::batch(jobs, job_count, |jobs| Ok(jobs.into_iter().map(open).collect())) }
}
