//! AES-CBC with HMAC.
#![allow(unsafe_code, reason = "functions for C")]

use widelane_crypto::cbc_hmac::{
    self, Algorithm, BLOCK_BYTES, CbcHmac, CbcHmacError, Header, Key, Mode, Outcome, SealJob,
};

use super::Crypto;
use super::jobs::{self, refused};
use crate::door;
use crate::status::Status;

/// An algorithm of AES-CBC with HMAC.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CbcHmacAlgorithm {
    /// AES with a key of 16 bytes, HMAC-SHA-1.
    Aes128Sha1 = 0,
    /// AES with a key of 32 bytes, HMAC-SHA-1.
    Aes256Sha1 = 1,
    /// AES with a key of 16 bytes, HMAC-SHA-256.
    Aes128Sha256 = 2,
    /// AES with a key of 32 bytes, HMAC-SHA-256.
    Aes256Sha256 = 3,
}

/// What is authenticated.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CbcHmacMode {
    /// The text, whose tag is encrypted with it (RFC 5246, 6.2.3.2).
    MacThenEncrypt = 0,
    /// The ciphertext and the IV that the record brings, from TLS 1.1 on; the tag stands behind
    /// them (RFC 7366).
    EncryptThenMac = 1,
}

const MODES: [Mode; 2] = [Mode::MacThenEncrypt, Mode::EncryptThenMac];

/// The keys of one direction of a connection; may be used by several threads at once.
pub struct CbcHmacKey(Key);

/// One record, sealed or opened where it is.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CbcHmacJob {
    /// The keys, which may differ from job to job.
    pub key: *const CbcHmacKey,
    /// The IV, 16 bytes.
    pub iv: *const u8,
    /// The number of the record.
    pub sequence: u64,
    /// Its version: 0x0303 is TLS 1.2.
    pub version: u16,
    /// Its content type: 23 is application data.
    pub kind: u8,
    /// The record: its text, and behind it tag and padding.
    pub record: *mut u8,
    /// How many bytes it has: `widelane_cbc_hmac_record_bytes` of its text.
    pub record_length: usize,
    /// How many of them are the text: read when sealing, written when opening.
    pub text_length: usize,
    /// What became of the job: one of `widelane_status`.
    pub status: u32,
}

/// Expands the keys; `algorithm` is one of `widelane_cbc_hmac_algorithm`, and `mode` one of
/// `widelane_cbc_hmac_mode`.
///
/// # Safety
///
/// `crypto` is one that is not freed, there are as many bytes as said, and `key` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_cbc_hmac_key_new(
    crypto: *const Crypto,
    algorithm: u32,
    mode: u32,
    cipher: *const u8,
    cipher_length: usize,
    mac: *const u8,
    mac_length: usize,
    key: *mut *mut CbcHmacKey,
) -> Status {
    let made = || {
        let algorithm = door::choice(&Algorithm::ALL, algorithm, "algorithm")?;
        let mode = door::choice(&MODES, mode, "mode")?;
        // SAFETY: the caller vouches for it.
        let (crypto, cipher, mac) = unsafe {
            let cipher = door::array(cipher, cipher_length)?;
            (door::reference(crypto)?, cipher, door::array(mac, mac_length)?)
        };
        let expanded = CbcHmac::choose(algorithm, mode, &crypto.policy).key(cipher, mac);
        let expanded = expanded.map_err(|error| Status::Argument.because(error))?;
        Ok(CbcHmacKey(expanded))
    };
    // SAFETY: the caller vouches for it.
    unsafe { door::make(key, made) }
}

/// How many bytes the record of a text has: what of it stands behind the IV. 0 for null, and for a
/// text that is too long for one record.
///
/// # Safety
///
/// `key` is null or one that is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_cbc_hmac_record_bytes(
    key: *const CbcHmacKey,
    text_length: usize,
) -> usize {
    let bytes = |CbcHmacKey(key): &CbcHmacKey| {
        if text_length > key.text_bytes_max() { 0 } else { key.record_bytes(text_length) }
    };
    // SAFETY: the caller vouches for it.
    unsafe { key.as_ref() }.map_or(0, bytes)
}

/// Wipes and frees the keys.
///
/// # Safety
///
/// `key` is null or one that is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_cbc_hmac_key_free(key: *mut CbcHmacKey) {
    // SAFETY: the caller vouches for it.
    unsafe { door::take(key) }
}

jobs::lent!(CbcHmacJob as SealJob<'a>, |job| {
    key: reference(job.key),
    iv: reference(job.iv.cast::<[u8; BLOCK_BYTES]>()),
    record: places(job.record, job.record_length),
} => SealJob {
    key: &key.0,
    iv,
    header: Header { sequence: job.sequence, kind: job.kind, version: job.version },
    text_bytes: job.text_length,
    record,
    outcome: Outcome::Pending,
});

/// Seals records: authenticates, pads and encrypts each text.
///
/// # Safety
///
/// There are `job_count` jobs; each points to what it says, and no record overlaps anything else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_cbc_hmac_seal_many(
    jobs: *mut CbcHmacJob,
    job_count: usize,
) -> Status {
    // SAFETY: the caller vouches for it.
    unsafe {
        jobs::batch(jobs, job_count, |mut jobs| {
            cbc_hmac::seal_many(&mut jobs);
            let outcome = |job: &SealJob<'_>| match job.outcome {
                Outcome::Done => Ok(()),
                Outcome::Refused(error) => refused(Status::Argument, error),
                Outcome::Pending => refused(Status::Defect, "it was not executed"),
            };
            Ok(jobs.iter().map(outcome).collect())
        })
    }
}

/// Opens records: decrypts and checks each, writes how long its text is, and clears those that are
/// not good.
///
/// # Safety
///
/// As for `widelane_cbc_hmac_seal_many`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_cbc_hmac_open_many(
    jobs: *mut CbcHmacJob,
    job_count: usize,
) -> Status {
    let open = |jobs: &mut [CbcHmacJob]| {
        // SAFETY: the caller vouches for it.
        let lent = unsafe { jobs::lend(jobs) }?;
        let opened: Vec<Result<usize, CbcHmacError>> =
            lent.into_iter().map(|job| job.key.open(job.iv, job.header, job.record)).collect();
        for (job, opened) in jobs.iter_mut().zip(&opened) {
            job.text_length = opened.unwrap_or(0);
        }
        let outcome = |opened: Result<usize, CbcHmacError>| match opened {
            Ok(_) => Ok(()),
            Err(error) => refused(Status::Rejected, error),
        };
        Ok(opened.into_iter().map(outcome).collect())
    };
    // SAFETY: the caller vouches for it.
    unsafe { jobs::batch_of(jobs, job_count, open) }
}
