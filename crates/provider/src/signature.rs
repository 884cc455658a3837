//! Signatures as libcrypto asks for them, the same for all algorithms: the default provider's, with
//! the private-key operation batched, and for some algorithms verification. An algorithm is a type
//! that implements [`Signer`].
//!
//! We only ever report signatures as valid. Any other is verified again by the default provider,
//! whose result and errors the program gets.
#![allow(unsafe_code, reason = "calls the default provider's functions")]

use std::ffi::{CStr, c_char, c_int, c_uchar, c_void};
use std::ptr;
use std::sync::Arc;

use widelane_bridge::counters::OperationKind;
use widelane_crypto::rsa::encoding::DigestAlgorithm;
use widelane_ossl_sys::core::{OsslDispatch, OsslParam};
use widelane_ossl_sys::dispatch::SignatureFunctions;

use crate::batching::Made;
use crate::counters::count_delegated;
use crate::delegate::{Delegate, OnDemand, Owned, verify_digest};
use crate::digest::Digest;
use crate::entry::{
    begin, borrow, borrow_mut, describe, end_given, entry, forward, give, input, output, share,
};
use crate::instance::Instance;
use crate::keymgmt::ManagedKey;
use crate::params;

/// An algorithm, and what differs between algorithms.
pub(crate) trait Signer: Sized {
    /// A key of ours.
    type Key: SignerKey;
    /// How a signature was begun that is ours to make or to verify.
    type Begun: Copy;

    /// Whether a context of the default provider's goes along with ours, for the parameters that
    /// it knows. Otherwise there is none as long as the signature is ours; one is made when
    /// something is asked or set that we do not answer, and does the rest from the latter on.
    const ACCOMPANIED: bool;

    /// The default provider's functions.
    fn table(delegate: &Delegate) -> &SignatureFunctions;

    /// How we begin to sign what is given, without parameters; nothing if we do not.
    fn signs_given() -> Option<Self::Begun> {
        None
    }

    /// How we begin to sign a message, by the digest of this name, without parameters; nothing if
    /// we do not.
    fn signs_message(_digest: Option<&CStr>) -> Option<Self::Begun> {
        None
    }

    /// How we begin to sign a message by `sign_message_init`, without parameters; nothing if we do
    /// not.
    fn signs_whole_message() -> Option<Self::Begun> {
        None
    }

    /// How we begin to verify what is given, without parameters; nothing if we do not.
    fn verifies_given() -> Option<Self::Begun> {
        None
    }

    /// How we begin to verify a message, by the digest of this name, without parameters; nothing if
    /// we do not.
    fn verifies_message(_digest: Option<&CStr>) -> Option<Self::Begun> {
        None
    }

    /// How we go on with a message that the default provider's context has begun to sign.
    fn goes_along(_context: &Context<Self>) -> Option<Self::Begun> {
        None
    }

    /// Whether we do with a key what is begun.
    fn knows(key: &Arc<Self::Key>, begun: Self::Begun) -> bool;

    /// Begins a context of the default provider's as ours was begun, unless one goes along.
    ///
    /// # Safety
    /// Context and key must be the default provider's.
    unsafe fn begin_theirs(
        _functions: &SignatureFunctions,
        _begun: Self::Begun,
        _context: *mut c_void,
        _key: *mut c_void,
    ) -> Option<c_int> {
        None
    }

    /// What digests the message, where we do.
    fn digest_of(begun: Self::Begun) -> Option<DigestAlgorithm>;

    /// Bytes of the longest signature, if we say so.
    fn longest(_context: &Context<Self>) -> Option<usize> {
        None
    }

    /// Signs what is given to be signed, a digest or a whole message. The caller has `size` bytes
    /// of room for the signature.
    fn sign(context: &Context<Self>, given: &[u8], size: usize) -> Made;

    /// Signs a message that we do not digest. The caller has `size` bytes of room for the
    /// signature.
    fn sign_message(_context: &Context<Self>, _message: &[u8], _size: usize) -> Made {
        Made::Theirs
    }

    /// Verifies the signature of a digest.
    fn verify(_context: &Context<Self>, _digest: &[u8], _signature: &[u8]) -> Found {
        Found::Theirs
    }
}

