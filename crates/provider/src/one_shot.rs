//! Signatures of whole messages by the default provider, on contexts that stay as they are.
#![allow(unsafe_code, reason = "calls the default provider's functions")]

use std::ffi::{c_int, c_uchar, c_void};

use widelane_ossl_sys::dispatch::SignatureFunctions;

use crate::delegate::Owned;

/// Signs a message by the default provider. Where it has no such function, it signs on a copy, so
/// that the program may sign another message with the same context.
///
/// # Safety
/// `context` must be the default provider's, begun; the other arguments must be those of the core.
pub(crate) unsafe fn sign(
    functions: &SignatureFunctions,
    context: *mut c_void,
    signature: *mut c_uchar,
    length: *mut usize,
    size: usize,
    data: *const c_uchar,
    bytes: usize,
) -> Option<c_int> {
    if let Some(digest_sign) = functions.digest_sign {
        // SAFETY: passed on to the caller.
        return Some(unsafe { digest_sign(context, signature, length, size, data, bytes) });
    }
    let (dupctx, freectx) = (functions.dupctx?, functions.freectx);
    let (update, finish) = (functions.digest_sign_update?, functions.digest_sign_final?);
    // SAFETY: a context of the default provider.
    let copy = Owned::adopt(unsafe { dupctx(context) }, freectx)?;
    // SAFETY: the copy, and the core's data.
    let fed = unsafe { update(copy.as_ptr(), data, bytes) };
    if fed <= 0 {
        return Some(fed);
    }
    // SAFETY: the copy, and the core's buffers.
    Some(unsafe { finish(copy.as_ptr(), signature, length, size) })
}
