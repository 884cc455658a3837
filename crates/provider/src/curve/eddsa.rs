//! Ed25519: signatures of whole messages; verification is the default provider's.
#![allow(unsafe_code, reason = "calls the default provider's functions")]

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use widelane_crypto::rsa::encoding::DigestAlgorithm;
use widelane_ossl_sys::dispatch::SignatureFunctions;

use crate::batching::{self, Made};
use crate::curve::Curve;
use crate::curve::batch::SignMessage;
use crate::curve::key::Key;
use crate::delegate::Delegate;
use crate::signature::{Context, Signer};

/// Ed25519. What signs and verifies digests is Ed25519ph, the default provider's.
pub(crate) enum Ed25519 {}

/// How a signature was begun, by one of two functions for the same.
#[derive(Clone, Copy)]
pub(crate) enum Begun {
    /// By `digest_sign_init`, with no digest.
    DigestSign,
    /// By `sign_message_init`, which OpenSSL has since 3.4.
    SignMessage,
}

impl Signer for Ed25519 {
    type Key = Key;
    type Begun = Begun;

    const ACCOMPANIED: bool = false;

    fn table(delegate: &Delegate) -> &SignatureFunctions {
        &delegate.algorithms.ed25519_signature.functions
    }

    fn signs_message(digest: Option<&CStr>) -> Option<Begun> {
        digest.is_none_or(CStr::is_empty).then_some(Begun::DigestSign)
    }

    fn signs_whole_message() -> Option<Begun> {
        Some(Begun::SignMessage)
    }

    fn knows(key: &Arc<Key>, _begun: Begun) -> bool {
        key.private_curve() == Some(Curve::Ed25519)
    }

    unsafe fn begin_theirs(
        functions: &SignatureFunctions,
        begun: Begun,
        context: *mut c_void,
        key: *mut c_void,
    ) -> Option<c_int> {
        match begun {
            Begun::DigestSign => {
                let begin = functions.digest_sign_init?;
                // SAFETY: passed on to the caller.
                Some(unsafe { begin(context, ptr::null(), key, ptr::null()) })
            }
            Begun::SignMessage => {
                let begin = functions.sign_message_init?;
                // SAFETY: passed on to the caller.
                Some(unsafe { begin(context, key, ptr::null()) })
            }
        }
    }

    fn digest_of(_begun: Begun) -> Option<DigestAlgorithm> {
        None
    }

    fn sign(context: &Context<Self>, given: &[u8], size: usize) -> Made {
        let key = context.key.as_ref().filter(|_| context.ours.is_some());
        let fits = given.len() <= MESSAGE_BYTES_MAX && size >= SIGNATURE_BYTES;
        let Some(key) = key.filter(|_| fits) else { return Made::Theirs };
        batching::run(SignMessage { key: Arc::clone(key), message: given.into() })
    }

    fn sign_message(context: &Context<Self>, message: &[u8], size: usize) -> Made {
        Self::sign(context, message, size)
    }
}

/// Bytes of a signature.
const SIGNATURE_BYTES: usize = 64;

/// The longest message that is worth a copy; a handshake signs some 130 bytes.
const MESSAGE_BYTES_MAX: usize = 4096;
