//! Key management: RSA and RSA-PSS keys of the default provider, wrapped.
#![allow(unsafe_code, reason = "calls the default provider's functions")]

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use widelane_ossl_sys::core::{OsslCallback, OsslDispatch, OsslParam, SELECT_PRIVATE_KEY};
use widelane_ossl_sys::dispatch::KeymgmtFunctions;

use crate::batching::lane_process;
use crate::delegate::{Delegate, Owned};
use crate::entry::{borrow, entry, forward, give, lend, share, take, take_back};
use crate::instance::Instance;
use crate::rsa::key::{Key, Kind};

/// Our functions for keys of a family: those that the default provider has as well.
pub(crate) fn functions<F: Family>(delegate: &Delegate) -> Box<[OsslDispatch]> {
    let inner = F::KIND.functions(delegate);
    KeymgmtFunctions {
        new: Some(new::<F>),
        gen_init: Some(gen_init::<F>),
        gen_set_template: Some(gen_set_template),
        gen_set_params: Some(gen_set_params),
        gen_settable_params: Some(gen_settable_params::<F>),
        generate: Some(generate),
        gen_cleanup: Some(gen_cleanup),
        free: Some(free),
        get_params: Some(get_params),
        gettable_params: Some(gettable_params::<F>),
        set_params: Some(set_params),
        settable_params: Some(settable_params::<F>),
        has: Some(has),
        validate: Some(validate),
        matches: Some(matches),
        import: Some(import),
        export: Some(export),
        dup: Some(dup),
        // These take neither a key nor a context: the default provider's own serve.
        query_operation_name: inner.query_operation_name,
        import_types: inner.import_types,
        export_types: inner.export_types,
    }
    .write_like(inner)
}

/// A kind of keys, as a type: the core calls functions of each kind without saying which it means.
pub(crate) trait Family {
    /// The kind.
    const KIND: Kind;
}

/// [`Kind::Rsa`].
pub(crate) enum Rsa {}

/// [`Kind::RsaPss`].
pub(crate) enum RsaPss {}

impl Family for Rsa {
    const KIND: Kind = Kind::Rsa;
}

impl Family for RsaPss {
    const KIND: Kind = Kind::RsaPss;
}

/// A key that is being generated.
struct Generation {
    delegate: Arc<Delegate>,
    kind: Kind,
    /// The default provider's generation.
    inner: Owned,
}

impl Generation {
    fn functions(&self) -> &KeymgmtFunctions {
        self.kind.functions(&self.delegate)
    }

    fn inner(&self) -> Option<*mut c_void> {
        Some(self.inner.as_ptr())
    }
}

