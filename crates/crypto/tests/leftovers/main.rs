//! What memory holds after keys are dropped and messages done with: none of their secrets.

mod aead;
mod cbc_hmac;
mod curve25519;
mod ec;
mod kdf;
mod mac;
mod mlkem;
mod rsa;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits until no other test has secrets in the memory of this process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