/// A key that signs or verifies.
pub(crate) trait SignerKey: ManagedKey {
    /// What a signature is counted as.
    fn sign_kind(&self) -> OperationKind;

    /// What the verification of a signature is counted as.
    fn verify_kind(&self) -> OperationKind {
        OperationKind::Other
    }
}

/// What we have found out about a signature.
pub(crate) enum Found {
    /// It is good.
    Good,
    /// Nothing that counts: the default provider has to say what it is.
    Theirs,
    /// Nothing, and the caller has given up.
    Nothing,
}

/// A signature being made or verified.
pub(crate) struct Context<A: Signer> {
    pub(crate) delegate: Arc<Delegate>,
    pub(crate) key: Option<Arc<A::Key>>,
    /// How it was begun, if we are to sign or verify with `key`.
    pub(crate) ours: Option<A::Begun>,
    /// Whether parameters were set since the message began, which `inner` knows and must be signed
    /// by.
    pub(crate) is_set_midway: bool,
    /// Whether a message was signed or verified to its end: there is no other before it is begun
    /// again.
    is_ended: bool,
    /// The digest of the message so far.
    digest: Option<Digest>,
    inner: OnDemand,
}

/// The default provider's function that takes a part of a message.
type Update = unsafe extern "C" fn(*mut c_void, *const c_uchar, usize) -> c_int;

/// Where a signature goes, as libcrypto says it.
struct Output {
    signature: *mut c_uchar,
    length: *mut usize,
    size: usize,
}

impl Output {
    /// Whether only the length is asked for.
    fn is_question(&self) -> bool {
        self.signature.is_null()
    }

    /// Writes the length.
    ///
    /// # Safety
    /// The length must be writable.
    unsafe fn tell(&self, bytes: usize) -> Option<c_int> {
        // SAFETY: passed on to the caller.
        unsafe { self.length.write(bytes) };
        Some(1)
    }

    /// Writes a signature, or hands back that it is the default provider's to make.
    ///
    /// # Safety
    /// The signature must be writable for its size, the length as well. No slice of what was signed
    /// may be in use any more: a program may sign in place.
    unsafe fn write(&self, made: Made) -> Result<Option<c_int>, ()> {
        match made {
            Made::Done(made) if made.0.len() <= self.size => {
                // SAFETY: there is room for it; the rest is passed on to the caller.
                unsafe { output(&made.0, self.signature, self.length) };
                Ok(Some(1))
            }
            Made::Done(_) | Made::Nothing => Ok(None),
            Made::Theirs => Err(()),
        }
    }
}

/// Our functions: those that the default provider has as well, and `digest_sign`, with which the
/// core need not copy the context for each signature.
pub(crate) fn functions<A: Signer>(delegate: &Delegate) -> Box<[OsslDispatch]> {
    let theirs = A::table(delegate);
    let ours = SignatureFunctions {
        newctx: Some(newctx::<A>),
        sign_init: Some(sign_init::<A>),
        sign: Some(sign::<A>),
        verify_init: Some(verify_init::<A>),
        verify: Some(verify::<A>),
        verify_recover_init: Some(verify_recover_init::<A>),
        verify_recover: Some(verify_recover::<A>),
        digest_sign_init: Some(digest_sign_init::<A>),
        digest_sign_update: Some(digest_sign_update::<A>),
        digest_sign_final: Some(digest_sign_final::<A>),
        digest_sign: Some(digest_sign::<A>),
        digest_verify_init: Some(digest_verify_init::<A>),
        digest_verify_update: Some(digest_verify_update::<A>),
        digest_verify_final: Some(digest_verify_final::<A>),
        digest_verify: Some(digest_verify::<A>),
        freectx: Some(end_given::<Context<A>>),
        dupctx: Some(dupctx::<A>),
        get_ctx_params: Some(get_ctx_params::<A>),
        gettable_ctx_params: Some(gettable_ctx_params::<A>),
        set_ctx_params: Some(set_ctx_params::<A>),
        settable_ctx_params: Some(settable_ctx_params::<A>),
        get_ctx_md_params: Some(get_ctx_md_params::<A>),
        gettable_ctx_md_params: Some(gettable_ctx_md_params::<A>),
        set_ctx_md_params: Some(set_ctx_md_params::<A>),
        settable_ctx_md_params: Some(settable_ctx_md_params::<A>),
        // This takes neither a key nor a context: the default provider's own serves.
        query_key_types: theirs.query_key_types,
        sign_message_init: Some(sign_message_init::<A>),
        verify_message_init: Some(verify_message_init::<A>),
    };
    ours.write_like(&SignatureFunctions { digest_sign: ours.digest_sign, ..*theirs })
}