entry! {
    fn new<F: Family>(provctx: *mut c_void) -> *mut c_void {
        // SAFETY: the core passes our instance.
        let delegate = unsafe { borrow::<Instance>(provctx) }?.delegate();
        let new = F::KIND.functions(delegate).new?;
        // SAFETY: the default provider's own context.
        let inner = unsafe { new(delegate.provctx) };
        Key::adopt(delegate, F::KIND, inner).map(lend)
    }

    fn free(key: *mut c_void) {
        // SAFETY: the core gives a key back that it got from `lend`.
        drop(unsafe { take_back::<Key>(key) });
        Some(())
    }

    fn matches(first: *const c_void, second: *const c_void, selection: c_int) -> c_int {
        // SAFETY: the core passes a key of ours.
        let first = unsafe { borrow::<Key>(first) }?;
        // SAFETY: as above.
        let second = unsafe { borrow::<Key>(second) }?;
        let matches = first.functions().matches?;
        // SAFETY: both are keys of the default provider.
        Some(unsafe { matches(first.as_ptr(), second.as_ptr(), selection) })
    }

    fn import(key: *mut c_void, selection: c_int, params: *const OsslParam) -> c_int {
        // SAFETY: the core passes a key of ours.
        let key = unsafe { share::<Key>(key) }?;
        // What is in lanes must not change; the core imports into new keys only.
        if key.is_in_use() {
            return None;
        }
        let import = key.functions().import?;
        // SAFETY: a key of the default provider, and the core's parameters.
        let imported = unsafe { import(key.as_ptr(), selection, params) };
        if imported > 0 && selection & SELECT_PRIVATE_KEY != 0 {
            lane_process::keys::loaded(&key);
        }
        Some(imported)
    }

    fn dup(key: *const c_void, selection: c_int) -> *mut c_void {
        // SAFETY: the core passes a key of ours.
        let key = unsafe { borrow::<Key>(key) }?;
        let dup = key.functions().dup?;
        // SAFETY: a key of the default provider.
        let inner = unsafe { dup(key.as_ptr(), selection) };
        Key::adopt(key.delegate(), key.kind(), inner).map(lend)
    }

    fn gettable_params<F: Family>(provctx: *mut c_void) -> *const OsslParam {
        // SAFETY: the core passes our instance.
        let delegate = unsafe { borrow::<Instance>(provctx) }?.delegate();
        let gettable_params = F::KIND.functions(delegate).gettable_params?;
        // SAFETY: the default provider's own context.
        Some(unsafe { gettable_params(delegate.provctx) })
    }

    fn settable_params<F: Family>(provctx: *mut c_void) -> *const OsslParam {
        // SAFETY: the core passes our instance.
        let delegate = unsafe { borrow::<Instance>(provctx) }?.delegate();
        let settable_params = F::KIND.functions(delegate).settable_params?;
        // SAFETY: the default provider's own context.
        Some(unsafe { settable_params(delegate.provctx) })
    }

    fn gen_init<F: Family>(
        provctx: *mut c_void,
        selection: c_int,
        params: *const OsslParam,
    ) -> *mut c_void {
        // SAFETY: the core passes our instance.
        let delegate = unsafe { borrow::<Instance>(provctx) }?.delegate();
        let functions = F::KIND.functions(delegate);
        let gen_init = functions.gen_init?;
        // SAFETY: the default provider's own context, and the core's parameters.
        let inner = unsafe { gen_init(delegate.provctx, selection, params) };
        let inner = Owned::adopt(inner, functions.gen_cleanup)?;
        Some(give(Generation { delegate: Arc::clone(delegate), kind: F::KIND, inner }))
    }

    fn gen_set_template(generation: *mut c_void, template: *mut c_void) -> c_int {
        // SAFETY: the core passes a generation of ours.
        let generation = unsafe { borrow::<Generation>(generation) }?;
        // SAFETY: the core passes a key of ours.
        let template = unsafe { borrow::<Key>(template) }?;
        let gen_set_template = generation.functions().gen_set_template?;
        // SAFETY: both are the default provider's.
        Some(unsafe { gen_set_template(generation.inner.as_ptr(), template.as_ptr()) })
    }

    fn gen_settable_params<F: Family>(
        generation: *mut c_void,
        provctx: *mut c_void,
    ) -> *const OsslParam {
        // SAFETY: the core passes our instance.
        let delegate = unsafe { borrow::<Instance>(provctx) }?.delegate();
        // SAFETY: the core passes a generation of ours, or none.
        let generation = unsafe { borrow::<Generation>(generation) };
        let gen_settable_params = F::KIND.functions(delegate).gen_settable_params?;
        let inner = generation.map_or(ptr::null_mut(), |generation| generation.inner.as_ptr());
        // SAFETY: null or the default provider's, and the default provider's own context.
        Some(unsafe { gen_settable_params(inner, delegate.provctx) })
    }

    fn generate(
        generation: *mut c_void,
        callback: Option<OsslCallback>,
        argument: *mut c_void,
    ) -> *mut c_void {
        // SAFETY: the core passes a generation of ours.
        let generation = unsafe { borrow::<Generation>(generation) }?;
        let generate = generation.functions().generate?;
        // SAFETY: a generation of the default provider, and the core's callback.
        let inner = unsafe { generate(generation.inner.as_ptr(), callback, argument) };
        Key::adopt(&generation.delegate, generation.kind, inner).map(lend)
    }

    fn gen_cleanup(generation: *mut c_void) {
        // SAFETY: the core ends a generation of ours.
        drop(unsafe { take::<Generation>(generation) });
        Some(())
    }
}

forward! {
    fn get_params(key: *mut c_void => Key, params: *mut OsslParam) -> c_int;
    fn set_params(key: *mut c_void => Key, params: *const OsslParam) -> c_int;
    fn has(key: *const c_void => Key, selection: c_int) -> c_int;
    fn validate(key: *const c_void => Key, selection: c_int, check: c_int) -> c_int;
    fn export(
        key: *mut c_void => Key,
        selection: c_int,
        callback: Option<OsslCallback>,
        argument: *mut c_void
    ) -> c_int;
    fn gen_set_params(generation: *mut c_void => Generation, params: *const OsslParam) -> c_int;
}
