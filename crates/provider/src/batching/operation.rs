//! The operations that meet in batches, as kernels and engines see them.

use std::any::Any;
use std::sync::Arc;

use widelane_batch::KeyName;
use widelane_bridge::counters::OperationKind;
use widelane_crypto::{ec, x25519};
use widelane_ossl_sys::Libcrypto;

use crate::batching::kernel::Outcome;
use crate::rsa;
use crate::secret::Secret;

/// One operation: with a private key, or a verification. The kernels of its kind know its type.
pub(crate) trait Operation: Any + Send + Sync {
    /// What it meets: only operations of one kind share a batch.
    fn kind(&self) -> OperationKind;

    /// The libcrypto that asked for it.
    fn libcrypto(&self) -> &Libcrypto;

    /// Does it alone, by the default provider.
    fn run_single(&self) -> Option<Secret>;

    /// The name of the key, the key and what is signed, if this is a signature that another worker
    /// may make.
    fn signature(&self) -> Option<(KeyName, &Arc<rsa::key::Key>, &[u8])> {
        None
    }

    /// Whether `result` is the signature that this is to make.
    fn confirms(&self, _result: &[u8]) -> bool {
        false
    }

    /// What a device has to be capable of to do this; nothing if none is given such.
    fn skill(&self) -> Option<Skill> {
        None
    }

    /// The description for a device; nothing if it cannot do this after all.
    fn task(&self) -> Option<Task<'_>> {
        None
    }

    /// What a device's result is worth: only one that is confirmed is done. Whatever a device
    /// rejects, which may be the peer's fault, the CPU does again.
    fn conclude(&self, _result: Secret) -> Outcome {
        Outcome::Fault
    }
}

/// What a device is capable of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skill {
    /// The private operation of RSA.
    Rsa,
    /// Signatures of ECDSA.
    Ecdsa,
    /// Multiplication on P-256 and P-384.
    Ecdh,
    /// X25519.
    X25519,
}

/// The description of an operation for a device.
pub(crate) enum Task<'a> {
    /// The private operation on `input`; gives the same length.
    Rsa { name: KeyName, key: &'a Arc<rsa::key::Key>, input: &'a [u8], is_signature: bool },
    /// The signature r || s of a digest.
    Ecdsa { key: &'a ec::PrivateKey, nonce: ec::PrivateKey, digest: &'a [u8] },
    /// The point x || y that a private key makes of a public one.
    Ecdh { key: &'a ec::PrivateKey, peer: &'a ec::PublicKey },
    /// The shared secret, by two operations: the result of one behind that of the other.
    X25519 { key: &'a x25519::PrivateKey, peer: &'a [u8; 32] },
}
