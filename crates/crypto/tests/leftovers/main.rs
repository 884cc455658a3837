//! What memory holds after keys are dropped and messages done with: none of their secrets.

mod aead;
mod cbc_hmac;
mod curve25519;
mod ec;
mod kdf;
mod mac;
mod mlkem;
mod rsa;

use std::hint::black_box;
use std::sync::{Mutex, MutexGuard, PoisonError};

use widelane_secret::wipe;

/// Does something far down the stack, where what it leaves is not overwritten by the search.
#[inline(never)]
fn deep_down<T>(work: impl FnOnce() -> T) -> T {
    let mut above = [0u8; 32 << 10];
    black_box(&mut above);
    let done = work();
    black_box(&mut above);
    done
}

/// Wipes the stack below its caller: what other libraries and a search have left there is no affair
/// of ours.
#[inline(never)]
fn scrub() {
    wipe(&mut [0u64; 8192]);
}

/// Drops a key and, after a look at it, one that was made of it.
#[inline(never)]
fn drop_twice<T: Clone>(key: T, look: impl FnOnce(&T)) {
    let other = black_box(key.clone());
    drop(key);
    look(black_box(&other));
}

/// Waits until no other test has secrets in the memory of this process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
