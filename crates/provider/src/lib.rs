//! `widelane.so`: an OpenSSL provider that does operations with private keys several at a time.
//!
//! It speaks the public provider interface only, so that one file serves OpenSSL 3.0 to 4.x. Keys,
//! parameters, verification and whatever is unusual stay with the default provider, whose functions
//! we call in a library context of our own ([`delegate`]); our objects wrap its objects. Only keys
//! of ML-KEM ([`kem`]) and most of those on curves that we know ([`curve`]) are held by ourselves;
//! those that a handshake makes and forgets are made in advance ([`pool`]). What we take over are
//! the operations themselves ([`batching`]): where several are under way at once, they share one
//! run of a multi-buffer kernel. `docs/program/provider-async.md` describes how they meet.
//!
//! **Invariant**: a failure of ours is answered by the default provider, and counted.

// It panics where standard error cannot be written: see `errors::say`.
#![deny(clippy::print_stderr)]

mod batching;
mod choosing;
mod cipher;
mod config;
mod counters;
mod curve;
mod delegate;
mod digest;
mod entry;
mod errors;
mod init;
mod instance;
mod kdf;
mod kem;
mod keymgmt;
mod known;
mod lent;
mod params;
mod pool;
mod process;
mod rsa;
mod runtime;
mod secret;
mod signature;
mod stack;
mod switch;

use std::sync::Arc;

use crate::batching::kinds::BatchedKind;
use crate::delegate::Delegate;
use crate::instance::Offer;

/// The families of algorithms. A new one needs a line here, a module with its `FAMILY`, and what it
/// takes of the default provider in [`delegate`].
const FAMILIES: [&Family; 5] =
    [&cipher::FAMILY, &kdf::FAMILY, &rsa::FAMILY, &curve::FAMILY, &kem::FAMILY];

/// Algorithms that share a module.
struct Family {
    /// What we offer of them over what the default provider has.
    offers: fn(&Arc<Delegate>) -> Vec<Offer>,
    /// Their kinds of operations with kernels.
    kinds: &'static [&'static [BatchedKind]],
}

#[global_allocator]
static ALLOCATOR: widelane_reserve::Reserved = widelane_reserve::Reserved;
