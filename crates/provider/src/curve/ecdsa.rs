//! ECDSA: signatures on the curves that we know; verification is the default provider's.
#![allow(unsafe_code, reason = "calls the default provider's functions")]

use std::ffi::{CStr, c_char, c_int, c_uchar, c_void};
use std::ptr;
use std::sync::Arc;

use widelane_bridge::counters::OperationKind;
use widelane_crypto::rsa::encoding::DigestAlgorithm;
use widelane_ossl_sys::core::{OsslDispatch, OsslParam};
use widelane_ossl_sys::dispatch::SignatureFunctions;

use crate::batching::{self, Answer};
use crate::counters::{How, count, count_jobs};
use crate::curve::Curve;
use crate::curve::batch::SignDigest;
use crate::curve::key::Key;
use crate::delegate::{Delegate, OnDemand, Owned};
use crate::digest::{self, Digest};
use crate::entry::{
    begin, borrow, borrow_mut, describe, entry, forward, give, input, output, share, take,
};
use crate::instance::Instance;
use crate::{one_shot, params, process};

/// Our functions: those that the default provider has as well.
pub(crate) fn functions(delegate: &Delegate) -> Box<[OsslDispatch]> {
    let ours = SignatureFunctions {
        newctx: Some(newctx),
        sign_init: Some(sign_init),
        sign: Some(sign),
        verify_init: Some(verify_init),
        verify: Some(verify),
        verify_recover_init: None,
        verify_recover: None,
        digest_sign_init: Some(digest_sign_init),
        digest_sign_update: Some(digest_sign_update),
        digest_sign_final: Some(digest_sign_final),
        digest_sign: Some(digest_sign),
        digest_verify_init: Some(digest_verify_init),
        digest_verify_update: Some(digest_verify_update),
        digest_verify_final: Some(digest_verify_final),
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
    &delegate.algorithms.ecdsa.functions
}

/// A signature being made or verified.
///
/// As long as it is ours there is no context of the default provider; it is made when something is
/// asked or set that we do not answer, and does the rest from the latter on.
struct Context {
    delegate: Arc<Delegate>,
    key: Option<Arc<Key>>,
    /// What we are to sign with `key`.
    ours: Option<Signs>,
    /// The digest of the message so far.
    digest: Option<Digest>,
    inner: OnDemand,
}

/// What is signed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Signs {
    /// What is given as a digest.
    Digest,
    /// The digest of a message.
    Message(DigestAlgorithm),
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
        // The query is meant for the program's library context, not for the delegate's, where
        // all digests are the default provider's.
        // SAFETY: the default provider's own context.
        let inner = unsafe { functions.newctx?(self.delegate.provctx, ptr::null()) };
        let inner = Owned::adopt(inner, functions.freectx)?;
        let (Some(signs), Some(key)) = (self.ours, &self.key) else { return Some(inner) };
        let key = key.inner()?;
        let begun = match signs {
            // SAFETY: context and key are the default provider's.
            Signs::Digest => unsafe { functions.sign_init?(inner.as_ptr(), key, ptr::null()) },
            Signs::Message(algorithm) => {
                let (begin, name) = (functions.digest_sign_init?, digest::name(algorithm).as_ptr());
                // SAFETY: as above, and the name is a C string.
                unsafe { begin(inner.as_ptr(), name, key, ptr::null()) }
            }
        };
        (begun > 0).then_some(inner)
    }

    /// Begins to sign: by ourselves if we know the key and the rest is `plain`.
    ///
    /// # Safety
    /// `key` must be null or a key of ours.
    unsafe fn begin(&mut self, key: *mut c_void, signs: Option<Signs>) -> bool {
        (self.ours, self.digest, self.inner) = (None, None, OnDemand::default());
        // SAFETY: passed on to the caller.
        let new = unsafe { share::<Key>(key) };
        self.key = new.or(self.key.take());
        let known = |key: &Arc<Key>| matches!(key.private_curve(), Some(Curve::Ec(_)));
        self.ours = signs.filter(|_| self.key.as_ref().is_some_and(known));
        self.ours.is_some()
    }

    /// Leaves everything to the default provider: it gets the new key, or the one that it has.
    ///
    /// # Safety
    /// `key` must be null or a key of ours.
    unsafe fn hand_over(&mut self, key: *mut c_void) -> Option<*mut c_void> {
        // SAFETY: passed on to the caller.
        unsafe { self.begin(key, None) };
        match &self.key {
            Some(key) => key.inner(),
            None => Some(ptr::null_mut()),
        }
    }

    /// Bytes of the longest signature of a key that is ours to sign with.
    fn longest(&self) -> Option<usize> {
        let [_, _, bytes] = self.key.as_ref().filter(|_| self.ours.is_some())?.curve()?.sizes();
        usize::try_from(bytes).ok()
    }

    /// Signs a digest by whoever is faster; nothing if it fails.
    ///
    /// # Safety
    /// `signature` must be writable for the longest signature, `length` for a number.
    unsafe fn sign_digest(
        &self,
        digest: &[u8],
        signature: *mut c_uchar,
        length: *mut usize,
    ) -> Option<c_int> {
        let key = Arc::clone(self.key.as_ref()?);
        let mut entropy = [0; 32];
        self.delegate.random(&mut entropy)?;
        let operation = SignDigest { key: Arc::clone(&key), digest: digest.into(), entropy };
        let made = match batching::run(operation) {
            Answer::Done(made) => made,
            Answer::Cancelled => return None,
            other => {
                if matches!(other, Answer::Failed) {
                    count(&process::current().counters().fallbacks);
                }
                crate::curve::single::sign_digest(&key, digest)?
            }
        };
        // SAFETY: passed on to the caller.
        unsafe { output(&made.0, signature, length) };
        Some(1)
    }

    fn count_delegated(&self) {
        let kind = self.key.as_ref().map_or(OperationKind::Other, |key| key.sign_kind());
        count_jobs(process::current().counters(), kind, How::Delegated, 1);
    }
}

