//! The operations that meet in batches: what each needs, and how it is done alone.

use std::sync::Arc;

use widelane_batch::KeyName;
use widelane_bridge::counters::OperationKind;
use widelane_ossl_sys::Libcrypto;
use widelane_secret::wipe;

use crate::batching::request::{Answer, Secret};
use crate::config::config;
use crate::curve;
use crate::{rsa, stack};

/// One operation with a private key.
pub(crate) enum Operation {
    /// The private-key operation on `input`, as long as the modulus; gives the same length. The key
    /// is [accelerated](rsa::key::Key::accelerated).
    Rsa {
        /// The key.
        key: Arc<rsa::key::Key>,
        /// What it is done on.
        input: Box<[u8]>,
        /// Whether input and result are an encoded digest and its signature, which other workers
        /// may see; what is decrypted they may not.
        is_signature: bool,
    },
    /// The shared secret of two keys of one [curve](curve::Curve).
    Derive {
        /// Our key; it has a private half.
        key: Arc<curve::key::Key>,
        /// The other key; it has a public half.
        peer: Arc<curve::key::Key>,
    },
    /// The ECDSA signature of a digest, in DER.
    SignDigest {
        /// The key; it has a private half.
        key: Arc<curve::key::Key>,
        /// The digest.
        digest: Box<[u8]>,
        /// Hedges the nonce.
        entropy: [u8; 32],
    },
    /// The Ed25519 signature of a message.
    SignMessage {
        /// The key; it has a private half.
        key: Arc<curve::key::Key>,
        /// The message.
        message: Box<[u8]>,
    },
}

impl Operation {
    /// What it meets: only operations of one kind share a batch.
    pub(super) fn kind(&self) -> OperationKind {
        match self {
            Operation::Rsa { key, .. } => key.operation_kind(),
            Operation::Derive { key, .. } => key.derive_kind(),
            Operation::SignDigest { key, .. } | Operation::SignMessage { key, .. } => {
                key.sign_kind()
            }
        }
    }

    /// The libcrypto that asked for it.
    pub(super) fn libcrypto(&self) -> &Libcrypto {
        match self {
            Operation::Rsa { key, .. } => &key.delegate().libcrypto,
            Operation::Derive { key, .. }
            | Operation::SignDigest { key, .. }
            | Operation::SignMessage { key, .. } => &key.delegate().libcrypto,
        }
    }

    /// The name of the key, the key and what is signed, if this is a signature that another worker
    /// may make.
    pub(super) fn signature(&self) -> Option<(KeyName, &Arc<rsa::key::Key>, &[u8])> {
        match self {
            Operation::Rsa { key, input, is_signature: true } => {
                Some((key.accelerated()?.name, key, input))
            }
            _ => None,
        }
    }

    /// Whether `result` is the signature that this is to make.
    pub(super) fn confirms(&self, result: &[u8]) -> bool {
        let Some((_, key, input)) = self.signature() else { return false };
        let confirms = || {
            let (kernel, key) = (config().rsa.first()?, key.accelerated()?);
            Some(kernel.confirms_vartime(&key.private, input, result))
        };
        stack::on_large(confirms).flatten().unwrap_or(false)
    }

    /// Does it alone, by the default provider.
    pub(super) fn run_single(&self) -> Answer {
        let done = match self {
            Operation::Rsa { key, input, .. } => {
                let mut output = Secret(vec![0; input.len()]);
                key.private_operation(input, &mut output.0).then_some(output)
            }
            Operation::Derive { key, peer } => curve::single::derive(key, peer),
            Operation::SignDigest { key, digest, .. } => curve::single::sign_digest(key, digest),
            Operation::SignMessage { key, message } => curve::single::sign_message(key, message),
        };
        done.map_or(Answer::Rejected, Answer::Done)
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        match self {
            Operation::SignDigest { entropy, .. } => wipe(entropy),
            Operation::Rsa { .. } | Operation::Derive { .. } | Operation::SignMessage { .. } => {}
        }
    }
}