/// The name of a digest, if there is one.
///
/// # Safety
/// `digest` must be null or a C string.
unsafe fn name<'a>(digest: *const c_char) -> Option<&'a CStr> {
    // SAFETY: passed on to the caller.
    (!digest.is_null()).then(|| unsafe { CStr::from_ptr(digest) })
}

impl<A: Signer> Context<A> {
    pub(crate) fn functions(&self) -> &SignatureFunctions {
        A::table(&self.delegate)
    }

    /// The default provider's context, made now if there is none, and begun as ours was.
    pub(crate) fn inner(&self) -> Option<*mut c_void> {
        self.inner.get_or_make(|| self.make_inner())
    }

    fn make_inner(&self) -> Option<Owned> {
        let functions = self.functions();
        // The query is meant for the program's library context, not for the delegate's, where
        // all digests are the default provider's.
        // SAFETY: the default provider's own context.
        let inner = unsafe { functions.newctx?(self.delegate.provctx, ptr::null()) };
        let inner = Owned::adopt(inner, functions.freectx)?;
        let (Some(begun), Some(key)) = (self.ours, &self.key) else { return Some(inner) };
        // SAFETY: context and key are the default provider's.
        let begun = unsafe { A::begin_theirs(functions, begun, inner.as_ptr(), key.inner()?) }?;
        (begun > 0).then_some(inner)
    }

    /// Takes a new key, if there is one, and begins by ourselves, if we know the key and how it is
    /// `begun`. Without a new key, a context of the default provider's stays, with the
    /// parameters that were set, and does the rest.
    ///
    /// # Safety
    /// `key` must be null or a key of ours.
    unsafe fn begin(&mut self, key: *mut c_void, begun: Option<A::Begun>) -> bool {
        (self.digest, self.is_set_midway, self.is_ended) = (None, false, false);
        let goes_on = self.goes_on(key);
        if !goes_on && !A::ACCOMPANIED {
            self.inner = OnDemand::new();
        }
        // SAFETY: passed on to the caller.
        let new = unsafe { share::<A::Key>(key) };
        self.key = new.or(self.key.take());
        let knows = |begun: &A::Begun| self.key.as_ref().is_some_and(|key| A::knows(key, *begun));
        self.ours = begun.filter(|begun| !goes_on && knows(begun));
        self.ours.is_some()
    }

    /// Whether the default provider's context is begun again with the key that it has, as libcrypto
    /// does since OpenSSL 3.2.
    fn goes_on(&self, key: *mut c_void) -> bool {
        key.is_null() && (A::ACCOMPANIED || self.inner.get().is_some())
    }

    /// The same, if there are no parameters; returns whether the signature is ours to make.
    ///
    /// # Safety
    /// `key` must be null or a key of ours, `params` null or the core's.
    unsafe fn begins(
        &mut self,
        key: *mut c_void,
        params: *const OsslParam,
        begun: Option<A::Begun>,
    ) -> bool {
        // SAFETY: passed on to the caller.
        let begun = begun.filter(|_| unsafe { params::is_empty(params) });
        // SAFETY: as above.
        begun.is_some() && unsafe { self.begin(key, begun) }
    }

    /// Leaves everything to the default provider: returns its new key, or the one that it has if
    /// its context is new.
    ///
    /// # Safety
    /// `key` must be null or a key of ours.
    unsafe fn hand_over(&mut self, key: *mut c_void) -> Option<*mut c_void> {
        let goes_on = self.goes_on(key);
        // SAFETY: passed on to the caller.
        unsafe { self.begin(key, None) };
        match &self.key {
            Some(ours) if !goes_on => ours.inner(),
            _ => Some(ptr::null_mut()),
        }
    }

    /// What digests the message, where we do.
    fn digests(&self) -> Option<DigestAlgorithm> {
        self.ours.and_then(A::digest_of)
    }