entry! {
    fn newctx(provctx: *mut c_void, _query: *const c_char) -> *mut c_void {
        // SAFETY: the core passes our instance.
        let delegate = Arc::clone(unsafe { borrow::<Instance>(provctx) }?.delegate());
        let (key, ours, digest, inner) = (None, None, None, OnDemand::default());
        Some(give(Context { delegate, key, ours, digest, inner }))
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
        // SAFETY: a context of the default provider, and its function for such.
        let inner = unsafe { context.inner.duplicate(context.functions().dupctx) }?;
        let (delegate, key) = (Arc::clone(&context.delegate), context.key.clone());
        Some(give(Context { delegate, key, ours: context.ours, digest, inner }))
    }

    fn sign_init(context: *mut c_void, key: *mut c_void, params: *const OsslParam) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        // SAFETY: the core's parameters.
        let plain = unsafe { params::iter(params) }.next().is_none();
        // SAFETY: the core passes a key of ours, or none.
        if plain && unsafe { context.begin(key, Some(Signs::Digest)) } {
            return Some(1);
        }
        // SAFETY: as above.
        let key = unsafe { context.hand_over(key) }?;
        // SAFETY: the core's parameters.
        unsafe { context.delegate.expect_all(params) };
        let (inner, sign_init) = (context.inner()?, context.functions().sign_init?);
        // SAFETY: context and key are the default provider's, the parameters the core's.
        Some(unsafe { sign_init(inner, key, params) })
    }

    fn digest_sign_init(
        context: *mut c_void,
        digest: *const c_char,
        key: *mut c_void,
        params: *const OsslParam,
    ) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        // SAFETY: the core's parameters.
        let plain = unsafe { params::iter(params) }.next().is_none();
        // SAFETY: the core passes a name, or none.
        let name = (!digest.is_null()).then(|| unsafe { CStr::from_ptr(digest) });
        let signs = name.filter(|_| plain).and_then(digest::by_name).map(Signs::Message);
        // SAFETY: the core passes a key of ours, or none.
        if unsafe { context.begin(key, signs) } {
            return Some(1);
        }
        // SAFETY: as above.
        let key = unsafe { context.hand_over(key) }?;
        // SAFETY: the core passes a name, or none.
        unsafe { context.delegate.expect_digest(digest) };
        // SAFETY: the core's parameters.
        unsafe { context.delegate.expect_all(params) };
        let (inner, digest_sign_init) = (context.inner()?, context.functions().digest_sign_init?);
        // SAFETY: context and key are the default provider's, the rest the core's.
        Some(unsafe { digest_sign_init(inner, digest, key, params) })
    }

    fn digest_sign_update(context: *mut c_void, data: *const c_uchar, bytes: usize) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        if let Some(Signs::Message(algorithm)) = context.ours {
            if context.digest.is_none() {
                context.digest = Some(Digest::begin(&context.delegate, algorithm)?);
            }
            // SAFETY: the core passes data of this length.
            let data = unsafe { input(data, bytes) };
            return Some(c_int::from(context.digest.as_ref()?.update(data)));
        }
        let (inner, update) = (context.inner()?, context.functions().digest_sign_update?);
        // SAFETY: a context of the default provider, and the core's data.
        Some(unsafe { update(inner, data, bytes) })
    }

    fn digest_sign_final(
        context: *mut c_void,
        signature: *mut c_uchar,
        length: *mut usize,
        size: usize,
    ) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        if let (Some(Signs::Message(algorithm)), Some(longest)) = (context.ours, context.longest())
        {
            if signature.is_null() {
                // SAFETY: the core waits for the length here.
                unsafe { length.write(longest) };
                return Some(1);
            }
            let digest = match context.digest.take() {
                Some(digest) => digest,
                None => Digest::begin(&context.delegate, algorithm)?,
            };
            let whole = digest.finish()?;
            if size < longest {
                return None;
            }
            let whole = &whole[..algorithm.digest_bytes()];
            // SAFETY: there is room for the longest signature, as the core says.
            return unsafe { context.sign_digest(whole, signature, length) };
        }
        if !signature.is_null() {
            context.count_delegated();
        }
        let (inner, finish) = (context.inner()?, context.functions().digest_sign_final?);
        // SAFETY: a context of the default provider, and the core's buffers.
        Some(unsafe { finish(inner, signature, length, size) })
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
        if signature.is_null() || matches!(ours.ours, Some(Signs::Message(_))) {
            if !signature.is_null() {
                // SAFETY: all arguments are the core's.
                let fed = unsafe { digest_sign_update(context, data, bytes) };
                if fed <= 0 {
                    return None;
                }
            }
            // SAFETY: as above.
            return Some(unsafe { digest_sign_final(context, signature, length, size) });
        }
        ours.count_delegated();
        let inner = ours.inner()?;
        // SAFETY: a context of the default provider, and the core's arguments.
        unsafe { one_shot::sign(ours.functions(), inner, signature, length, size, data, bytes) }
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
        if let Some(longest) = context.longest().filter(|_| context.ours == Some(Signs::Digest)) {
            if signature.is_null() {
                // SAFETY: the core waits for the length here.
                unsafe { length.write(longest) };
                return Some(1);
            }
            if size >= longest && (1..=DIGEST_BYTES_MAX).contains(&bytes) {
                // SAFETY: the core passes data of this length.
                let digest = unsafe { input(data, bytes) };
                // SAFETY: there is room for the longest signature, as the core says.
                return unsafe { context.sign_digest(digest, signature, length) };
            }
        }
        if !signature.is_null() {
            context.count_delegated();
        }
        let (inner, sign) = (context.inner()?, context.functions().sign?);
        // SAFETY: a context of the default provider, and the core's buffers.
        Some(unsafe { sign(inner, signature, length, size, data, bytes) })
    }

    fn set_ctx_params(context: *mut c_void, params: *const OsslParam) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        // SAFETY: the core's parameters.
        if unsafe { params::iter(params) }.next().is_none() {
            return Some(1);
        }
        // SAFETY: as above.
        unsafe { context.delegate.expect_all(params) };
        let (inner, set_ctx_params) = (context.inner()?, context.functions().set_ctx_params?);
        // In the middle of a message nothing changes that concerns us; at any other time the
        // default provider does the rest.
        if context.digest.is_none() {
            context.ours = None;
        }
        // SAFETY: a context of the default provider, and the core's parameters.
        Some(unsafe { set_ctx_params(inner, params) })
    }

    fn set_ctx_md_params(context: *mut c_void, params: *const OsslParam) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        let (inner, set) = (context.inner()?, context.functions().set_ctx_md_params?);
        // From here on the digest is the default provider's business.
        context.ours = None;
        // SAFETY: a context of the default provider, and the core's parameters.
        Some(unsafe { set(inner, params) })
    }
}

begin! {
    Context;
    verify_init();
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

/// Longest digest of libcrypto: `EVP_MAX_MD_SIZE`.
const DIGEST_BYTES_MAX: usize = 64;
