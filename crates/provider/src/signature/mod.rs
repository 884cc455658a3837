//! RSA signatures: the default provider's, with the private-key operation batched.
#![allow(unsafe_code, reason = "calls the default provider's functions")]

mod scheme;

use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::ptr;
use std::sync::Arc;

use widelane_ossl_sys::core::{OsslDispatch, OsslParam};
use widelane_ossl_sys::dispatch::SignatureFunctions;

use crate::batching::{self, Answer};
use crate::counters::count;
use crate::delegate::Delegate;
use crate::digest::Digest;
use crate::entry::{borrow, borrow_mut, entry, forward, give, input, share, take};
use crate::instance::Instance;
use crate::key::Key;
use crate::process;
use scheme::Scheme;

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
    };
    // The default provider has no `digest_sign`; with it the core need not copy the context for
    // each signature.
    let like = SignatureFunctions { digest_sign: ours.digest_sign, ..delegate.signature.functions };
    ours.write_like(&like)
}

/// A signature being made or verified.
struct Context {
    delegate: Arc<Delegate>,
    /// The default provider's context, which knows all parameters; owned.
    inner: *mut c_void,
    key: Option<Arc<Key>>,
    /// The digest of the message, where we make it: while signing with a key that is accelerated.
    digest: Option<Digest>,
}

impl Context {
    fn functions(&self) -> &SignatureFunctions {
        &self.delegate.signature.functions
    }

    fn inner(&self) -> *mut c_void {
        self.inner
    }

    /// Takes a new key, if there is one, and answers the default provider's.
    ///
    /// # Safety
    /// `key` must be null or a key of ours.
    unsafe fn set_key(&mut self, key: *mut c_void) -> *mut c_void {
        self.digest = None;
        // SAFETY: passed on to the caller.
        let new = unsafe { share::<Key>(key) };
        let inner = new.as_ref().map_or(ptr::null_mut(), |key| key.inner());
        self.key = new.or(self.key.take());
        inner
    }

    /// The key, if its operations can be batched.
    fn accelerated_key(&self) -> Option<&Arc<Key>> {
        self.key.as_ref().filter(|key| key.accelerated().is_some())
    }

    /// Signs a digest, or whatever is signed where no digest is set.
    fn sign_digest(&self, digest: &[u8], signature: &mut [u8]) -> Option<usize> {
        let key = self.accelerated_key()?;
        let scheme = Scheme::of(self.functions(), self.inner)?;
        match scheme.encode(&self.delegate, key.accelerated()?.private.size(), digest) {
            Some(encoded) if encoded.len() <= signature.len() => {
                match batching::private_operation(Arc::clone(key), &encoded) {
                    Answer::Done(result) => {
                        signature[..result.0.len()].copy_from_slice(&result.0);
                        return Some(result.0.len());
                    }
                    Answer::Cancelled => return None,
                    Answer::Failed => count(&process::current().counters().fallbacks),
                }
            }
            _ => count_delegated(),
        }
        scheme.sign_delegated(&self.delegate, key, digest, signature)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if let Some(freectx) = self.functions().freectx {
            // SAFETY: owned by this context, freed once.
            unsafe { freectx(self.inner) };
        }
    }
}

