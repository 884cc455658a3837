//! Operations with private keys, and verifications: how several that are under way at once meet in
//! one batch.
//!
//! How an operation meets others depends on its caller, and is decided call by call
//! (`docs/program/provider-async.md`):
//!
//! | Caller | Meets | In |
//! |---|---|---|
//! | handshake on a fibre of the runtime | its loop's and [others'](combining) | [`event_loop`] |
//! | other ASYNC job | others of the process | [`native`] |
//! | thread that can only wait | those that arrive while every CPU is busy | [`blocking`] |
//!
//! A thread that finds no other operation executes its own at once. Some operations are executed
//! elsewhere, by [engines](engine).
#![allow(unsafe_code, reason = "calls libcrypto")]

mod blocking;
pub(crate) mod combining;
pub(crate) mod engine;
pub(crate) mod event_loop;
pub(crate) mod execute;
pub(crate) mod kernel;
pub(crate) mod kinds;
mod lane_process;
mod measured;
mod native;
mod notify;
mod operation;
mod owner;
pub(crate) mod queues;
mod request;
mod signals;

use std::ptr::NonNull;

use widelane_ossl_sys::Libcrypto;

use self::request::Answer;
use crate::counters::{count, count_delegated};
use crate::secret::Secret;
use crate::{process, runtime, switch};
pub(crate) use operation::{Operation, Skill, Task};
pub(crate) use request::Request;

/// What came of an operation.
pub(crate) enum Made {
    /// This.
    Done(Secret),
    /// Nothing yet: it is the default provider's to do.
    Theirs,
    /// Nothing, and the default provider is not to do it either.
    Nothing,
}

impl Made {
    /// What was made, or what the default provider makes where that is to do it.
    pub(crate) fn or_theirs(self, theirs: impl FnOnce() -> Option<Secret>) -> Option<Secret> {
        match self {
            Made::Done(made) => Some(made),
            Made::Theirs => theirs(),
            Made::Nothing => None,
        }
    }
}

/// Does an operation.
///
/// May pause the fibre or ASYNC job that the caller runs in.
pub(crate) fn run(operation: impl Operation) -> Made {
    match answer(Request::new(operation)) {
        Answer::Done(made) => Made::Done(made),
        Answer::Failed => {
            count(&process::current().counters().fallbacks);
            Made::Theirs
        }
        Answer::Rejected => Made::Theirs,
        Answer::Cancelled => Made::Nothing,
    }
}

fn answer(request: Request) -> Answer {
    if switch::is_off() {
        count_delegated(request.kind());
        return request.run_single();
    }
    // The runtime drives handshakes on fibres of its own: there is no ASYNC job then.
    if let Some(handshake) = runtime::current() {
        return event_loop::run(request, handshake);
    }
    // SAFETY: no arguments.
    let job = NonNull::new(unsafe { (request.libcrypto().ASYNC_get_current_job)() });
    match job {
        Some(job) => native::run(request, job),
        None => blocking::run(request),
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
