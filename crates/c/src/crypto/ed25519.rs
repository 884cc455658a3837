//! Signatures of Ed25519.
#![allow(unsafe_code, reason = "functions for C")]

use widelane_crypto::ed25519::{Outcome, SignJob, SigningKey, VerifyJob};

use super::Crypto;
use super::jobs::{self, refused};
use crate::door;
use crate::status::Status;

/// A private key of Ed25519; may be used by several threads at once.
#[derive(Debug)]
pub struct Ed25519Key(SigningKey);

/// One message to be signed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Ed25519SignJob {
    /// The key, which may differ from job to job.
    pub key: *const Ed25519Key,
    /// The message.
    pub message: *const u8,
    /// How many bytes it has.
    pub message_length: usize,
    /// Where the signature goes, 64 bytes.
    pub signature: *mut u8,
    /// What became of the job: one of `widelane_status`.
    pub status: u32,
}

/// One signature to be verified.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Ed25519VerifyJob {
    /// The public key, 32 bytes.
    pub public_key: *const u8,
    /// The message.
    pub message: *const u8,
    /// How many bytes it has.
    pub message_length: usize,
    /// The signature, 64 bytes.
    pub signature: *const u8,
    /// What became of the job: one of `widelane_status`.
    pub status: u32,
}

/// Expands a seed, the private key of RFC 8032.
///
/// # Safety
///
/// There are 32 bytes, and `key` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_ed25519_key_new(
    seed: *const u8,
    key: *mut *mut Ed25519Key,
) -> Status {
    let made = || {
        // SAFETY: the caller vouches for it.
        let seed = unsafe { door::reference(seed.cast::<[u8; 32]>()) }?;
        Ok(Ed25519Key(SigningKey::from_seed(seed)))
    };
    // SAFETY: the caller vouches for it.
    unsafe { door::make(key, made) }
}

/// Writes the 32 bytes of the public key.
///
/// # Safety
///
/// `key` is one that is not freed, and 32 bytes can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_ed25519_public_key(
    key: *const Ed25519Key,
    public_key: *mut u8,
) -> Status {
    door::guarded(|| {
        // SAFETY: the caller vouches for it.
        let key = unsafe { door::reference(key) }?;
        // SAFETY: the caller vouches for it.
        let place = unsafe { door::exclusive(public_key.cast::<[u8; 32]>()) }?;
        *place = key.0.public();
        Ok(())
    })
}

/// Wipes and frees a key.
///
/// # Safety
///
/// `key` is null or one that is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_ed25519_key_free(key: *mut Ed25519Key) {
    // SAFETY: the caller vouches for it.
    unsafe { door::take(key) }
}

jobs::lent!(Ed25519SignJob as SignJob<'a>, |job| {
    key: reference(job.key),
    message: array(job.message, job.message_length),
    signature: exclusive(job.signature.cast::<[u8; 64]>()),
} => SignJob::new(&key.0, message, signature));

jobs::lent!(Ed25519VerifyJob as VerifyJob<'a>, |job| {
    public_key: reference(job.public_key.cast::<[u8; 32]>()),
    message: array(job.message, job.message_length),
    signature: reference(job.signature.cast::<[u8; 64]>()),
} => VerifyJob::new(public_key, message, signature));

/// Signs messages.
///
/// # Safety
///
/// `crypto` is one that is not freed; there are `job_count` jobs, each points to what it says, and
/// no signature overlaps anything else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_ed25519_sign_batch(
    crypto: *const Crypto,
    jobs: *mut Ed25519SignJob,
    job_count: usize,
) -> Status {
    // SAFETY: the caller vouches for it.
    unsafe {
        jobs::batch(jobs, job_count, |mut jobs| {
            door::reference(crypto)?.ed25519.sign_batch(&mut jobs);
            Ok(jobs.iter().map(|job| outcome(job.outcome)).collect())
        })
    }
}

/// Verifies signatures; that of a job whose status is `WIDELANE_STATUS_OK` is good.
///
/// # Safety
///
/// `crypto` is one that is not freed; there are `job_count` jobs, and each points to what it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_ed25519_verify_batch(
    crypto: *const Crypto,
    jobs: *mut Ed25519VerifyJob,
    job_count: usize,
) -> Status {
    // SAFETY: the caller vouches for it.
    unsafe {
        jobs::batch(jobs, job_count, |mut jobs| {
            door::reference(crypto)?.ed25519.verify_batch(&mut jobs);
            Ok(jobs.iter().map(|job| outcome(job.outcome)).collect())
        })
    }
}

fn outcome(outcome: Outcome) -> jobs::Outcome {
    match outcome {
        Outcome::Done => Ok(()),
        Outcome::Rejected => {
            refused(Status::Rejected, "the signature is not that of this message and this key")
        }
        Outcome::Pending => refused(Status::Defect, "it was not executed"),
    }
}