    pub(crate) fn count_delegated(&self) {
        let kind = self.key.as_ref().map_or(OperationKind::Other, |key| key.sign_kind());
        count_delegated(kind);
    }

    /// Feeds the digest of the message, or has the default provider do it by `update`.
    ///
    /// # Safety
    /// `data` must be null or readable for `bytes` bytes.
    unsafe fn feed(
        &mut self,
        update: Option<Update>,
        data: *const c_uchar,
        bytes: usize,
    ) -> Option<c_int> {
        if let Some(algorithm) = self.digests() {
            if self.digest.is_none() {
                self.digest = Some(self.take_digest(algorithm)?);
            }
            // SAFETY: passed on to the caller.
            let data = unsafe { input(data, bytes) };
            return Some(c_int::from(self.digest.as_ref()?.update(data)));
        }
        let (inner, update) = (self.inner()?, update?);
        // SAFETY: a context of the default provider, and the caller's data.
        Some(unsafe { update(inner, data, bytes) })
    }

    /// Takes the digest of the message so far, or begins one; nothing if the message has ended.
    fn take_digest(&mut self, algorithm: DigestAlgorithm) -> Option<Digest> {
        match self.digest.take() {
            Some(digest) => Some(digest),
            None if self.is_ended => None,
            None => Digest::begin(&self.delegate, algorithm),
        }
    }

    /// Says whether a signature is that of a message that was digested, and leaves what is not to
    /// the default provider.
    ///
    /// # Safety
    /// `signature` must be null or readable for `length` bytes.
    unsafe fn judge(
        &self,
        digest: &Digest,
        signature: *const c_uchar,
        length: usize,
    ) -> Option<c_int> {
        let whole = digest.finish()?;
        let whole = &whole[..digest.algorithm().digest_bytes()];
        // SAFETY: passed on to the caller.
        match A::verify(self, whole, unsafe { input(signature, length) }) {
            Found::Good => return Some(1),
            Found::Nothing => return None,
            Found::Theirs => self.count_unverified(),
        }
        if length == 0 {
            // No message has such a signature; how that is said is not the same in all releases.
            let (inner, finish) = (self.inner()?, self.functions().digest_verify_final?);
            // SAFETY: a context of the default provider, and the caller's signature.
            return Some(unsafe { finish(inner, signature, length) });
        }
        let (functions, key) = (self.functions(), self.key.as_ref()?.inner()?);
        // SAFETY: a key of the default provider, and the caller's signature.
        unsafe { verify_digest(&self.delegate, functions, key, whole, signature, length) }
    }

    /// Counts a verification that was begun by us and is left to the default provider.
    fn count_unverified(&self) {
        let kind = self.key.as_ref().map_or(OperationKind::Other, |key| key.verify_kind());
        count_delegated(kind);
    }

    /// Signs a message that was digested.
    ///
    /// # Safety
    /// As for [`Output::write`].
    unsafe fn finish(&self, digest: &Digest, output: &Output) -> Option<c_int> {
        let whole = digest.finish()?;
        let whole = &whole[..digest.algorithm().digest_bytes()];
        if A::ACCOMPANIED {
            // Asking for the size ends this message in the default provider. It refuses if there is
            // no message any more, since the digest was set anew.
            let finish = self.functions().digest_sign_final?;
            // SAFETY: a context of the default provider, and where it writes the size.
            (unsafe { finish(self.inner()?, ptr::null_mut(), &mut 0, 0) } > 0).then_some(())?;
        }
        // SAFETY: passed on to the caller.
        unsafe { output.write(A::sign(self, whole, output.size)) }.ok().flatten()
    }
}