entry! {
    fn newctx(provctx: *mut c_void, _query: *const c_char) -> *mut c_void {
        // SAFETY: the core passes our instance.
        let delegate = unsafe { borrow::<Instance>(provctx) }?.delegate();
        let newctx = delegate.signature.functions.newctx?;
        // The query is meant for the program's library context, not for the delegate's, where
        // all digests are the default provider's.
        // SAFETY: the default provider's own context.
        let inner = unsafe { newctx(delegate.provctx, ptr::null()) };
        let delegate = Arc::clone(delegate);
        (!inner.is_null()).then(|| give(Context { delegate, inner, key: None, digest: None }))
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
        let inner = unsafe { dupctx(context.inner) };
        let (delegate, key) = (Arc::clone(&context.delegate), context.key.clone());
        (!inner.is_null()).then(|| give(Context { delegate, inner, key, digest }))
    }

    fn sign_init(context: *mut c_void, key: *mut c_void, params: *const OsslParam) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        let sign_init = context.functions().sign_init?;
        // SAFETY: the core passes a key of ours, or none.
        let key = unsafe { context.set_key(key) };
        // SAFETY: context and key are the default provider's, the parameters the core's.
        Some(unsafe { sign_init(context.inner, key, params) })
    }

    fn verify_init(context: *mut c_void, key: *mut c_void, params: *const OsslParam) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        let verify_init = context.functions().verify_init?;
        // SAFETY: the core passes a key of ours, or none.
        let key = unsafe { context.set_key(key) };
        // SAFETY: context and key are the default provider's, the parameters the core's.
        Some(unsafe { verify_init(context.inner, key, params) })
    }

    fn verify_recover_init(
        context: *mut c_void,
        key: *mut c_void,
        params: *const OsslParam,
    ) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        let verify_recover_init = context.functions().verify_recover_init?;
        // SAFETY: the core passes a key of ours, or none.
        let key = unsafe { context.set_key(key) };
        // SAFETY: context and key are the default provider's, the parameters the core's.
        Some(unsafe { verify_recover_init(context.inner, key, params) })
    }

    fn digest_verify_init(
        context: *mut c_void,
        digest: *const c_char,
        key: *mut c_void,
        params: *const OsslParam,
    ) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        let digest_verify_init = context.functions().digest_verify_init?;
        // SAFETY: the core passes a key of ours, or none.
        let key = unsafe { context.set_key(key) };
        // SAFETY: context and key are the default provider's, the rest the core's.
        Some(unsafe { digest_verify_init(context.inner, digest, key, params) })
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
        let key = unsafe { context.set_key(key) };
        // SAFETY: context and key are the default provider's, the rest the core's.
        let begun = unsafe { digest_sign_init(context.inner, digest, key, params) };
        if begun > 0 && context.accelerated_key().is_some() {
            context.digest = Scheme::of(context.functions(), context.inner)
                .and_then(|scheme| Digest::begin(&context.delegate, scheme.digest_algorithm()?));
        }
        Some(begun)
    }

    fn digest_sign_update(context: *mut c_void, data: *const c_uchar, bytes: usize) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        if let Some(digest) = &context.digest {
            // SAFETY: the core passes data of this length.
            return Some(c_int::from(digest.update(unsafe { input(data, bytes) })));
        }
        let digest_sign_update = context.functions().digest_sign_update?;
        // SAFETY: a context of the default provider, and the core's data.
        Some(unsafe { digest_sign_update(context.inner, data, bytes) })
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
        if signature.is_null() || context.digest.is_none() {
            if !signature.is_null() {
                count_delegated();
            }
            // SAFETY: a context of the default provider, and the core's buffers.
            return Some(unsafe { digest_sign_final(context.inner, signature, length, size) });
        }
        // Asking for the size tells the default provider that this message is at its end.
        // SAFETY: a context of the default provider, and where it writes the size.
        unsafe { digest_sign_final(context.inner, ptr::null_mut(), &mut 0, 0) };
        let digest = context.digest.take()?;
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
            return Some(unsafe { digest_sign_final(ours.inner, signature, length, size) });
        }
        let Some(digest) = &ours.digest else {
            count_delegated();
            // SAFETY: all arguments are the core's.
            return unsafe { digest_sign_copy(ours, signature, length, size, data, bytes) };
        };
        // The context stays as it is: the program may sign another message with it.
        let digest = digest.duplicate()?;
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
            count_delegated();
        }
        let sign = context.functions().sign?;
        // SAFETY: a context of the default provider, and the core's buffers.
        Some(unsafe { sign(context.inner, signature, length, size, data, bytes) })
    }

    fn set_ctx_md_params(context: *mut c_void, params: *const OsslParam) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        // From here on the digest is the default provider's business.
        context.digest = None;
        let set_ctx_md_params = context.functions().set_ctx_md_params?;
        // SAFETY: a context of the default provider, and the core's parameters.
        Some(unsafe { set_ctx_md_params(context.inner, params) })
    }

    fn gettable_ctx_params(context: *mut c_void, provctx: *mut c_void) -> *const OsslParam {
        // SAFETY: the core passes our instance.
        let delegate = unsafe { borrow::<Instance>(provctx) }?.delegate();
        // SAFETY: the core passes a context of ours, or none.
        let inner = unsafe { borrow::<Context>(context) }.map_or(ptr::null_mut(), Context::inner);
        let gettable_ctx_params = delegate.signature.functions.gettable_ctx_params?;
        // SAFETY: both are the default provider's.
        Some(unsafe { gettable_ctx_params(inner, delegate.provctx) })
    }

    fn settable_ctx_params(context: *mut c_void, provctx: *mut c_void) -> *const OsslParam {
        // SAFETY: the core passes our instance.
        let delegate = unsafe { borrow::<Instance>(provctx) }?.delegate();
        // SAFETY: the core passes a context of ours, or none.
        let inner = unsafe { borrow::<Context>(context) }.map_or(ptr::null_mut(), Context::inner);
        let settable_ctx_params = delegate.signature.functions.settable_ctx_params?;
        // SAFETY: both are the default provider's.
        Some(unsafe { settable_ctx_params(inner, delegate.provctx) })
    }
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
    fn set_ctx_params(context: *mut c_void => Context, params: *const OsslParam) -> c_int;
    fn get_ctx_md_params(context: *mut c_void => Context, params: *mut OsslParam) -> c_int;
    fn gettable_ctx_md_params(context: *mut c_void => Context) -> *const OsslParam;
    fn settable_ctx_md_params(context: *mut c_void => Context) -> *const OsslParam;
}

fn count_delegated() {
    count(&process::current().counters().jobs_delegated);
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

/// Signs a message by the default provider, on a copy, so that the context stays as it is.
///
/// # Safety
/// The arguments must be those of the core.
unsafe fn digest_sign_copy(
    context: &Context,
    signature: *mut c_uchar,
    length: *mut usize,
    size: usize,
    data: *const c_uchar,
    bytes: usize,
) -> Option<c_int> {
    let functions = context.functions();
    let (dupctx, freectx) = (functions.dupctx?, functions.freectx?);
    let (update, finish) = (functions.digest_sign_update?, functions.digest_sign_final?);
    // SAFETY: a context of the default provider.
    let copy = unsafe { dupctx(context.inner) };
    if copy.is_null() {
        return None;
    }
    // SAFETY: the copy, and the core's data.
    let mut done = unsafe { update(copy, data, bytes) };
    if done > 0 {
        // SAFETY: the copy, and the core's buffers.
        done = unsafe { finish(copy, signature, length, size) };
    }
    // SAFETY: the copy, freed once.
    unsafe { freectx(copy) };
    Some(done)
}
