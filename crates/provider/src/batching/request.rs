//! One private-key operation under way, and its answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use widelane_crypto::rsa::{KeySize, PrivateKey};
use widelane_ossl_sys::Libcrypto;
use widelane_secret::wipe;

use crate::key::Key;

/// One private-key operation under way.
///
/// It lives on the heap and is shared between who asked for it and the queue: an ASYNC job that
/// asked may be abandoned at any time, stack and all.
pub(crate) struct Request {
    key: Arc<Key>,
    input: Box<[u8]>,
    answer: Mutex<Option<Answer>>,
    withdrawn: AtomicBool,
}

/// What became of an operation.
pub(crate) enum Answer {
    /// The result.
    Done(Secret),
    /// It failed in our hands; the default provider may still do it.
    Failed,
    /// Nobody wants it any more.
    Cancelled,
}

/// The result of a private-key operation; for all we know a secret.
pub(crate) struct Secret(pub(crate) Vec<u8>);

impl Drop for Secret {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

impl Request {
    pub(crate) fn new(key: Arc<Key>, input: &[u8]) -> Self {
        Request {
            key,
            input: input.into(),
            answer: Mutex::new(None),
            withdrawn: AtomicBool::new(false),
        }
    }

    /// The key in the form that the kernels use; nothing if it has none, which its maker has ruled
    /// out.
    pub(super) fn private_key(&self) -> Option<&PrivateKey> {
        Some(&self.key.accelerated()?.private)
    }

    /// The libcrypto that asked for it.
    pub(super) fn libcrypto(&self) -> &Libcrypto {
        &self.key.delegate().libcrypto
    }

    /// The size of the key.
    pub(super) fn size(&self) -> Option<KeySize> {
        self.private_key().map(PrivateKey::size)
    }

    /// What the operation is done on.
    pub(super) fn input(&self) -> &[u8] {
        &self.input
    }

    /// Does the operation alone, by the default provider.
    pub(super) fn run_single(&self) -> Answer {
        let mut output = Secret(vec![0; self.input.len()]);
        if self.key.private_operation(&self.input, &mut output.0) {
            Answer::Done(output)
        } else {
            Answer::Failed
        }
    }

    /// Nobody waits for the answer any more.
    pub(super) fn withdraw(&self) {
        self.withdrawn.store(true, Ordering::Release);
    }

    /// Whether somebody still waits for the answer.
    pub(super) fn is_wanted(&self) -> bool {
        !self.withdrawn.load(Ordering::Acquire)
    }

    /// The place of the answer, locked: who looks for it now sees it together with what is done
    /// meanwhile.
    pub(super) fn answer(&self) -> MutexGuard<'_, Option<Answer>> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
