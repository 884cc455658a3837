//! RSA encryption: the default provider's, with the decryption of TLS premaster secrets batched.
#![allow(unsafe_code, reason = "calls the default provider's functions")]

use std::ffi::{c_int, c_uchar, c_uint, c_void};
use std::ptr;
use std::sync::Arc;

use widelane_bridge::counters::OperationKind;
use widelane_crypto::rsa::encoding::{PREMASTER_BYTES, tls_premaster_select};
use widelane_ossl_sys::core::{self, OsslDispatch, OsslParam};
use widelane_ossl_sys::dispatch::AsymCipherFunctions;

use crate::batching::{self, Made};
use crate::counters::count_delegated;
use crate::delegate::{Delegate, Owned};
use crate::entry::{
    begin, borrow, borrow_mut, describe, end_given, entry, forward, give, input, output, share,
};
use crate::instance::Instance;
use crate::params;
use crate::rsa::batch::PrivateOperation;
use crate::rsa::key::Key;
use crate::secret::Secret;

/// Our functions for encryption: those that the default provider has as well.
pub(crate) fn functions(delegate: &Delegate) -> Box<[OsslDispatch]> {
    AsymCipherFunctions {
        newctx: Some(newctx),
        encrypt_init: Some(encrypt_init),
        encrypt: Some(encrypt),
        decrypt_init: Some(decrypt_init),
        decrypt: Some(decrypt),
        freectx: Some(end_given::<Context>),
        dupctx: Some(dupctx),
        get_ctx_params: Some(get_ctx_params),
        gettable_ctx_params: Some(gettable_ctx_params),
        set_ctx_params: Some(set_ctx_params),
        settable_ctx_params: Some(settable_ctx_params),
    }
    .write_like(table(delegate))
}

/// The default provider's functions.
fn table(delegate: &Delegate) -> &AsymCipherFunctions {
    &delegate.algorithms.rsa_cipher.functions
}

/// An encryption or decryption.
struct Context {
    delegate: Arc<Delegate>,
    /// The default provider's context, which knows all parameters.
    inner: Owned,
    key: Option<Arc<Key>>,
}

impl Context {
    fn functions(&self) -> &AsymCipherFunctions {
        table(&self.delegate)
    }

    fn inner(&self) -> Option<*mut c_void> {
        Some(self.inner.as_ptr())
    }

    /// Takes a new key, if there is one, and returns the default provider's.
    ///
    /// # Safety
    /// `key` must be null or a key of ours.
    unsafe fn hand_over(&mut self, key: *mut c_void) -> Option<*mut c_void> {
        // SAFETY: passed on to the caller.
        let new = unsafe { share::<Key>(key) };
        let inner = new.as_ref().map_or(ptr::null_mut(), |key| key.as_ptr());
        self.key = new.or(self.key.take());
        Some(inner)
    }

    /// What its operation is counted as.
    fn kind(&self) -> OperationKind {
        self.key.as_ref().map_or(OperationKind::Other, |key| key.operation_kind())
    }

    /// Decrypts the premaster secret of a TLS handshake; nothing if that is the default provider's
    /// to do.
    ///
    /// A ciphertext that hides no such secret gives a random one: see [`tls_premaster_select`].
    fn decrypt_premaster(&self, ciphertext: &[u8]) -> Option<Made> {
        let key = self.key.as_ref()?;
        let private = &key.accelerated()?.private;
        let versions = TlsVersions::of(self.functions(), self.inner.as_ptr())?;
        if !private.is_input(ciphertext) {
            return None;
        }
        let random = self.delegate.random_secret(PREMASTER_BYTES)?;
        let (key, input) = (Arc::clone(key), ciphertext.into());
        let operation = PrivateOperation { key, input, is_signature: false };
        let decrypted = match batching::run(operation) {
            Made::Done(decrypted) => decrypted,
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
        Some(Made::Done(premaster))
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
        let inner = Owned::made(table(delegate).newctx, delegate, table(delegate).freectx)?;
        Some(give(Context { delegate: Arc::clone(delegate), inner, key: None }))
    }

    fn dupctx(context: *mut c_void) -> *mut c_void {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow::<Context>(context) }?;
        let dupctx = context.functions().dupctx?;
        // SAFETY: a context of the default provider.
        let inner = unsafe { dupctx(context.inner.as_ptr()) };
        let inner = Owned::adopt(inner, context.functions().freectx)?;
        let (delegate, key) = (Arc::clone(&context.delegate), context.key.clone());
        Some(give(Context { delegate, inner, key }))
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
            // SAFETY: the core passes data of this length.
            match context.decrypt_premaster(unsafe { input(data, bytes) }) {
                Some(Made::Done(premaster)) => {
                    // SAFETY: there is room for it, and the core waits for the length.
                    unsafe { output(&premaster.0, plaintext, length) };
                    return Some(1);
                }
                Some(Made::Nothing) => return None,
                Some(Made::Theirs) | None => count_delegated(context.kind()),
            }
        }
        let decrypt = context.functions().decrypt?;
        // SAFETY: a context of the default provider, and the core's buffers.
        Some(unsafe { decrypt(context.inner.as_ptr(), plaintext, length, size, data, bytes) })
    }

    fn set_ctx_params(context: *mut c_void, params: *const OsslParam) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow::<Context>(context) }?;
        // SAFETY: the core's parameters.
        unsafe { context.delegate.expect_all(params) };
        let set_ctx_params = context.functions().set_ctx_params?;
        // SAFETY: a context of the default provider, and the core's parameters.
        Some(unsafe { set_ctx_params(context.inner.as_ptr(), params) })
    }
}

begin! {
    encrypt_init = encrypt_init(Context);
    decrypt_init = decrypt_init(Context);
}

describe! {
    gettable_ctx_params(Context, table);
    settable_ctx_params(Context, table);
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
}
