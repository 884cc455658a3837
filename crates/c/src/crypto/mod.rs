//! Batches of cryptography, in the words of `widelane-crypto`.
//!
//! Jobs are an array; each has a key of its own and gets a status of its own. A batch with a job
//! that has a null pointer where bytes belong, or an output that overlaps something else of it, is
//! refused as a whole, before any job is executed: all its jobs get the status of the call.
#![allow(unsafe_code, reason = "functions for C")]
#![allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "whoever calls vouches for all pointers of a job at once"
)]

pub mod aead;
pub mod cbc_hmac;
pub mod ec;
pub mod ed25519;
pub mod hash;
mod jobs;
pub mod mlkem;
pub mod rsa;
pub mod x25519;

use widelane_cpu::Policy;
use widelane_crypto::ec::Ec;
use widelane_crypto::ed25519::Ed25519;
use widelane_crypto::rsa::Rsa;
use widelane_crypto::x25519::X25519;

use crate::door;
use crate::status::Status;

/// What was chosen for this machine; may be used by several threads at once.
#[derive(Debug)]
pub struct Crypto {
    policy: Policy,
    rsa: Rsa,
    ec: Ec,
    x25519: X25519,
    ed25519: Ed25519,
}

/// Chooses the widest rooms that the machine has, with registers of at most `width_max` bits: 128,
/// 256 or 512, or 0 for no limit.
///
/// # Safety
///
/// `crypto` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_crypto_choose(
    width_max: u32,
    crypto: *mut *mut Crypto,
) -> Status {
    let made = || {
        let policy = door::policy(width_max)?;
        Ok(Crypto {
            rsa: Rsa::choose(&policy),
            ec: Ec::choose(&policy),
            x25519: X25519::choose(&policy),
            ed25519: Ed25519::choose(&policy),
            policy,
        })
    };
    // SAFETY: the caller vouches for it.
    unsafe { door::make(crypto, made) }
}

/// How many jobs of public keys a full batch has: fewer cost as much. On CPUs without AVX-512 IFMA
/// this holds for curves, and RSA does one job after another. 0 for null.
///
/// # Safety
///
/// `crypto` is null or one that is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_crypto_lanes(crypto: *const Crypto) -> usize {
    // SAFETY: the caller vouches for it.
    unsafe { crypto.as_ref() }.map_or(0, |crypto| crypto.ec.lanes().max(crypto.rsa.lanes()))
}

/// Frees what was chosen; keys that were made with it stay.
///
/// # Safety
///
/// `crypto` is null or one that is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_crypto_free(crypto: *mut Crypto) {
    // SAFETY: the caller vouches for it.
    unsafe { door::take(crypto) }
}
