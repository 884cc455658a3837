//! Key agreement on curve25519.
#![allow(unsafe_code, reason = "functions for C")]

use widelane_crypto::x25519::{DeriveJob, GenerateJob, Outcome, PrivateKey};

use super::Crypto;
use super::jobs::{self, refused};
use crate::door;
use crate::status::Status;

/// A private key of X25519; may be used by several threads at once.
#[derive(Debug)]
pub struct X25519Key(PrivateKey);

/// One public key to be made of a private one.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct X25519GenerateJob {
    /// The private key.
    pub private_key: *const X25519Key,
    /// Where the public key goes, 32 bytes.
    pub public_key: *mut u8,
    /// What became of the job: one of `widelane_status`.
    pub status: u32,
}

/// One shared secret to be derived.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct X25519DeriveJob {
    /// Our private key.
    pub private_key: *const X25519Key,
    /// The peer's public key, 32 bytes.
    pub peer: *const u8,
    /// Where the shared secret goes, 32 bytes; zeros if the peer's key is refused.
    pub shared: *mut u8,
    /// What became of the job: one of `widelane_status`.
    pub status: u32,
}

/// Takes over a private key: any 32 bytes.
///
/// # Safety
///
/// There are 32 bytes, and `key` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_x25519_key_new(
    bytes: *const u8,
    key: *mut *mut X25519Key,
) -> Status {
    let made = || {
        // SAFETY: the caller vouches for it.
        let bytes = unsafe { door::reference(bytes.cast::<[u8; 32]>()) }?;
        Ok(X25519Key(PrivateKey::from_bytes(bytes)))
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
pub unsafe extern "C" fn widelane_x25519_key_free(key: *mut X25519Key) {
    // SAFETY: the caller vouches for it.
    unsafe { door::take(key) }
}

jobs::lent!(X25519GenerateJob as GenerateJob<'a>, |job| {
    private_key: reference(job.private_key),
    public_key: exclusive(job.public_key.cast::<[u8; 32]>()),
} => GenerateJob::new(&private_key.0, public_key));

jobs::lent!(X25519DeriveJob as DeriveJob<'a>, |job| {
    private_key: reference(job.private_key),
    peer: reference(job.peer.cast::<[u8; 32]>()),
    shared: exclusive(job.shared.cast::<[u8; 32]>()),
} => DeriveJob::new(&private_key.0, peer, shared));

/// Makes public keys.
///
/// # Safety
///
/// `crypto` is one that is not freed; there are `job_count` jobs, each points to what it says, and
/// no output overlaps anything else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_x25519_generate_batch(
    crypto: *const Crypto,
    jobs: *mut X25519GenerateJob,
    job_count: usize,
) -> Status {
    // SAFETY: the caller vouches for it.
    unsafe {
        jobs::batch(jobs, job_count, |mut jobs| {
            door::reference(crypto)?.x25519.generate_batch(&mut jobs);
            Ok(jobs.iter().map(|_| Ok(())).collect())
        })
    }
}

/// Derives shared secrets.
///
/// # Safety
///
/// As for `widelane_x25519_generate_batch`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_x25519_derive_batch(
    crypto: *const Crypto,
    jobs: *mut X25519DeriveJob,
    job_count: usize,
) -> Status {
    // SAFETY: the caller vouches for it.
    unsafe {
        jobs::batch(jobs, job_count, |mut jobs| {
            door::reference(crypto)?.x25519.derive_batch(&mut jobs);
            Ok(jobs.iter().map(|job| outcome(job.outcome)).collect())
        })
    }
}

fn outcome(outcome: Outcome) -> jobs::Outcome {
    match outcome {
        Outcome::Done => Ok(()),
        Outcome::ZeroSharedSecret => {
            refused(Status::Rejected, "the peer's public key is a point of small order")
        }
        Outcome::Pending => refused(Status::Defect, "it was not executed"),
    }
}
