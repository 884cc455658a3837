//! The default provider as the program's own library context has it: its digests may be those of
//! any provider that the program has loaded.
#![allow(unsafe_code, reason = "calls libcrypto")]

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::OnceLock;

use widelane_ossl_sys::Libcrypto;
use widelane_ossl_sys::core::{OsslCoreHandle, OsslDispatch, OsslLibCtx, OsslProvider};

use crate::stack::on_large;

/// The default provider in a child of the program's library context, made when a digest is first
/// used that our own library context lacks.
#[derive(Default)]
pub(crate) struct Child {
    core: Option<Core>,
    loaded: OnceLock<Option<Loaded>>,
}

/// What libcrypto handed us when it loaded us, and keeps as long as we are loaded.
#[derive(Clone, Copy)]
pub(crate) struct Core {
    pub(crate) handle: *const OsslCoreHandle,
    pub(crate) upcalls: *const OsslDispatch,
}

struct Loaded {
    context: *mut OsslLibCtx,
    provider: *mut OsslProvider,
    provctx: *mut c_void,
}

impl Child {
    /// The child of the library context that `core` belongs to.
    pub(crate) fn of(core: Core) -> Self {
        Child { core: Some(core), loaded: OnceLock::new() }
    }

    /// What the default provider's functions take for its own context, if the program's library
    /// context has the digest.
    pub(crate) fn provctx_with(&self, libcrypto: &Libcrypto, digest: &CStr) -> Option<*mut c_void> {
        let core = self.core?;
        let load = || on_large(|| Loaded::new(libcrypto, core)).flatten();
        let loaded = self.loaded.get_or_init(load).as_ref()?;
        has_digest(libcrypto, loaded.context, digest).then_some(loaded.provctx)
    }

    /// Ends the child.
    pub(crate) fn free(&mut self, libcrypto: &Libcrypto) {
        if let Some(loaded) = self.loaded.take().flatten() {
            loaded.free(libcrypto);
        }
    }
}

impl Loaded {
    fn new(libcrypto: &Libcrypto, core: Core) -> Option<Self> {
        // SAFETY: libcrypto passed both to `OSSL_provider_init` of this provider.
        let context = unsafe { (libcrypto.OSSL_LIB_CTX_new_child)(core.handle, core.upcalls) };
        if context.is_null() {
            return None;
        }
        // SAFETY: the context was made above.
        let provider = unsafe { (libcrypto.OSSL_PROVIDER_load)(context, c"default".as_ptr()) };
        let mut loaded = Loaded { context, provider, provctx: ptr::null_mut() };
        if provider.is_null() {
            loaded.free(libcrypto);
            return None;
        }
        // SAFETY: the provider was loaded above.
        loaded.provctx = unsafe { (libcrypto.OSSL_PROVIDER_get0_provider_ctx)(provider) };
        Some(loaded)
    }

    fn free(self, libcrypto: &Libcrypto) {
        if !self.provider.is_null() {
            // SAFETY: loaded by `new`, unloaded once.
            unsafe { (libcrypto.OSSL_PROVIDER_unload)(self.provider) };
        }
        // SAFETY: made by `new`, freed once, after what lives in it.
        unsafe { (libcrypto.OSSL_LIB_CTX_free)(self.context) };
    }
}

/// Whether a library context has a digest; leaves no error behind where it has not.
pub(crate) fn has_digest(libcrypto: &Libcrypto, context: *mut OsslLibCtx, name: &CStr) -> bool {
    // SAFETY: no arguments.
    unsafe { (libcrypto.ERR_set_mark)() };
    // SAFETY: a library context of ours, and a C string.
    let found = unsafe { (libcrypto.EVP_MD_fetch)(context, name.as_ptr(), ptr::null()) };
    // SAFETY: null, or found above and given back once.
    unsafe { (libcrypto.EVP_MD_free)(found) };
    // SAFETY: no arguments.
    unsafe { (libcrypto.ERR_pop_to_mark)() };
    !found.is_null()
}
