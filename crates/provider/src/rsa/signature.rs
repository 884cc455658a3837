//! RSA signatures: the default provider's, with the private-key operation batched.
#![allow(unsafe_code, reason = "calls the default provider's functions")]

use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::ptr;
use std::sync::Arc;

use widelane_bridge::counters::OperationKind;
use widelane_crypto::rsa::encoding::DigestAlgorithm;
use widelane_ossl_sys::core::{OsslDispatch, OsslParam};
use widelane_ossl_sys::dispatch::SignatureFunctions;

use crate::batching::{self, Answer};
use crate::counters::{How, count, count_jobs};
use crate::delegate::{Delegate, Owned};
use crate::digest::Digest;
use crate::entry::{begin, borrow, borrow_mut, describe, entry, forward, give, input, share, take};
use crate::instance::Instance;
use crate::one_shot;
use crate::process;
use crate::rsa::batch::PrivateOperation;
use crate::rsa::key::Key;
use crate::rsa::scheme::Scheme;

/// Our functions for signatures: those that the default provider has as well.
pub(crate) fn functions(delegate: &Delegate) -> Box<[OsslDispatch]> {
    let ours = SignatureFunctions {
        newctx: Some(newctx),
        sign_init: Some(sign_init),
        sign: Some(sign),
        verify_init: Some(verify_init),
        verify: Some(verify),
        verify_recover_init: Some(verify_recover_init),
        verify_recover: Some(verify_recover),
        digest_sign_init: Some(digest_sign_init),
        digest_sign_update: Some(digest_sign_update),
        digest_sign_final: Some(digest_sign_final),
        digest_sign: Some(digest_sign),
        digest_verify_init: Some(digest_verify_init),
        digest_verify_update: Some(digest_verify_update),
        digest_verify_final: Some(digest_verify_final),
        // The default provider has none.
        digest_verify: None,
        freectx: Some(freectx),
        dupctx: Some(dupctx),
        get_ctx_params: Some(get_ctx_params),
        gettable_ctx_params: Some(gettable_ctx_params),
        set_ctx_params: Some(set_ctx_params),
        settable_ctx_params: Some(settable_ctx_params),
        get_ctx_md_params: Some(get_ctx_md_params),
        gettable_ctx_md_params: Some(gettable_ctx_md_params),
        set_ctx_md_params: Some(set_ctx_md_params),
        settable_ctx_md_params: Some(settable_ctx_md_params),
        // These belong to algorithms that are named with their digest.
        query_key_types: None,
        sign_message_init: None,
        verify_message_init: None,
    };
    // The default provider has no `digest_sign`; with it the core need not copy the context for
    // each signature.
    let like = SignatureFunctions { digest_sign: ours.digest_sign, ..*table(delegate) };
    ours.write_like(&like)
}

/// The default provider's functions.
fn table(delegate: &Delegate) -> &SignatureFunctions {
    &delegate.algorithms.rsa_signature.functions
}

/// A signature being made or verified.
struct Context {
    delegate: Arc<Delegate>,
    /// The default provider's context, which knows all parameters.
    inner: Owned,
    key: Option<Arc<Key>>,
    /// What digests the message, where we do: while signing with a key that is accelerated.
    hashes: Option<DigestAlgorithm>,
    /// The digest of the message so far.
    digest: Option<Digest>,
}

impl Context {
    fn functions(&self) -> &SignatureFunctions {
        table(&self.delegate)
    }

    fn inner(&self) -> Option<*mut c_void> {
        Some(self.as_ptr())
    }

    fn as_ptr(&self) -> *mut c_void {
        self.inner.as_ptr()
    }

    /// What its operation is counted as.
    fn kind(&self) -> OperationKind {
        self.key.as_ref().map_or(OperationKind::Other, |key| key.operation_kind())
    }

    /// Takes a new key, if there is one, and answers the default provider's.
    ///
    /// # Safety
    /// `key` must be null or a key of ours.
    unsafe fn hand_over(&mut self, key: *mut c_void) -> Option<*mut c_void> {
        (self.hashes, self.digest) = (None, None);
        // SAFETY: passed on to the caller.
        let new = unsafe { share::<Key>(key) };
        let inner = new.as_ref().map_or(ptr::null_mut(), |key| key.as_ptr());
        self.key = new.or(self.key.take());
        Some(inner)
    }

    /// The key, if its operations can be batched.
    fn accelerated_key(&self) -> Option<&Arc<Key>> {
        self.key.as_ref().filter(|key| key.accelerated().is_some())
    }

