//! RSA encryption: the default provider's, with the decryption of TLS premaster secrets batched.
#![allow(unsafe_code, reason = "calls the default provider's functions")]

use std::ffi::{c_int, c_uchar, c_uint, c_void};
use std::ptr;
use std::sync::Arc;

use widelane_crypto::rsa::encoding::{PREMASTER_BYTES, tls_premaster_select};
use widelane_ossl_sys::core::{self, OsslDispatch, OsslParam};
use widelane_ossl_sys::dispatch::AsymCipherFunctions;

use crate::batching::{self, Answer, Secret};
use crate::counters::count;
use crate::delegate::Delegate;
use crate::entry::{borrow, borrow_mut, entry, forward, give, input, output, share, take};
use crate::instance::Instance;
use crate::key::Key;
use crate::{params, process};

/// Our functions for encryption: those that the default provider has as well.
pub(crate) fn functions(delegate: &Delegate) -> Box<[OsslDispatch]> {
    AsymCipherFunctions {
        newctx: Some(newctx),
        encrypt_init: Some(encrypt_init),
        encrypt: Some(encrypt),
        decrypt_init: Some(decrypt_init),
        decrypt: Some(decrypt),
        freectx: Some(freectx),
        dupctx: Some(dupctx),
        get_ctx_params: Some(get_ctx_params),
        gettable_ctx_params: Some(gettable_ctx_params),
        set_ctx_params: Some(set_ctx_params),
        settable_ctx_params: Some(settable_ctx_params),
    }
    .write_like(&delegate.asym_cipher.functions)
}

/// An encryption or decryption.
struct Context {
    delegate: Arc<Delegate>,
    /// The default provider's context, which knows all parameters; owned.
    inner: *mut c_void,
    key: Option<Arc<Key>>,
}

impl Context {
    fn functions(&self) -> &AsymCipherFunctions {
        &self.delegate.asym_cipher.functions
    }

    fn inner(&self) -> *mut c_void {
        self.inner
    }

    /// Takes a new key, if there is one, and answers the default provider's.
    ///
    /// # Safety
    /// `key` must be null or a key of ours.
    unsafe fn set_key(&mut self, key: *mut c_void) -> *mut c_void {
        // SAFETY: passed on to the caller.
        let new = unsafe { share::<Key>(key) };
        let inner = new.as_ref().map_or(ptr::null_mut(), |key| key.inner());
        self.key = new.or(self.key.take());
        inner
    }

    /// Decrypts the premaster secret of a TLS handshake; nothing if that is the default provider's
    /// to do.
    ///
    /// A ciphertext that hides no such secret gives a random one: see [`tls_premaster_select`].
    fn decrypt_premaster(&self, ciphertext: &[u8]) -> Option<Answer> {
        let key = self.key.as_ref()?;
        let size = key.accelerated()?.private.size();
        let versions = TlsVersions::of(self.functions(), self.inner)?;
        if ciphertext.len() != size.bytes() {
            return None;
        }
        let mut random = Secret(vec![0; PREMASTER_BYTES]);
        self.delegate.random(&mut random.0)?;
        let decrypted = match batching::private_operation(Arc::clone(key), ciphertext) {
            Answer::Done(decrypted) => decrypted,
            other => return Some(other),
        };
        let mut premaster = Secret(vec![0; PREMASTER_BYTES]);
        tls_premaster_select(
            &decrypted.0,
            versions.client,
            versions.alternative,
            random.0.first_chunk()?,
            premaster.0.first_chunk_mut()?,
        );
        Some(Answer::Done(premaster))
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

/// The versions that a TLS premaster secret may begin with.
struct TlsVersions {
    client: u16,
    alternative: Option<u16>,
}

impl TlsVersions {
    /// Asks a context of the default provider; nothing if it does not decrypt for TLS.
    fn of(functions: &AsymCipherFunctions, context: *mut c_void) -> Option<Self> {
        let mut padding: c_int = 0;
        let (mut client, mut alternative): (c_uint, c_uint) = (0, 0);
        let mut asked = [
            params::int(core::PARAM_PAD_MODE, &mut padding),
            params::uint(core::ASYM_CIPHER_PARAM_TLS_CLIENT_VERSION, &mut client),
            params::uint(core::ASYM_CIPHER_PARAM_TLS_NEGOTIATED_VERSION, &mut alternative),
            OsslParam::END,
        ];
        let get_ctx_params = functions.get_ctx_params?;
        // SAFETY: a context of the default provider; `asked` has an end.
        let answered = unsafe { get_ctx_params(context, asked.as_mut_ptr()) > 0 };
        if !answered || padding != core::PADDING_TLS || client == 0 {
            return None;
        }
        let alternative = u16::try_from(alternative).ok()?;
        Some(TlsVersions {
            client: u16::try_from(client).ok()?,
            alternative: (alternative != 0).then_some(alternative),
        })
    }
}

entry! {
    fn newctx(provctx: *mut c_void) -> *mut c_void {
        // SAFETY: the core passes our instance.
        let delegate = unsafe { borrow::<Instance>(provctx) }?.delegate();
        let newctx = delegate.asym_cipher.functions.newctx?;
        // SAFETY: the default provider's own context.
        let inner = unsafe { newctx(delegate.provctx) };
        let delegate = Arc::clone(delegate);
        (!inner.is_null()).then(|| give(Context { delegate, inner, key: None }))
    }

    fn freectx(context: *mut c_void) {
        // SAFETY: the core ends a context of ours.
        drop(unsafe { take::<Context>(context) });
        Some(())
    }

    fn dupctx(context: *mut c_void) -> *mut c_void {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow::<Context>(context) }?;
        let dupctx = context.functions().dupctx?;
        // SAFETY: a context of the default provider.
        let inner = unsafe { dupctx(context.inner) };
        let (delegate, key) = (Arc::clone(&context.delegate), context.key.clone());
        (!inner.is_null()).then(|| give(Context { delegate, inner, key }))
    }

    fn encrypt_init(context: *mut c_void, key: *mut c_void, params: *const OsslParam) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        let encrypt_init = context.functions().encrypt_init?;
        // SAFETY: the core passes a key of ours, or none.
        let key = unsafe { context.set_key(key) };
        // SAFETY: context and key are the default provider's, the parameters the core's.
        Some(unsafe { encrypt_init(context.inner, key, params) })
    }

