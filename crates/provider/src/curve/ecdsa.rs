//! ECDSA: signatures on the curves that we know; verification is the default provider's.
#![allow(unsafe_code, reason = "calls the default provider's functions")]

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use widelane_bridge::counters::OperationKind;
use widelane_crypto::rsa::encoding::DigestAlgorithm;
use widelane_ossl_sys::core::{self, OsslParam};
use widelane_ossl_sys::dispatch::SignatureFunctions;

use crate::batching::{self, Answer};
use crate::counters::count;
use crate::curve::batch::SignDigest;
use crate::curve::key::Key;
use crate::curve::{Curve, single};
use crate::delegate::{Delegate, SignContext};
use crate::signature::{Context, Made, Signer, SignerKey};
use crate::{digest, params, process};

/// ECDSA.
pub(crate) enum Ecdsa {}

/// What is signed.
#[derive(Clone, Copy)]
pub(crate) enum Signs {
    /// What is given as a digest.
    Digest,
    /// The digest of a message.
    Message(DigestAlgorithm),
}

impl SignerKey for Key {
    fn sign_kind(&self) -> OperationKind {
        self.sign_kind()
    }
}

impl Signer for Ecdsa {
    type Key = Key;
    type Begun = Signs;

    const ACCOMPANIED: bool = false;

    fn table(delegate: &Delegate) -> &SignatureFunctions {
        &delegate.algorithms.ecdsa.functions
    }

    fn signs_given() -> Option<Signs> {
        Some(Signs::Digest)
    }

    fn signs_message(digest: Option<&CStr>) -> Option<Signs> {
        digest.and_then(digest::by_name).map(Signs::Message)
    }

    fn knows(key: &Arc<Key>) -> bool {
        matches!(key.private_curve(), Some(Curve::Ec(_)))
    }

    unsafe fn begin_theirs(
        functions: &SignatureFunctions,
        begun: Signs,
        context: *mut c_void,
        key: *mut c_void,
    ) -> Option<c_int> {
        match begun {
            Signs::Digest => {
                let begin = functions.sign_init?;
                // SAFETY: passed on to the caller.
                Some(unsafe { begin(context, key, ptr::null()) })
            }
            Signs::Message(algorithm) => {
                let (begin, name) = (functions.digest_sign_init?, digest::name(algorithm).as_ptr());
                // SAFETY: passed on to the caller, and the name is a C string.
                Some(unsafe { begin(context, name, key, ptr::null()) })
            }
        }
    }

    fn digest_of(begun: Signs) -> Option<DigestAlgorithm> {
        match begun {
            Signs::Digest => None,
            Signs::Message(algorithm) => Some(algorithm),
        }
    }

    fn longest(context: &Context<Self>) -> Option<usize> {
        let key = context.key.as_ref().filter(|_| context.ours.is_some())?;
        let [_, _, bytes] = key.curve()?.sizes();
        usize::try_from(bytes).ok()
    }

    fn sign(context: &Context<Self>, given: &[u8], signature: &mut [u8]) -> Made {
        match (Self::longest(context), &context.key) {
            (Some(longest), Some(key))
                if signature.len() >= longest && (1..=DIGEST_BYTES_MAX).contains(&given.len()) =>
            {
                let made = match context.is_set_midway {
                    true => sign_as_set(context, key, given, signature),
                    false => sign(context, key, given, signature),
                };
                made.map_or(Made::Failed, Made::Bytes)
            }
            _ => Made::Theirs,
        }
    }
}

/// Signs a digest by whoever is faster; nothing if it fails.
fn sign(
    context: &Context<Ecdsa>,
    key: &Arc<Key>,
    digest: &[u8],
    signature: &mut [u8],
) -> Option<usize> {
    let mut entropy = [0; 32];
    context.delegate.random(&mut entropy)?;
    let operation = SignDigest { key: Arc::clone(key), digest: digest.into(), entropy };
    let made = match batching::run(operation) {
        Answer::Done(made) => made,
        Answer::Cancelled => return None,
        other => {
            if matches!(other, Answer::Failed) {
                count(&process::current().counters().fallbacks);
            }
            single::sign_digest(key, digest)?
        }
    };
    signature.get_mut(..made.0.len())?.copy_from_slice(&made.0);
    Some(made.0.len())
}

/// Has the default provider sign the digest of a message by what was set in the middle of it: how
/// the nonce is made.
fn sign_as_set(
    context: &Context<Ecdsa>,
    key: &Arc<Key>,
    digest: &[u8],
    signature: &mut [u8],
) -> Option<usize> {
    context.count_delegated();
    let Some(Signs::Message(algorithm)) = context.ours else { return None };
    let functions = context.functions();
    // Before OpenSSL 3.2 there is one way, and this stays what it is.
    let mut nonce_type = 0;
    let mut asked =
        [params::uint(core::SIGNATURE_PARAM_NONCE_TYPE, &mut nonce_type), OsslParam::END];
    // SAFETY: a context of the default provider; `asked` has an end.
    let told = unsafe { functions.get_ctx_params?(context.inner()?, asked.as_mut_ptr()) };
    if told <= 0 {
        return None;
    }
    let set = [
        params::text_in(core::SIGNATURE_PARAM_DIGEST, digest::name(algorithm)),
        params::uint(core::SIGNATURE_PARAM_NONCE_TYPE, &mut nonce_type),
        OsslParam::END,
    ];
    SignContext::begin(&context.delegate, functions, key.inner()?, &set)?.sign(digest, signature)
}

/// Longest digest of libcrypto: `EVP_MAX_MD_SIZE`.
const DIGEST_BYTES_MAX: usize = 64;
