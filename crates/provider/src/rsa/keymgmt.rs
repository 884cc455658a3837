//! Key management: RSA and RSA-PSS keys of the default provider, wrapped.
#![allow(unsafe_code, reason = "calls the default provider's functions")]

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use widelane_ossl_sys::core::{OsslCallback, OsslParam};
use widelane_ossl_sys::dispatch::KeymgmtFunctions;

use crate::delegate::{Delegate, Owned};
use crate::keymgmt::{Generation, KeyFamily, ManagedKey};
use crate::rsa::key::{Key, Kind};

/// Keys of [`Kind::Rsa`].
pub(crate) enum Rsa {}

/// Keys of [`Kind::RsaPss`].
pub(crate) enum RsaPss {}

impl KeyFamily for Rsa {
    type Key = Key;
    const KIND: Kind = Kind::Rsa;
}

impl KeyFamily for RsaPss {
    type Key = Key;
    const KIND: Kind = Kind::RsaPss;
}

/// A key that the default provider generates.
pub(crate) struct WrappedGeneration {
    delegate: Arc<Delegate>,
    kind: Kind,
    inner: Owned,
}

impl WrappedGeneration {
    /// Begins to generate the selected parts of a key.
    ///
    /// # Safety
    /// `params` must be null or an array that ends with a null name.
    pub(super) unsafe fn begin(
        delegate: &Arc<Delegate>,
        kind: Kind,
        selection: c_int,
        params: *const OsslParam,
    ) -> Option<Self> {
        let functions = kind.functions(delegate);
        let gen_init = functions.gen_init?;
        // SAFETY: the default provider's own context, and the core's parameters.
        let inner = unsafe { gen_init(delegate.provctx, selection, params) };
        let inner = Owned::adopt(inner, functions.gen_cleanup)?;
        Some(WrappedGeneration { delegate: Arc::clone(delegate), kind, inner })
    }

    fn functions(&self) -> &KeymgmtFunctions {
        self.kind.functions(&self.delegate)
    }
}

impl Generation for WrappedGeneration {
    type Key = Key;

    fn inner(&mut self) -> Option<*mut c_void> {
        Some(self.inner.as_ptr())
    }

    unsafe fn set_params(&mut self, params: *const OsslParam) -> Option<c_int> {
        let gen_set_params = self.functions().gen_set_params?;
        // SAFETY: a generation of the default provider, and the core's parameters.
        Some(unsafe { gen_set_params(self.inner.as_ptr(), params) })
    }

    fn set_template(&mut self, template: &Key) -> Option<c_int> {
        let gen_set_template = self.functions().gen_set_template?;
        // SAFETY: both are the default provider's.
        Some(unsafe { gen_set_template(self.inner.as_ptr(), template.as_ptr()) })
    }

    unsafe fn generate(
        &mut self,
        callback: Option<OsslCallback>,
        argument: *mut c_void,
    ) -> Option<Arc<Key>> {
        let generate = self.functions().generate?;
        // SAFETY: a generation of the default provider, and the core's callback.
        let inner = unsafe { generate(self.inner.as_ptr(), callback, argument) };
        Key::adopt(&self.delegate, self.kind, inner)
    }
}
