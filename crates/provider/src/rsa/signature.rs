//! RSA signatures, with any padding: a context of the default provider's knows the parameters.

use std::sync::Arc;

use widelane_bridge::counters::OperationKind;
use widelane_crypto::rsa::encoding::DigestAlgorithm;
use widelane_ossl_sys::dispatch::SignatureFunctions;

use crate::batching::{self, Made};
use crate::delegate::Delegate;
use crate::rsa::batch::PrivateOperation;
use crate::rsa::key::Key;
use crate::rsa::scheme::Scheme;
use crate::secret::Secret;
use crate::signature::{Context, Signer, SignerKey};

/// RSA signatures.
pub(crate) enum Rsa {}

impl SignerKey for Key {
    fn sign_kind(&self) -> OperationKind {
        self.operation_kind()
    }
}

impl Signer for Rsa {
    type Key = Key;
    /// What digests the message: while signing with a key that is accelerated.
    type Begun = DigestAlgorithm;

    const ACCOMPANIED: bool = true;

    fn table(delegate: &Delegate) -> &SignatureFunctions {
        &delegate.algorithms.rsa_signature.functions
    }

    fn knows(key: &Arc<Key>, _begun: DigestAlgorithm) -> bool {
        key.accelerated().is_some()
    }

    fn goes_along(context: &Context<Self>) -> Option<DigestAlgorithm> {
        accelerated_key(context)?;
        Scheme::of(context.functions(), context.inner()?)?.digest_algorithm()
    }

    fn digest_of(begun: DigestAlgorithm) -> Option<DigestAlgorithm> {
        Some(begun)
    }

    fn sign(context: &Context<Self>, given: &[u8], size: usize) -> Made {
        match accelerated_key(context) {
            Some(key) => sign(context, key, given, size).map_or(Made::Nothing, Made::Done),
            None => Made::Theirs,
        }
    }
}

/// The key, if its operations can be batched.
fn accelerated_key(context: &Context<Rsa>) -> Option<&Arc<Key>> {
    context.key.as_ref().filter(|key| key.accelerated().is_some())
}

/// Signs a digest, or whatever is signed where no digest is set.
fn sign(context: &Context<Rsa>, key: &Arc<Key>, digest: &[u8], size: usize) -> Option<Secret> {
    let scheme = Scheme::of(context.functions(), context.inner()?)?;
    // A program may change the digest when the message is at its end. What was digested is then not
    // what the signature would say.
    if context.ours.is_some_and(|digested| scheme.digest_algorithm() != Some(digested)) {
        return None;
    }
    let theirs = || {
        context.count_delegated();
        scheme.sign_delegated(&context.delegate, key, digest, size)
    };
    match scheme.encode(&context.delegate, key.accelerated()?.private.size(), digest) {
        Some(encoded) if encoded.len() <= size => {
            let (key, input) = (Arc::clone(key), encoded.into());
            let is_signature = scheme.encodes_digests();
            batching::run(PrivateOperation { key, input, is_signature }).or_theirs(theirs)
        }
        _ => theirs(),
    }
}