/// Signs a message by the default provider. Where it has no such function, it signs on a copy, so
/// that the program may sign another message with the same context.
///
/// # Safety
/// `context` must be the default provider's, begun; the other arguments must be those of the core.
unsafe fn sign_in_one(
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

entry! {
    fn newctx<A: Signer>(provctx: *mut c_void, _query: *const c_char) -> *mut c_void {
        // SAFETY: the core passes our instance.
        let delegate = Arc::clone(unsafe { borrow::<Instance>(provctx) }?.delegate());
        Some(give(Context::<A> {
            delegate,
            key: None,
            ours: None,
            is_set_midway: false,
            is_ended: false,
            digest: None,
            inner: OnDemand::new(),
        }))
    }

    fn dupctx<A: Signer>(context: *mut c_void) -> *mut c_void {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow::<Context<A>>(context) }?;
        let digest = match &context.digest {
            Some(digest) => Some(digest.duplicate()?),
            None => None,
        };
        // SAFETY: a context of the default provider, and its function for such.
        let inner = unsafe { context.inner.duplicate(context.functions().dupctx) }?;
        Some(give(Context::<A> {
            delegate: Arc::clone(&context.delegate),
            key: context.key.clone(),
            ours: context.ours,
            is_set_midway: context.is_set_midway,
            is_ended: context.is_ended,
            digest,
            inner,
        }))
    }

    fn digest_sign_init<A: Signer>(
        context: *mut c_void,
        digest: *const c_char,
        key: *mut c_void,
        params: *const OsslParam,
    ) -> c_int {
        // SAFETY: the core passes a context of ours.
        let ours = unsafe { borrow_mut::<Context<A>>(context) }?;
        // SAFETY: the core passes a name, or none.
        let begun = A::signs_message(unsafe { name(digest) });
        // SAFETY: the core passes a key of ours, or none, and its parameters.
        if unsafe { ours.begins(key, params, begun) } {
            return Some(1);
        }
        // SAFETY: all arguments are the core's.
        let begun = unsafe { digest_sign_init_theirs::<A>(context, digest, key, params) };
        if begun > 0 {
            // SAFETY: as above.
            let ours = unsafe { borrow_mut::<Context<A>>(context) }?;
            ours.ours = A::goes_along(ours);
        }
        Some(begun)
    }

    fn digest_sign_update<A: Signer>(
        context: *mut c_void,
        data: *const c_uchar,
        bytes: usize,
    ) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context<A>>(context) }?;
        let update = context.functions().digest_sign_update;
        // SAFETY: the core passes data of this length.
        unsafe { context.feed(update, data, bytes) }
    }

    fn digest_sign_final<A: Signer>(
        context: *mut c_void,
        signature: *mut c_uchar,
        length: *mut usize,
        size: usize,
    ) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context<A>>(context) }?;
        let output = Output { signature, length, size };
        let finish = context.functions().digest_sign_final?;
        let digests = context.digests();
        if output.is_question() {
            if let (Some(_), Some(longest)) = (digests, A::longest(context)) {
                // SAFETY: the core waits for the length.
                return unsafe { output.tell(longest) };
            }
        } else if let Some(algorithm) = digests {
            let digest = context.take_digest(algorithm)?;
            context.is_ended = true;
            // SAFETY: the core's buffers.
            return unsafe { context.finish(&digest, &output) };
        } else {
            context.count_delegated();
        }
        // SAFETY: a context of the default provider, and the core's buffers.
        Some(unsafe { finish(context.inner()?, signature, length, size) })
    }

    fn digest_sign<A: Signer>(
        context: *mut c_void,
        signature: *mut c_uchar,
        length: *mut usize,
        size: usize,
        data: *const c_uchar,
        bytes: usize,
    ) -> c_int {
        // SAFETY: the core passes a context of ours.
        let ours = unsafe { borrow::<Context<A>>(context) }?;
        let (output, table) = (Output { signature, length, size }, ours.functions());
        if output.is_question() && (table.digest_sign.is_none() || ours.digests().is_some()) {
            // SAFETY: all arguments are the core's.
            return Some(unsafe { digest_sign_final::<A>(context, signature, length, size) });
        }
        if let Some(algorithm) = ours.digests() {
            // The context stays as it is. Whether the program may sign another message with it is
            // libcrypto's to say: 3.0 allows it, 3.6 does not where a provider has this function.
            let digest = match &ours.digest {
                Some(digest) => digest.duplicate()?,
                None => Digest::begin(&ours.delegate, algorithm)?,
            };
            // SAFETY: the core passes data of this length.
            if !digest.update(unsafe { input(data, bytes) }) {
                return None;
            }
            // SAFETY: the core's buffers.
            return unsafe { ours.finish(&digest, &output) };
        }
        if !output.is_question() {
            // SAFETY: the core passes data of this length.
            let made = A::sign_message(ours, unsafe { input(data, bytes) }, size);
            // SAFETY: the core's buffers.
            if let Ok(written) = unsafe { output.write(made) } {
                return written;
            }
            ours.count_delegated();
        }
        let inner = ours.inner()?;
        // SAFETY: a context of the default provider, and the core's arguments.
        unsafe { sign_in_one(table, inner, signature, length, size, data, bytes) }
    }

    fn sign<A: Signer>(
        context: *mut c_void,
        signature: *mut c_uchar,
        length: *mut usize,
        size: usize,
        data: *const c_uchar,
        bytes: usize,
    ) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow::<Context<A>>(context) }?;
        let output = Output { signature, length, size };
        let digests = context.digests().is_some();
        if output.is_question() {
            if let Some(longest) = A::longest(context).filter(|_| !digests) {
                // SAFETY: the core waits for the length.
                return unsafe { output.tell(longest) };
            }
        } else {
            let made = match digests {
                true => Made::Theirs,
                // SAFETY: the core passes data of this length.
                false => A::sign(context, unsafe { input(data, bytes) }, size),
            };
            // SAFETY: the core's buffers.
            if let Ok(written) = unsafe { output.write(made) } {
                return written;
            }
            context.count_delegated();
        }
        let (inner, sign) = (context.inner()?, context.functions().sign?);
        // SAFETY: a context of the default provider, and the core's buffers.
        Some(unsafe { sign(inner, signature, length, size, data, bytes) })
    }

    fn digest_verify_update<A: Signer>(
        context: *mut c_void,
        data: *const c_uchar,
        bytes: usize,
    ) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context<A>>(context) }?;
        let update = context.functions().digest_verify_update;
        // SAFETY: the core passes data of this length.
        unsafe { context.feed(update, data, bytes) }
    }

    fn digest_verify_final<A: Signer>(
        context: *mut c_void,
        signature: *const c_uchar,
        length: usize,
    ) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context<A>>(context) }?;
        if let Some(algorithm) = context.digests() {
            let digest = context.take_digest(algorithm)?;
            // SAFETY: the core's signature.
            let found = unsafe { context.judge(&digest, signature, length) };
            context.is_ended = true;
            return found;
        }
        let (inner, finish) = (context.inner()?, context.functions().digest_verify_final?);
        // SAFETY: a context of the default provider, and the core's signature.
        Some(unsafe { finish(inner, signature, length) })
    }

    fn digest_verify<A: Signer>(
        context: *mut c_void,
        signature: *const c_uchar,
        length: usize,
        data: *const c_uchar,
        bytes: usize,
    ) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context<A>>(context) }?;
        if context.digests().is_some() {
            // SAFETY: the core passes data of this length.
            let fed = unsafe { context.feed(None, data, bytes) }?;
            let digest = context.digest.take().filter(|_| fed == 1)?;
            context.is_ended = true;
            // SAFETY: the core's signature.
            return unsafe { context.judge(&digest, signature, length) };
        }
        let (inner, verify) = (context.inner()?, context.functions().digest_verify?);
        // SAFETY: a context of the default provider, and the core's arguments.
        Some(unsafe { verify(inner, signature, length, data, bytes) })
    }

    fn verify<A: Signer>(
        context: *mut c_void,
        signature: *const c_uchar,
        length: usize,
        data: *const c_uchar,
        bytes: usize,
    ) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow::<Context<A>>(context) }?;
        if context.ours.is_some() && context.digests().is_none() {
            // SAFETY: the core passes data of this length.
            let given = unsafe { input(data, bytes) };
            // SAFETY: the core passes a signature of this length.
            match A::verify(context, given, unsafe { input(signature, length) }) {
                Found::Good => return Some(1),
                Found::Nothing => return None,
                Found::Theirs => context.count_unverified(),
            }
        }
        let (inner, verify) = (context.inner()?, context.functions().verify?);
        // SAFETY: a context of the default provider, and the core's arguments.
        Some(unsafe { verify(inner, signature, length, data, bytes) })
    }

    fn set_ctx_params<A: Signer>(context: *mut c_void, params: *const OsslParam) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context<A>>(context) }?;
        // SAFETY: the core's parameters.
        if !A::ACCOMPANIED && unsafe { params::is_empty(params) } {
            return Some(1);
        }
        // SAFETY: as above.
        unsafe { context.delegate.expect_all(params) };
        let (inner, set_ctx_params) = (context.inner()?, context.functions().set_ctx_params?);
        // From the first part of a message on the digest stays ours; before that the default
        // provider does the rest.
        let is_begun = context.digest.is_some() || context.is_ended;
        if !A::ACCOMPANIED && !is_begun {
            context.ours = None;
        }
        context.is_set_midway = is_begun;
        // SAFETY: a context of the default provider, and the core's parameters.
        Some(unsafe { set_ctx_params(inner, params) })
    }

    fn set_ctx_md_params<A: Signer>(context: *mut c_void, params: *const OsslParam) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context<A>>(context) }?;
        if let Some(digest) = &context.digest {
            // SAFETY: the core's parameters.
            return Some(unsafe { digest.set_params(params) });
        }
        if context.is_ended {
            return None;
        }
        let (inner, set) = (context.inner()?, context.functions().set_ctx_md_params?);
        // From here on the digest is the default provider's business.
        context.ours = None;
        // SAFETY: a context of the default provider, and the core's parameters.
        Some(unsafe { set(inner, params) })
    }

    fn get_ctx_md_params<A: Signer>(context: *mut c_void, params: *mut OsslParam) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow::<Context<A>>(context) }?;
        if let Some(digest) = &context.digest {
            // SAFETY: the core's parameters.
            return Some(unsafe { digest.get_params(params) });
        }
        let (inner, get) = (context.inner()?, context.functions().get_ctx_md_params?);
        // SAFETY: a context of the default provider, and the core's parameters.
        Some(unsafe { get(inner, params) })
    }
}

