//! Ed25519: signatures of whole messages; verification is the default provider's.
#![allow(unsafe_code, reason = "calls the default provider's functions")]

use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::ptr;
use std::sync::Arc;

use widelane_bridge::counters::OperationKind;
use widelane_ossl_sys::core::{OsslDispatch, OsslParam};
use widelane_ossl_sys::dispatch::SignatureFunctions;

use crate::batching::{self, Answer};
use crate::counters::{How, count, count_jobs};
use crate::curve::Curve;
use crate::curve::batch::SignMessage;
use crate::curve::key::Key;
use crate::delegate::{Delegate, OnDemand, Owned};
use crate::entry::{
    begin, borrow, borrow_mut, describe, entry, forward, give, input, output, share, take,
};
use crate::instance::Instance;
use crate::{params, process};

/// Our functions: those that the default provider has as well.
pub(crate) fn functions(delegate: &Delegate) -> Box<[OsslDispatch]> {
    SignatureFunctions {
        newctx: Some(newctx),
        sign_init: Some(sign_init),
        sign: Some(sign),
        verify_init: Some(verify_init),
        verify: Some(verify),
        digest_sign_init: Some(digest_sign_init),
        digest_sign: Some(digest_sign),
        digest_verify_init: Some(digest_verify_init),
        digest_verify: Some(digest_verify),
        freectx: Some(freectx),
        dupctx: Some(dupctx),
        get_ctx_params: Some(get_ctx_params),
        gettable_ctx_params: Some(gettable_ctx_params),
        set_ctx_params: Some(set_ctx_params),
        settable_ctx_params: Some(settable_ctx_params),
        // This takes neither a key nor a context: the default provider's own serves.
        query_key_types: table(delegate).query_key_types,
        sign_message_init: Some(sign_message_init),
        verify_message_init: Some(verify_message_init),
        ..SignatureFunctions::default()
    }
    .write_like(table(delegate))
}

/// The default provider's functions.
fn table(delegate: &Delegate) -> &SignatureFunctions {
    &delegate.algorithms.ed25519_signature.functions
}

/// A signature being made or verified.
///
/// As long as it is ours there is no context of the default provider; it is made when something is
/// asked or set that we do not answer, and does the rest from the latter on.
struct Context {
    delegate: Arc<Delegate>,
    key: Option<Arc<Key>>,
    /// How it was begun, if we are to sign with `key`.
    ours: Option<Begun>,
    inner: OnDemand,
}

/// How a signature was begun, by one of two functions for the same.
#[derive(Clone, Copy)]
enum Begun {
    /// By `digest_sign_init`, with no digest.
    DigestSign,
    /// By `sign_message_init`, which OpenSSL has since 3.4.
    SignMessage,
}

impl Context {
    fn functions(&self) -> &SignatureFunctions {
        table(&self.delegate)
    }

    /// The default provider's context, made now if there is none, and begun as ours was.
    fn inner(&self) -> Option<*mut c_void> {
        self.inner.get_or_make(|| self.make_inner())
    }

    fn make_inner(&self) -> Option<Owned> {
        let functions = self.functions();
        // SAFETY: the default provider's own context.
        let inner = unsafe { functions.newctx?(self.delegate.provctx, ptr::null()) };
        let inner = Owned::adopt(inner, functions.freectx)?;
        let (Some(begun), Some(key)) = (self.ours, &self.key) else { return Some(inner) };
        let (key, params) = (key.inner()?, ptr::null());
        let begun = match begun {
            Begun::DigestSign => {
                let begin = functions.digest_sign_init?;
                // SAFETY: context and key are the default provider's.
                unsafe { begin(inner.as_ptr(), ptr::null(), key, params) }
            }
            // SAFETY: as above.
            Begun::SignMessage => unsafe {
                functions.sign_message_init?(inner.as_ptr(), key, params)
            },
        };
        (begun > 0).then_some(inner)
    }

    /// Leaves everything to the default provider: it gets the new key, or the one that it has.
    ///
    /// # Safety
    /// `key` must be null or a key of ours.
    unsafe fn hand_over(&mut self, key: *mut c_void) -> Option<*mut c_void> {
        (self.ours, self.inner) = (None, OnDemand::default());
        // SAFETY: passed on to the caller.
        let new = unsafe { share::<Key>(key) };
        self.key = new.or(self.key.take());
        match &self.key {
            Some(key) => key.inner(),
            None => Some(ptr::null_mut()),
        }
    }

    /// Takes over what was just handed over, if we know the key and the rest is `plain`.
    fn take_over(&mut self, begun: Begun, plain: bool) -> bool {
        let known = |key: &Arc<Key>| key.private_curve() == Some(Curve::Ed25519);
        self.ours = (plain && self.key.as_ref().is_some_and(known)).then_some(begun);
        self.ours.is_some()
    }

