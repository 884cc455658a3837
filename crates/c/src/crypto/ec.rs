//! ECDH and ECDSA on P-256 and P-384.
#![allow(unsafe_code, reason = "functions for C")]

use widelane_crypto::ec::{
    self, DeriveJob, GenerateJob, Outcome, PrivateKey, PublicKey, SignJob, VerifyJob,
};

use super::Crypto;
use super::jobs::{self, refused};
use crate::door;
use crate::status::Status;

/// An elliptic curve.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    /// NIST P-256, whose coordinates have 32 bytes.
    P256 = 0,
    /// NIST P-384, whose coordinates have 48 bytes.
    P384 = 1,
}

/// A private key on a curve; may be used by several threads at once.
#[derive(Debug)]
pub struct EcPrivateKey(PrivateKey);

/// A public key on a curve; may be used by several threads at once.
#[derive(Debug)]
pub struct EcPublicKey(PublicKey);

/// One public key to be made of a private one.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EcGenerateJob {
    /// The private key.
    pub private_key: *const EcPrivateKey,
    /// Where the public key goes, as 04 || x || y.
    pub public_key: *mut u8,
    /// How many bytes there are for it: two coordinates and one. If not, nothing is written.
    pub public_key_length: usize,
    /// What became of the job: one of `widelane_status`.
    pub status: u32,
}

/// One shared secret to be derived.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EcDeriveJob {
    /// Our private key.
    pub private_key: *const EcPrivateKey,
    /// The peer's public key, on the same curve.
    pub peer: *const EcPublicKey,
    /// Where the shared secret goes, an x coordinate.
    pub shared: *mut u8,
    /// How many bytes there are for it: one coordinate. If not, nothing is written.
    pub shared_length: usize,
    /// What became of the job: one of `widelane_status`.
    pub status: u32,
}

/// One digest to be signed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EcSignJob {
    /// The private key.
    pub key: *const EcPrivateKey,
    /// The digest.
    pub digest: *const u8,
    /// How many bytes it has.
    pub digest_length: usize,
    /// Fresh random bytes, 32 of them.
    pub entropy: *const u8,
    /// Where the signature goes, as r || s.
    pub signature: *mut u8,
    /// How many bytes there are for it: two coordinates. If not, nothing is written.
    pub signature_length: usize,
    /// What became of the job: one of `widelane_status`.
    pub status: u32,
}

/// One signature to be verified.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EcVerifyJob {
    /// The public key.
    pub key: *const EcPublicKey,
    /// The digest.
    pub digest: *const u8,
    /// How many bytes it has.
    pub digest_length: usize,
    /// The signature, as r || s.
    pub signature: *const u8,
    /// How many bytes it has: two coordinates.
    pub signature_length: usize,
    /// What became of the job: one of `widelane_status`.
    pub status: u32,
}

/// Takes over a private key, big-endian and as long as a coordinate; `curve` is one of
/// `widelane_curve`.
///
/// # Safety
///
/// There are as many bytes as said, and `key` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_ec_private_key_new(
    curve: u32,
    bytes: *const u8,
    length: usize,
    key: *mut *mut EcPrivateKey,
) -> Status {
    let made = || {
        let curve = door::choice(&ec::Curve::ALL, curve, "curve")?;
        // SAFETY: the caller vouches for it.
        let bytes = unsafe { door::array(bytes, length) }?;
        let imported = PrivateKey::from_bytes(curve, bytes);
        let imported = imported.map_err(|error| Status::Key.because(error))?;
        Ok(EcPrivateKey(imported))
    };
    // SAFETY: the caller vouches for it.
    unsafe { door::make(key, made) }
}

/// Wipes and frees a private key.
///
/// # Safety
///
/// `key` is null or one that is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_ec_private_key_free(key: *mut EcPrivateKey) {
    // SAFETY: the caller vouches for it.
    unsafe { door::take(key) }
}

/// Takes over a public key, as 04 || x || y; `curve` is one of `widelane_curve`.
///
/// # Safety
///
/// There are as many bytes as said, and `key` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_ec_public_key_new(
    curve: u32,
    bytes: *const u8,
    length: usize,
    key: *mut *mut EcPublicKey,
) -> Status {
    let made = || {
        let curve = door::choice(&ec::Curve::ALL, curve, "curve")?;
        // SAFETY: the caller vouches for it.
        let bytes = unsafe { door::array(bytes, length) }?;
        let imported = PublicKey::from_uncompressed(curve, bytes);
        let imported = imported.map_err(|error| Status::Key.because(error))?;
        Ok(EcPublicKey(imported))
    };
    // SAFETY: the caller vouches for it.
    unsafe { door::make(key, made) }
}