    fn decrypt_init(context: *mut c_void, key: *mut c_void, params: *const OsslParam) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        let decrypt_init = context.functions().decrypt_init?;
        // SAFETY: the core passes a key of ours, or none.
        let key = unsafe { context.set_key(key) };
        // SAFETY: context and key are the default provider's, the parameters the core's.
        Some(unsafe { decrypt_init(context.inner, key, params) })
    }

    fn decrypt(
        context: *mut c_void,
        plaintext: *mut c_uchar,
        length: *mut usize,
        size: usize,
        data: *const c_uchar,
        bytes: usize,
    ) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        if !plaintext.is_null() && size >= PREMASTER_BYTES {
            let counters = process::current().counters();
            // SAFETY: the core passes data of this length.
            match context.decrypt_premaster(unsafe { input(data, bytes) }) {
                Some(Answer::Done(premaster)) => {
                    // SAFETY: there is room for it, and the core waits for the length.
                    unsafe { output(&premaster.0, plaintext, length) };
                    return Some(1);
                }
                Some(Answer::Cancelled) => return None,
                Some(Answer::Failed) => count(&counters.fallbacks),
                None => count(&counters.jobs_delegated),
            }
        }
        let decrypt = context.functions().decrypt?;
        // SAFETY: a context of the default provider, and the core's buffers.
        Some(unsafe { decrypt(context.inner, plaintext, length, size, data, bytes) })
    }

    fn gettable_ctx_params(context: *mut c_void, provctx: *mut c_void) -> *const OsslParam {
        // SAFETY: the core passes our instance.
        let delegate = unsafe { borrow::<Instance>(provctx) }?.delegate();
        // SAFETY: the core passes a context of ours, or none.
        let inner = unsafe { borrow::<Context>(context) }.map_or(ptr::null_mut(), Context::inner);
        let gettable_ctx_params = delegate.asym_cipher.functions.gettable_ctx_params?;
        // SAFETY: both are the default provider's.
        Some(unsafe { gettable_ctx_params(inner, delegate.provctx) })
    }

    fn settable_ctx_params(context: *mut c_void, provctx: *mut c_void) -> *const OsslParam {
        // SAFETY: the core passes our instance.
        let delegate = unsafe { borrow::<Instance>(provctx) }?.delegate();
        // SAFETY: the core passes a context of ours, or none.
        let inner = unsafe { borrow::<Context>(context) }.map_or(ptr::null_mut(), Context::inner);
        let settable_ctx_params = delegate.asym_cipher.functions.settable_ctx_params?;
        // SAFETY: both are the default provider's.
        Some(unsafe { settable_ctx_params(inner, delegate.provctx) })
    }
}

forward! {
    fn encrypt(
        context: *mut c_void => Context,
        ciphertext: *mut c_uchar,
        length: *mut usize,
        size: usize,
        data: *const c_uchar,
        bytes: usize
    ) -> c_int;
    fn get_ctx_params(context: *mut c_void => Context, params: *mut OsslParam) -> c_int;
    fn set_ctx_params(context: *mut c_void => Context, params: *const OsslParam) -> c_int;
}