    /// Signs a digest, or whatever is signed where no digest is set.
    fn sign_digest(&self, digest: &[u8], signature: &mut [u8]) -> Option<usize> {
        let key = self.accelerated_key()?;
        let scheme = Scheme::of(self.functions(), self.as_ptr())?;
        match scheme.encode(&self.delegate, key.accelerated()?.private.size(), digest) {
            Some(encoded) if encoded.len() <= signature.len() => {
                let (key, input) = (Arc::clone(key), encoded.into());
                let is_signature = scheme.encodes_digests();
                let operation = PrivateOperation { key, input, is_signature };
                match batching::run(operation) {
                    Answer::Done(result) => {
                        signature[..result.0.len()].copy_from_slice(&result.0);
                        return Some(result.0.len());
                    }
                    Answer::Cancelled => return None,
                    Answer::Failed => count(&process::current().counters().fallbacks),
                    Answer::Rejected => {}
                }
            }
            _ => self.count_delegated(),
        }
        scheme.sign_delegated(&self.delegate, key, digest, signature)
    }

    fn count_delegated(&self) {
        count_jobs(process::current().counters(), self.kind(), How::Delegated, 1);
    }
}

entry! {
    fn newctx(provctx: *mut c_void, _query: *const c_char) -> *mut c_void {
        // SAFETY: the core passes our instance.
        let delegate = unsafe { borrow::<Instance>(provctx) }?.delegate();
        let newctx = table(delegate).newctx?;
        // The query is meant for the program's library context, not for the delegate's, where
        // all digests are the default provider's.
        // SAFETY: the default provider's own context.
        let inner = unsafe { newctx(delegate.provctx, ptr::null()) };
        let inner = Owned::adopt(inner, table(delegate).freectx)?;
        let delegate = Arc::clone(delegate);
        Some(give(Context { delegate, inner, key: None, hashes: None, digest: None }))
    }

    fn freectx(context: *mut c_void) {
        // SAFETY: the core ends a context of ours.
        drop(unsafe { take::<Context>(context) });
        Some(())
    }

    fn dupctx(context: *mut c_void) -> *mut c_void {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow::<Context>(context) }?;
        let digest = match &context.digest {
            Some(digest) => Some(digest.duplicate()?),
            None => None,
        };
        let dupctx = context.functions().dupctx?;
        // SAFETY: a context of the default provider.
        let inner = unsafe { dupctx(context.as_ptr()) };
        let inner = Owned::adopt(inner, context.functions().freectx)?;
        let (delegate, key) = (Arc::clone(&context.delegate), context.key.clone());
        Some(give(Context { delegate, inner, key, hashes: context.hashes, digest }))
    }

    fn digest_sign_init(
        context: *mut c_void,
        digest: *const c_char,
        key: *mut c_void,
        params: *const OsslParam,
    ) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        let digest_sign_init = context.functions().digest_sign_init?;
        // SAFETY: the core passes a key of ours, or none.
        let key = unsafe { context.hand_over(key) }?;
        // SAFETY: the core passes a name, or none.
        unsafe { context.delegate.expect_digest(digest) };
        // SAFETY: the core's parameters.
        unsafe { context.delegate.expect_all(params) };
        // SAFETY: context and key are the default provider's, the rest the core's.
        let begun = unsafe { digest_sign_init(context.as_ptr(), digest, key, params) };
        if begun > 0 && context.accelerated_key().is_some() {
            context.hashes = Scheme::of(context.functions(), context.as_ptr())
                .and_then(|scheme| scheme.digest_algorithm());
        }
        Some(begun)
    }

    fn digest_sign_update(context: *mut c_void, data: *const c_uchar, bytes: usize) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        if let Some(algorithm) = context.hashes {
            if context.digest.is_none() {
                context.digest = Some(Digest::begin(&context.delegate, algorithm)?);
            }
            // SAFETY: the core passes data of this length.
            let data = unsafe { input(data, bytes) };
            return Some(c_int::from(context.digest.as_ref()?.update(data)));
        }
        let digest_sign_update = context.functions().digest_sign_update?;
        // SAFETY: a context of the default provider, and the core's data.
        Some(unsafe { digest_sign_update(context.as_ptr(), data, bytes) })
    }

    fn digest_sign_final(
        context: *mut c_void,
        signature: *mut c_uchar,
        length: *mut usize,
        size: usize,
    ) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        let digest_sign_final = context.functions().digest_sign_final?;
        let Some(algorithm) = context.hashes.filter(|_| !signature.is_null()) else {
            if !signature.is_null() {
                context.count_delegated();
            }
            // SAFETY: a context of the default provider, and the core's buffers.
            return Some(unsafe { digest_sign_final(context.as_ptr(), signature, length, size) });
        };
        // Asking for the size tells the default provider that this message is at its end.
        // SAFETY: a context of the default provider, and where it writes the size.
        unsafe { digest_sign_final(context.as_ptr(), ptr::null_mut(), &mut 0, 0) };
        let digest = match context.digest.take() {
            Some(digest) => digest,
            None => Digest::begin(&context.delegate, algorithm)?,
        };
        let message = digest.finish()?;
        // SAFETY: the core passes a buffer of this size.
        unsafe { finish(context, &digest, &message, signature, length, size) }
    }

    fn digest_sign(
        context: *mut c_void,
        signature: *mut c_uchar,
        length: *mut usize,
        size: usize,
        data: *const c_uchar,
        bytes: usize,
    ) -> c_int {
        // SAFETY: the core passes a context of ours.
        let ours = unsafe { borrow_mut::<Context>(context) }?;
        let digest_sign_final = ours.functions().digest_sign_final?;
        if signature.is_null() {
            // SAFETY: a context of the default provider, and the core's buffers.
            return Some(unsafe { digest_sign_final(ours.as_ptr(), signature, length, size) });
        }
        let Some(algorithm) = ours.hashes else {
            ours.count_delegated();
            let (table, inner) = (ours.functions(), ours.as_ptr());
            // SAFETY: a context of the default provider, and the core's arguments.
            return unsafe { one_shot::sign(table, inner, signature, length, size, data, bytes) };
        };
        // The context stays as it is: the program may sign another message with it.
        let digest = match &ours.digest {
            Some(digest) => digest.duplicate()?,
            None => Digest::begin(&ours.delegate, algorithm)?,
        };
        // SAFETY: the core passes data of this length.
        if !digest.update(unsafe { input(data, bytes) }) {
            return None;
        }
        let message = digest.finish()?;
        // SAFETY: the core passes a buffer of this size.
        unsafe { finish(ours, &digest, &message, signature, length, size) }
    }

    fn sign(
        context: *mut c_void,
        signature: *mut c_uchar,
        length: *mut usize,
        size: usize,
        data: *const c_uchar,
        bytes: usize,
    ) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        if !signature.is_null() && context.accelerated_key().is_some() {
            // SAFETY: the core passes data of this length.
            let digest = unsafe { input(data, bytes) };
            // SAFETY: the core passes a buffer of this size.
            let signature = unsafe { std::slice::from_raw_parts_mut(signature, size) };
            let written = context.sign_digest(digest, signature)?;
            // SAFETY: the core waits for the length here.
            unsafe { length.write(written) };
            return Some(1);
        }
        if !signature.is_null() {
            context.count_delegated();
        }
        let sign = context.functions().sign?;
        // SAFETY: a context of the default provider, and the core's buffers.
        Some(unsafe { sign(context.as_ptr(), signature, length, size, data, bytes) })
    }

    fn set_ctx_params(context: *mut c_void, params: *const OsslParam) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow::<Context>(context) }?;
        // SAFETY: the core's parameters.
        unsafe { context.delegate.expect_all(params) };
        let set_ctx_params = context.functions().set_ctx_params?;
        // SAFETY: a context of the default provider, and the core's parameters.
        Some(unsafe { set_ctx_params(context.as_ptr(), params) })
    }

    fn set_ctx_md_params(context: *mut c_void, params: *const OsslParam) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        // From here on the digest is the default provider's business.
        (context.hashes, context.digest) = (None, None);
        let set_ctx_md_params = context.functions().set_ctx_md_params?;
        // SAFETY: a context of the default provider, and the core's parameters.
        Some(unsafe { set_ctx_md_params(context.as_ptr(), params) })
    }
}