/// Frees a public key.
///
/// # Safety
///
/// `key` is null or one that is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_ec_public_key_free(key: *mut EcPublicKey) {
    // SAFETY: the caller vouches for it.
    unsafe { door::take(key) }
}

jobs::lent!(EcGenerateJob as GenerateJob<'a>, |job| {
    private_key: reference(job.private_key),
    public_key: places(job.public_key, job.public_key_length),
} => GenerateJob::new(&private_key.0, public_key));

jobs::lent!(EcDeriveJob as DeriveJob<'a>, |job| {
    private_key: reference(job.private_key),
    peer: reference(job.peer),
    shared: places(job.shared, job.shared_length),
} => DeriveJob::new(&private_key.0, &peer.0, shared));

jobs::lent!(EcSignJob as SignJob<'a>, |job| {
    key: reference(job.key),
    digest: array(job.digest, job.digest_length),
    entropy: reference(job.entropy.cast::<[u8; 32]>()),
    signature: places(job.signature, job.signature_length),
} => SignJob::new(&key.0, digest, entropy, signature));

jobs::lent!(EcVerifyJob as VerifyJob<'a>, |job| {
    key: reference(job.key),
    digest: array(job.digest, job.digest_length),
    signature: array(job.signature, job.signature_length),
} => VerifyJob::new(&key.0, digest, signature));

/// Makes public keys. Uses up to 64 KiB of stack, as every batch on these curves.
///
/// # Safety
///
/// `crypto` is one that is not freed; there are `job_count` jobs, each points to what it says, and
/// no output overlaps anything else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_ec_generate_batch(
    crypto: *const Crypto,
    jobs: *mut EcGenerateJob,
    job_count: usize,
) -> Status {
    // SAFETY: the caller vouches for it.
    unsafe {
        jobs::batch(jobs, job_count, |mut jobs| {
            door::reference(crypto)?.ec.generate_batch(&mut jobs);
            Ok(jobs.iter().map(|job| outcome(job.outcome)).collect())
        })
    }
}

/// Derives shared secrets.
///
/// # Safety
///
/// As for `widelane_ec_generate_batch`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_ec_derive_batch(
    crypto: *const Crypto,
    jobs: *mut EcDeriveJob,
    job_count: usize,
) -> Status {
    // SAFETY: the caller vouches for it.
    unsafe {
        jobs::batch(jobs, job_count, |mut jobs| {
            door::reference(crypto)?.ec.derive_batch(&mut jobs);
            Ok(jobs.iter().map(|job| outcome(job.outcome)).collect())
        })
    }
}

/// Signs digests by ECDSA.
///
/// # Safety
///
/// As for `widelane_ec_generate_batch`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_ec_sign_batch(
    crypto: *const Crypto,
    jobs: *mut EcSignJob,
    job_count: usize,
) -> Status {
    // SAFETY: the caller vouches for it.
    unsafe {
        jobs::batch(jobs, job_count, |mut jobs| {
            door::reference(crypto)?.ec.sign_batch(&mut jobs);
            Ok(jobs.iter().map(|job| outcome(job.outcome)).collect())
        })
    }
}

/// Verifies signatures of ECDSA; that of a job whose status is `WIDELANE_STATUS_OK` is good.
///
/// # Safety
///
/// `crypto` is one that is not freed; there are `job_count` jobs, and each points to what it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_ec_verify_batch(
    crypto: *const Crypto,
    jobs: *mut EcVerifyJob,
    job_count: usize,
) -> Status {
    // SAFETY: the caller vouches for it.
    unsafe {
        jobs::batch(jobs, job_count, |mut jobs| {
            door::reference(crypto)?.ec.verify_batch(&mut jobs);
            Ok(jobs.iter().map(|job| outcome(job.outcome)).collect())
        })
    }
}

fn outcome(outcome: Outcome) -> jobs::Outcome {
    match outcome {
        Outcome::Done => Ok(()),
        Outcome::Mismatched => {
            refused(Status::Argument, "a length is not that of the curve, or the keys are on two")
        }
        Outcome::Rejected => {
            refused(Status::Rejected, "the signature is not that of this digest and this key")
        }
        Outcome::FaultDetected => refused(Status::Fault, "the result failed its check"),
        Outcome::Pending => refused(Status::Defect, "it was not executed"),
    }
}
