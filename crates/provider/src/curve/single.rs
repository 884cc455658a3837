//! Operations on elliptic curves one at a time, by the default provider.
#![allow(unsafe_code, reason = "calls the default provider's functions")]

use std::ptr;

use widelane_crypto::ec::{Curve, encoding};
use widelane_ossl_sys::core::OsslParam;

use crate::curve::exchange;
use crate::curve::key::Key;
use crate::delegate::{Owned, SignContext, verify_digest};
use crate::keymgmt::ManagedKey;
use crate::secret::Secret;

/// The shared secret of two keys.
pub(crate) fn derive(key: &Key, peer: &Key) -> Option<Secret> {
    let delegate = key.delegate();
    let context = exchange::begin(delegate, key.kind(), Some(key), Some(peer))?;
    let derive = key.kind().exchange(delegate).derive?;
    let mut secret = Secret(vec![0; key.named_curve()?.private_bytes()]);
    let (size, mut length) = (secret.0.len(), 0);
    // SAFETY: pointer and length belong to the secret.
    let done = unsafe { derive(context.as_ptr(), secret.0.as_mut_ptr(), &mut length, size) > 0 };
    (done && length == size).then_some(secret)
}

/// The ECDSA signature of a digest.
pub(crate) fn sign_digest(key: &Key, digest: &[u8]) -> Option<Secret> {
    let functions = &key.delegate().algorithms.ecdsa.functions;
    let context = SignContext::begin(key.delegate(), functions, key.inner()?, &[OsslParam::END])?;
    context.signature(digest, SIGNATURE_BYTES_MAX)
}

/// Confirms the ECDSA signature of a digest: gives no bytes if it is right, and nothing if not.
pub(crate) fn confirm_digest(key: &Key, digest: &[u8], signature: &[u8]) -> Option<Secret> {
    let (delegate, bytes) = (key.delegate(), signature.len());
    let functions = &delegate.algorithms.ecdsa.functions;
    let (theirs, from) = (key.inner()?, signature.as_ptr());
    // SAFETY: the key is the default provider's; pointer and length belong to the slice.
    let answer = unsafe { verify_digest(delegate, functions, theirs, digest, from, bytes) };
    (answer? == 1).then(|| Secret(Vec::new()))
}

/// The Ed25519 signature of a message.
pub(crate) fn sign_message(key: &Key, message: &[u8]) -> Option<Secret> {
    let delegate = key.delegate();
    let functions = &delegate.algorithms.ed25519_signature.functions;
    let (newctx, init) = (functions.newctx?, functions.digest_sign_init?);
    let digest_sign = functions.digest_sign?;
    // SAFETY: the default provider's own context.
    let context =
        Owned::adopt(unsafe { newctx(delegate.provctx, ptr::null()) }, functions.freectx)?;
    // SAFETY: context and key are the default provider's.
    if unsafe { init(context.as_ptr(), ptr::null(), key.inner()?, ptr::null()) } <= 0 {
        return None;
    }
    let mut signature = Secret(vec![0; 64]);
    let (size, mut length) = (signature.0.len(), 0);
    // SAFETY: pointers and lengths belong to the slices.
    let done = unsafe {
        digest_sign(
            context.as_ptr(),
            signature.0.as_mut_ptr(),
            &mut length,
            size,
            message.as_ptr(),
            message.len(),
        )
    };
    (done > 0 && length == size).then_some(signature)
}

/// Bytes of the longest ECDSA signature on our curves, in DER.
pub(super) const SIGNATURE_BYTES_MAX: usize = encoding::signature_bytes_max(Curve::LARGEST);
