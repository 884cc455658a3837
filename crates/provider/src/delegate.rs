//! The default provider, in a library context of our own: it does everything that we do not batch.
#![allow(unsafe_code, reason = "calls libcrypto")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{self, NonNull};

use widelane_ossl_sys::Libcrypto;
use widelane_ossl_sys::core::{self, OsslAlgorithm, OsslLibCtx, OsslParam, OsslProvider};
use widelane_ossl_sys::dispatch::{AsymCipherFunctions, KeymgmtFunctions, SignatureFunctions};

use crate::digest::Digests;
use crate::params;

/// The default provider, in a library context of our own.
///
/// We call its functions as the core would. So whatever a program does with one of our keys, it
/// meets the default provider's own behaviour, but for the private-key operations that we batch.
pub(crate) struct Delegate {
    /// The libcrypto that loaded us.
    pub(crate) libcrypto: Libcrypto,
    /// RSA keys.
    pub(crate) rsa: Algorithm<KeymgmtFunctions>,
    /// RSA keys that sign with PSS only.
    pub(crate) rsa_pss: Algorithm<KeymgmtFunctions>,
    /// RSA signatures.
    pub(crate) signature: Algorithm<SignatureFunctions>,
    /// RSA encryption.
    pub(crate) asym_cipher: Algorithm<AsymCipherFunctions>,
    /// The digests of our encodings.
    pub(crate) digests: Digests,
    /// What the default provider's functions take for its own context.
    pub(crate) provctx: *mut c_void,
    provider: *mut OsslProvider,
    context: *mut OsslLibCtx,
}

/// An algorithm of the default provider.
pub(crate) struct Algorithm<F> {
    /// Its names, by which ours is known as well.
    pub(crate) names: CString,
    /// Its functions.
    pub(crate) functions: F,
}

// SAFETY: library context, provider and functions are made for use by many threads.
unsafe impl Send for Delegate {}
// SAFETY: as above.
unsafe impl Sync for Delegate {}

impl Delegate {
    /// Loads the default provider into a new library context.
    ///
    /// # Errors
    /// A text that says what is missing.
    pub(crate) fn load(libcrypto: Libcrypto) -> Result<Self, &'static str> {
        // SAFETY: no arguments.
        let context = unsafe { (libcrypto.OSSL_LIB_CTX_new)() };
        if context.is_null() {
            return Err("cannot make a library context");
        }
        let mut delegate = Delegate {
            libcrypto,
            rsa: Algorithm { names: CString::default(), functions: KeymgmtFunctions::default() },
            rsa_pss: Algorithm {
                names: CString::default(),
                functions: KeymgmtFunctions::default(),
            },
            signature: Algorithm {
                names: CString::default(),
                functions: SignatureFunctions::default(),
            },
            asym_cipher: Algorithm {
                names: CString::default(),
                functions: AsymCipherFunctions::default(),
            },
            digests: Digests::default(),
            provctx: ptr::null_mut(),
            provider: ptr::null_mut(),
            context,
        };
        // SAFETY: the context was made above.
        delegate.provider = unsafe { (libcrypto.OSSL_PROVIDER_load)(context, c"default".as_ptr()) };
        if delegate.provider.is_null() {
            return Err("cannot load the default provider beside this one");
        }
        // SAFETY: the provider was loaded above.
        delegate.provctx =
            unsafe { (libcrypto.OSSL_PROVIDER_get0_provider_ctx)(delegate.provider) };
        delegate.rsa = delegate.keymgmt(c"RSA")?;
        delegate.rsa_pss = delegate.keymgmt(c"RSA-PSS")?;
        delegate.signature = delegate
            .algorithm(core::OP_SIGNATURE, c"RSA", |table| {
                // SAFETY: the table of a signature.
                unsafe { SignatureFunctions::read(table) }
            })
            .ok_or("the default provider has no RSA signatures")?;
        delegate.asym_cipher = delegate
            .algorithm(core::OP_ASYM_CIPHER, c"RSA", |table| {
                // SAFETY: the table of an asymmetric cipher.
                unsafe { AsymCipherFunctions::read(table) }
            })
            .ok_or("the default provider has no RSA encryption")?;
        Ok(delegate)
    }

    /// The library context of the default provider.
    pub(crate) fn context(&self) -> *mut OsslLibCtx {
        self.context
    }

    /// Does one private-key operation on an encoded message, with the default provider's key `key`,
    /// which must not be limited to PSS. This is the fastest way to do a single one.
    pub(crate) fn private_operation(
        &self,
        key: NonNull<c_void>,
        input: &[u8],
        output: &mut [u8],
    ) -> bool {
        let mut padding = core::PADDING_NONE;
        let params = [params::int(core::PARAM_PAD_MODE, &mut padding), OsslParam::END];
        let Some(context) = SignContext::begin(self, key, &params) else { return false };
        context.sign(input, output) == Some(output.len())
    }

    /// Fills `bytes` from the default provider's generator.
    pub(crate) fn random(&self, bytes: &mut [u8]) -> Option<()> {
        let generate = self.libcrypto.RAND_priv_bytes_ex;
        // SAFETY: pointer and length belong to the slice.
        let done = unsafe { generate(self.context, bytes.as_mut_ptr(), bytes.len(), 0) > 0 };
        done.then_some(())
    }

    fn keymgmt(&self, name: &CStr) -> Result<Algorithm<KeymgmtFunctions>, &'static str> {
        self.algorithm(core::OP_KEYMGMT, name, |table| {
            // SAFETY: the table of a key management.
            unsafe { KeymgmtFunctions::read(table) }
        })
        .ok_or("the default provider has no RSA keys")
    }

    fn algorithm<F>(
        &self,
        operation: c_int,
        name: &CStr,
        read: impl FnOnce(*const core::OsslDispatch) -> F,
    ) -> Option<Algorithm<F>> {
        let mut no_cache = 0;
        // SAFETY: the provider is loaded.
        let list = unsafe {
            (self.libcrypto.OSSL_PROVIDER_query_operation)(self.provider, operation, &mut no_cache)
        };
        let found =
            find(list, name).map(|(names, table)| Algorithm { names, functions: read(table) });
        if !list.is_null() {
            // SAFETY: `list` is the answer of the query above.
            unsafe {
                (self.libcrypto.OSSL_PROVIDER_unquery_operation)(self.provider, operation, list);
            }
        }
        found
    }
}

