//! RSA.
#![allow(unsafe_code, reason = "functions for C")]

use widelane_crypto::rsa::{Components, Outcome, PrivateJob, PrivateKey};

use super::Crypto;
use super::jobs::{self, refused};
use crate::door;
use crate::status::Status;

/// The numbers of an RSA private key (RFC 8017, 3.2), big-endian, leading zeros allowed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RsaComponents {
    /// The modulus.
    pub n: *const u8,
    /// How many bytes it has.
    pub n_length: usize,
    /// The public exponent.
    pub e: *const u8,
    /// How many bytes it has.
    pub e_length: usize,
    /// The first prime.
    pub p: *const u8,
    /// How many bytes it has.
    pub p_length: usize,
    /// The second prime.
    pub q: *const u8,
    /// How many bytes it has.
    pub q_length: usize,
    /// The inverse of `e` modulo `p` - 1.
    pub dp: *const u8,
    /// How many bytes it has.
    pub dp_length: usize,
    /// The inverse of `e` modulo `q` - 1.
    pub dq: *const u8,
    /// How many bytes it has.
    pub dq_length: usize,
    /// The inverse of `q` modulo `p`.
    pub qinv: *const u8,
    /// How many bytes it has.
    pub qinv_length: usize,
}

/// An RSA private key; may be used by several threads at once.
pub struct RsaKey(PrivateKey);

/// One private operation: `output` = `input`^d mod n, big-endian and as long as the modulus.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RsaJob {
    /// The key, which may differ from job to job.
    pub key: *const RsaKey,
    /// What is raised to the private exponent: an encoded message or a ciphertext.
    pub input: *const u8,
    /// Where the result goes; zeros if there is none, and left as it is if `length` is wrong.
    pub output: *mut u8,
    /// How many bytes input and output have each: as many as the modulus.
    pub length: usize,
    /// What became of the job: one of `widelane_status`.
    pub status: u32,
}

/// Takes over a key of 2048, 3072 or 4096 bits. Uses up to 80 KiB of stack.
///
/// # Safety
///
/// `components` points to numbers of as many bytes as said, and `key` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_rsa_key_new(
    components: *const RsaComponents,
    key: *mut *mut RsaKey,
) -> Status {
    let made = || {
        // SAFETY: the caller vouches for it.
        let imported = unsafe {
            let these = door::reference(components)?;
            PrivateKey::from_components(&Components {
                n: door::array(these.n, these.n_length)?,
                e: door::array(these.e, these.e_length)?,
                p: door::array(these.p, these.p_length)?,
                q: door::array(these.q, these.q_length)?,
                dp: door::array(these.dp, these.dp_length)?,
                dq: door::array(these.dq, these.dq_length)?,
                qinv: door::array(these.qinv, these.qinv_length)?,
            })
        };
        let imported = imported.map_err(|error| Status::Key.because(error))?;
        Ok(RsaKey(imported))
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
pub unsafe extern "C" fn widelane_rsa_key_free(key: *mut RsaKey) {
    // SAFETY: the caller vouches for it.
    unsafe { door::take(key) }
}

jobs::lent!(RsaJob as PrivateJob<'a>, |job| {
    key: reference(job.key),
    input: array(job.input, job.length),
    output: places(job.output, job.length),
} => PrivateJob::new(&key.0, input, output));

/// Executes private operations; each result is checked with the public exponent before it leaves.
/// Uses up to 160 KiB of stack.
///
/// # Safety
///
/// `crypto` is one that is not freed; there are `job_count` jobs, each points to what it says, and
/// no output overlaps anything else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_rsa_private_batch(
    crypto: *const Crypto,
    jobs: *mut RsaJob,
    job_count: usize,
) -> Status {
    // SAFETY: the caller vouches for it.
    unsafe {
        jobs::batch(jobs, job_count, |mut jobs| {
            door::reference(crypto)?.rsa.private_batch(&mut jobs);
            Ok(jobs.iter().map(|job| outcome(job.outcome)).collect())
        })
    }
}

fn outcome(outcome: Outcome) -> jobs::Outcome {
    match outcome {
        Outcome::Done => Ok(()),
        Outcome::InputOutOfRange => {
            refused(Status::Argument, "the input is not below the modulus, or not as long")
        }
        Outcome::FaultDetected => {
            refused(Status::Fault, "the public operation does not take the result back")
        }
        Outcome::Pending => refused(Status::Defect, "it was not executed"),
    }
}
