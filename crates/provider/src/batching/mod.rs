//! Private-key operations: how several that are under way at once meet in one batch.
//!
//! How an operation meets others depends on who asks for it, and is decided call by call
//! (`docs/provider-async.md`):
//!
//! | Caller | Meets | In |
//! |---|---|---|
//! | handshake on a fibre of the runtime's | others of its event loop | [`event_loop`] |
//! | other ASYNC job | others of the process | [`native`] |
//! | thread that can only wait | those that arrive while every CPU signs | [`blocking`] |
//!
//! A thread that is alone finds nobody there and does its operation at once.
#![allow(unsafe_code, reason = "calls libcrypto")]

mod blocking;
pub(crate) mod event_loop;
mod execute;
mod native;
mod notify;
mod owner;
pub(crate) mod queues;
mod request;

use std::ptr::NonNull;
use std::sync::Arc;

use widelane_ossl_sys::Libcrypto;

use crate::key::Key;
use crate::runtime;
use request::Request;
pub(crate) use request::{Answer, Secret};

/// Does a private-key operation on `input`, which is as long as the modulus, with a key that is
/// [accelerated](Key::accelerated).
///
/// May pause the fibre or ASYNC job that the caller runs in.
pub(crate) fn private_operation(key: Arc<Key>, input: &[u8]) -> Answer {
    // The runtime drives handshakes on fibres of its own: there is no ASYNC job then.
    if let Some(handshake) = runtime::current() {
        return event_loop::run(Request::new(key, input), handshake);
    }
    // SAFETY: no arguments.
    let job = NonNull::new(unsafe { (key.delegate().libcrypto.ASYNC_get_current_job)() });
    match job {
        Some(job) => native::run(Request::new(key, input), job),
        None => blocking::run(Request::new(key, input)),
    }
}

/// Leaves the ASYNC job that the caller runs in until its owner resumes it.
fn pause(libcrypto: &Libcrypto) -> bool {
    // SAFETY: no arguments.
    unsafe { (libcrypto.ASYNC_pause_job)() > 0 }
}

/// Times that a job is resumed without its answer before it helps itself. A pause that does not
/// pause, because the program has blocked it, is noticed by this in a fraction of a millisecond.
const PAUSES_MAX: u32 = 10_000;