/// Defines functions that begin what is ours if it is begun as the second one says, and that leave
/// it to the third one otherwise.
macro_rules! begin_ours {
    ($($name:ident = $begun:ident, $theirs:ident ($($digest:ident)?);)*) => {
        entry! {$(
            fn $name<A: Signer>(
                context: *mut c_void,
                $($digest: *const c_char,)?
                key: *mut c_void,
                params: *const OsslParam,
            ) -> c_int {
                // SAFETY: the core passes a context of ours.
                let ours = unsafe { borrow_mut::<Context<A>>(context) }?;
                let begun = A::$begun($(
                    // SAFETY: the core passes a name, or none.
                    unsafe { name($digest) }
                )?);
                // SAFETY: the core passes a key of ours, or none, and its parameters.
                if unsafe { ours.begins(key, params, begun) } {
                    return Some(1);
                }
                // SAFETY: all arguments are the core's.
                Some(unsafe { $theirs::<A>(context, $($digest,)? key, params) })
            }
        )*}
    };
}

begin_ours! {
    sign_init = signs_given, sign_init_theirs();
    sign_message_init = signs_whole_message, sign_message_init_theirs();
    verify_init = verifies_given, verify_init_theirs();
    digest_verify_init = verifies_message, digest_verify_init_theirs(digest);
}