impl Drop for Delegate {
    fn drop(&mut self) {
        self.digests.free(&self.libcrypto);
        if !self.provider.is_null() {
            // SAFETY: loaded by `load`, unloaded once.
            unsafe { (self.libcrypto.OSSL_PROVIDER_unload)(self.provider) };
        }
        // SAFETY: made by `load`, freed once, after all that lives in it.
        unsafe { (self.libcrypto.OSSL_LIB_CTX_free)(self.context) };
    }
}

/// Finds the algorithm of a name in a list, and answers all its names and its functions.
fn find(
    mut list: *const OsslAlgorithm,
    name: &CStr,
) -> Option<(CString, *const core::OsslDispatch)> {
    loop {
        // SAFETY: null, or an entry of the list: its end has not been seen yet.
        let algorithm = unsafe { list.as_ref() }?;
        if algorithm.algorithm_names.is_null() {
            return None;
        }
        // SAFETY: checked for null; the names are a C string.
        let names = unsafe { CStr::from_ptr(algorithm.algorithm_names) };
        let mut words = names.to_bytes().split(|byte| *byte == b':');
        if words.any(|word| word.eq_ignore_ascii_case(name.to_bytes())) {
            return Some((names.to_owned(), algorithm.implementation));
        }
        // SAFETY: this entry was not the end, so there is another.
        list = unsafe { list.add(1) };
    }
}

/// A signature of the default provider's that is about to be made, on an encoded message or a
/// digest.
pub(crate) struct SignContext<'a> {
    functions: &'a SignatureFunctions,
    context: NonNull<c_void>,
}

impl<'a> SignContext<'a> {
    /// Begins a signature with the default provider's key `key`.
    pub(crate) fn begin(
        delegate: &'a Delegate,
        key: NonNull<c_void>,
        params: &[OsslParam],
    ) -> Option<Self> {
        let functions = &delegate.signature.functions;
        let (newctx, sign_init) = (functions.newctx?, functions.sign_init?);
        let no_query = ptr::null::<c_char>();
        // SAFETY: the default provider's own context.
        let context = NonNull::new(unsafe { newctx(delegate.provctx, no_query) })?;
        let context = SignContext { functions, context };
        // SAFETY: context and key are the default provider's; `params` has an end.
        let begun = unsafe { sign_init(context.context.as_ptr(), key.as_ptr(), params.as_ptr()) };
        (begun > 0).then_some(context)
    }

    /// Makes the signature; answers its length.
    pub(crate) fn sign(&self, input: &[u8], output: &mut [u8]) -> Option<usize> {
        let sign = self.functions.sign?;
        let mut length = output.len();
        // SAFETY: pointers and lengths belong to the slices.
        let done = unsafe {
            sign(
                self.context.as_ptr(),
                output.as_mut_ptr(),
                &mut length,
                output.len(),
                input.as_ptr(),
                input.len(),
            )
        };
        (done > 0).then_some(length)
    }
}

impl Drop for SignContext<'_> {
    fn drop(&mut self) {
        if let Some(freectx) = self.functions.freectx {
            // SAFETY: made by `begin`, freed once.
            unsafe { freectx(self.context.as_ptr()) };
        }
    }
}