    /// Signs a message by ourselves, or by the default provider's function `theirs`.
    ///
    /// # Safety
    /// `signature` must be null or writable for `size` bytes, `length` for a number, and `data`
    /// readable for `bytes`.
    unsafe fn sign(
        &self,
        theirs: Option<SignFunction>,
        signature: *mut c_uchar,
        length: *mut usize,
        size: usize,
        data: *const c_uchar,
        bytes: usize,
    ) -> Option<c_int> {
        let key = self.key.as_ref().filter(|_| self.ours.is_some() && bytes <= MESSAGE_BYTES_MAX);
        if let Some(key) = key.filter(|_| !signature.is_null() && size >= SIGNATURE_BYTES) {
            // SAFETY: passed on to the caller.
            let message = unsafe { input(data, bytes) }.into();
            match batching::run(SignMessage { key: Arc::clone(key), message }) {
                Answer::Done(made) => {
                    // SAFETY: there is room for it, and the core waits for the length.
                    unsafe { output(&made.0, signature, length) };
                    return Some(1);
                }
                Answer::Cancelled => return None,
                Answer::Failed => count(&process::current().counters().fallbacks),
                Answer::Rejected => {}
            }
        }
        if !signature.is_null() {
            let kind = self.key.as_ref().map_or(OperationKind::Other, |key| key.sign_kind());
            count_jobs(process::current().counters(), kind, How::Delegated, 1);
        }
        let (inner, theirs) = (self.inner()?, theirs?);
        // SAFETY: a context of the default provider, and the core's buffers.
        Some(unsafe { theirs(inner, signature, length, size, data, bytes) })
    }
}

/// Both of the default provider's functions that sign a message.
type SignFunction = unsafe extern "C" fn(
    *mut c_void,
    *mut c_uchar,
    *mut usize,
    usize,
    *const c_uchar,
    usize,
) -> c_int;

entry! {
    fn newctx(provctx: *mut c_void, _query: *const c_char) -> *mut c_void {
        // SAFETY: the core passes our instance.
        let delegate = Arc::clone(unsafe { borrow::<Instance>(provctx) }?.delegate());
        Some(give(Context { delegate, key: None, ours: None, inner: OnDemand::default() }))
    }

    fn freectx(context: *mut c_void) {
        // SAFETY: the core ends a context of ours.
        drop(unsafe { take::<Context>(context) });
        Some(())
    }

    fn dupctx(context: *mut c_void) -> *mut c_void {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow::<Context>(context) }?;
        // SAFETY: a context of the default provider, and its function for such.
        let inner = unsafe { context.inner.duplicate(context.functions().dupctx) }?;
        let (delegate, key) = (Arc::clone(&context.delegate), context.key.clone());
        Some(give(Context { delegate, key, ours: context.ours, inner }))
    }

    fn digest_sign_init(
        context: *mut c_void,
        digest: *const c_char,
        key: *mut c_void,
        params: *const OsslParam,
    ) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        // SAFETY: as above.
        let inner_key = unsafe { context.hand_over(key) }?;
        // SAFETY: the core's parameters.
        let plain = unsafe { params::iter(params) }.next().is_none();
        // SAFETY: the core passes a name, or none.
        let without_digest = digest.is_null() || unsafe { digest.read() } == 0;
        if context.take_over(Begun::DigestSign, plain && without_digest) {
            return Some(1);
        }
        let (inner, begin) = (context.inner()?, context.functions().digest_sign_init?);
        // SAFETY: context and key are the default provider's, the rest the core's.
        Some(unsafe { begin(inner, digest, inner_key, params) })
    }

    fn sign_message_init(
        context: *mut c_void,
        key: *mut c_void,
        params: *const OsslParam,
    ) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        // SAFETY: as above.
        let inner_key = unsafe { context.hand_over(key) }?;
        // SAFETY: the core's parameters.
        let plain = unsafe { params::iter(params) }.next().is_none();
        if context.take_over(Begun::SignMessage, plain) {
            return Some(1);
        }
        let (inner, begin) = (context.inner()?, context.functions().sign_message_init?);
        // SAFETY: context and key are the default provider's, the rest the core's.
        Some(unsafe { begin(inner, inner_key, params) })
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
        let context = unsafe { borrow::<Context>(context) }?;
        let theirs = context.functions().digest_sign;
        // SAFETY: the core's buffers.
        unsafe { context.sign(theirs, signature, length, size, data, bytes) }
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
        let context = unsafe { borrow::<Context>(context) }?;
        let theirs = context.functions().sign;
        // SAFETY: the core's buffers.
        unsafe { context.sign(theirs, signature, length, size, data, bytes) }
    }

    fn set_ctx_params(context: *mut c_void, params: *const OsslParam) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        // SAFETY: the core's parameters.
        if unsafe { params::iter(params) }.next().is_none() {
            return Some(1);
        }
        let (inner, set_ctx_params) = (context.inner()?, context.functions().set_ctx_params?);
        context.ours = None;
        // SAFETY: a context of the default provider, and the core's parameters.
        Some(unsafe { set_ctx_params(inner, params) })
    }
}

// The first two sign and verify digests, which Ed25519ph does.
begin! {
    Context;
    sign_init();
    verify_init();
    digest_verify_init(digest);
    verify_message_init();
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
    fn digest_verify(
        context: *mut c_void => Context,
        signature: *const c_uchar,
        length: usize,
        data: *const c_uchar,
        bytes: usize
    ) -> c_int;
    fn get_ctx_params(context: *mut c_void => Context, params: *mut OsslParam) -> c_int;
}

/// Bytes of a signature.
const SIGNATURE_BYTES: usize = 64;

/// The longest message that is worth a copy; a handshake signs some 130 bytes.
const MESSAGE_BYTES_MAX: usize = 4096;