begin! {
    sign_init_theirs = sign_init<A: Signer>(Context<A>);
    sign_message_init_theirs = sign_message_init<A: Signer>(Context<A>);
    digest_sign_init_theirs = digest_sign_init<A: Signer>(Context<A>, digest);
    verify_init_theirs = verify_init<A: Signer>(Context<A>);
    verify_recover_init = verify_recover_init<A: Signer>(Context<A>);
    verify_message_init = verify_message_init<A: Signer>(Context<A>);
    digest_verify_init_theirs = digest_verify_init<A: Signer>(Context<A>, digest);
}

describe! {
    gettable_ctx_params<A: Signer>(Context<A>, A::table);
    settable_ctx_params<A: Signer>(Context<A>, A::table);
}

forward! {
    fn verify_recover<A: Signer>(
        context: *mut c_void => Context<A>,
        data: *mut c_uchar,
        bytes: *mut usize,
        size: usize,
        signature: *const c_uchar,
        length: usize
    ) -> c_int;
    fn get_ctx_params<A: Signer>(
        context: *mut c_void => Context<A>,
        params: *mut OsslParam
    ) -> c_int;
    fn gettable_ctx_md_params<A: Signer>(context: *mut c_void => Context<A>) -> *const OsslParam;
    fn settable_ctx_md_params<A: Signer>(context: *mut c_void => Context<A>) -> *const OsslParam;
}