begin! {
    Context;
    sign_init();
    verify_init();
    verify_recover_init();
    digest_verify_init(digest);
}

describe! {
    Context, table;
    gettable_ctx_params;
    settable_ctx_params;
}

forward! {
    fn verify(
        context: *mut c_void => Context,
        signature: *const c_uchar,
        length: usize,
        data: *const c_uchar,
        bytes: usize
    ) -> c_int;
    fn verify_recover(
        context: *mut c_void => Context,
        data: *mut c_uchar,
        bytes: *mut usize,
        size: usize,
        signature: *const c_uchar,
        length: usize
    ) -> c_int;
    fn digest_verify_update(
        context: *mut c_void => Context,
        data: *const c_uchar,
        bytes: usize
    ) -> c_int;
    fn digest_verify_final(
        context: *mut c_void => Context,
        signature: *const c_uchar,
        length: usize
    ) -> c_int;
    fn get_ctx_params(context: *mut c_void => Context, params: *mut OsslParam) -> c_int;
    fn get_ctx_md_params(context: *mut c_void => Context, params: *mut OsslParam) -> c_int;
    fn gettable_ctx_md_params(context: *mut c_void => Context) -> *const OsslParam;
    fn settable_ctx_md_params(context: *mut c_void => Context) -> *const OsslParam;
}

/// Signs the finished digest of a message.
///
/// # Safety
/// `signature` must be writable for `size` bytes, `length` for a number.
unsafe fn finish(
    context: &Context,
    digest: &Digest,
    message: &[u8],
    signature: *mut c_uchar,
    length: *mut usize,
    size: usize,
) -> Option<c_int> {
    let message = &message[..digest.algorithm().digest_bytes()];
    // SAFETY: passed on to the caller.
    let signature = unsafe { std::slice::from_raw_parts_mut(signature, size) };
    let written = context.sign_digest(message, signature)?;
    // SAFETY: passed on to the caller.
    unsafe { length.write(written) };
    Some(1)
}
