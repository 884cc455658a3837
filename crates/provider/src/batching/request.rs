//! One operation under way, and its answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use widelane_bridge::counters::OperationKind;
use widelane_ossl_sys::Libcrypto;

use crate::batching::operation::Operation;
use crate::errors::quietly;
use crate::secret::Secret;

/// One operation under way.
///
/// It lives on the heap and is shared between its owner and the queue: an ASYNC job that owns it
/// may be abandoned at any time, stack and all.
pub(crate) struct Request {
    kind: OperationKind,
    operation: Box<dyn Operation>,
    answer: Mutex<Option<Answer>>,
    withdrawn: AtomicBool,
}

/// What became of an operation.
pub(super) enum Answer {
    /// The result.
    Done(Secret),
    /// It failed in our hands; the default provider may still do it.
    Failed,
    /// Its input is at fault, as the default provider will say.
    Rejected,
    /// Its owner does not want it any more.
    Cancelled,
}

impl Request {
    pub(crate) fn new(operation: impl Operation) -> Self {
        Request {
            kind: operation.kind(),
            operation: Box::new(operation),
            answer: Mutex::new(None),
            withdrawn: AtomicBool::new(false),
        }
    }

    /// The kind of the operation.
    pub(super) fn kind(&self) -> OperationKind {
        self.kind
    }

    /// The operation.
    pub(super) fn operation(&self) -> &dyn Operation {
        &*self.operation
    }

    /// The libcrypto that asked for it.
    pub(super) fn libcrypto(&self) -> &Libcrypto {
        self.operation.libcrypto()
    }

    /// Does the operation alone, by the default provider.
    ///
    /// The errors of a failure are discarded, since they may be on another thread's queue than the
    /// caller's: the caller tries again.
    pub(super) fn run_single(&self) -> Answer {
        let done = quietly(self.libcrypto(), || self.operation.run_single());
        done.map_or(Answer::Rejected, Answer::Done)
    }

    /// The owner does not wait for the answer any more.
    pub(super) fn withdraw(&self) {
        self.withdrawn.store(true, Ordering::Release);
    }

    /// Whether the owner still waits for the answer.
    pub(super) fn is_wanted(&self) -> bool {
        !self.withdrawn.load(Ordering::Acquire)
    }

    /// The place of the answer, locked: what is done under the lock becomes visible together with
    /// the answer.
    pub(super) fn answer(&self) -> MutexGuard<'_, Option<Answer>> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
