//! Key management: RSA and RSA-PSS keys of the default provider, wrapped.
#![allow(unsafe_code, reason = "calls the default provider's functions")]

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use widelane_ossl_sys::core::{OsslCallback, OsslDispatch, OsslParam};
use widelane_ossl_sys::dispatch::KeymgmtFunctions;

use crate::delegate::Delegate;
use crate::entry::{borrow, entry, forward, give, lend, take, take_back};
use crate::instance::Instance;
use crate::key::{Key, Kind};

/// Our functions for keys of a kind: those that the default provider has as well.
pub(crate) fn functions(delegate: &Delegate, kind: Kind) -> Box<[OsslDispatch]> {
    let inner = kind.functions(delegate);
    let (new, gen_init, gen_settable_params): (_, _, _) = match kind {
        Kind::Rsa => (new_rsa as New, gen_init_rsa as GenInit, gen_settable_params_rsa as Settable),
        Kind::RsaPss => {
            (new_pss as New, gen_init_pss as GenInit, gen_settable_params_pss as Settable)
        }
    };
    KeymgmtFunctions {
        new: Some(new),
        gen_init: Some(gen_init),
        gen_set_template: Some(gen_set_template),
        gen_set_params: Some(gen_set_params),
        gen_settable_params: Some(gen_settable_params),
        generate: Some(generate),
        gen_cleanup: Some(gen_cleanup),
        free: Some(free),
        get_params: Some(get_params),
        gettable_params: Some(gettable_params),
        set_params: Some(set_params),
        settable_params: Some(settable_params),
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

type New = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
type GenInit = unsafe extern "C" fn(*mut c_void, c_int, *const OsslParam) -> *mut c_void;
type Settable = unsafe extern "C" fn(*mut c_void, *mut c_void) -> *const OsslParam;

/// A key that is being generated.
struct Generation {
    delegate: Arc<Delegate>,
    kind: Kind,
    /// The default provider's generation; its owner is `gen_cleanup`.
    inner: *mut c_void,
}

impl Generation {
    fn functions(&self) -> &KeymgmtFunctions {
        self.kind.functions(&self.delegate)
    }

    fn inner(&self) -> *mut c_void {
        self.inner
    }
}

entry! {
    fn new_rsa(provctx: *mut c_void) -> *mut c_void {
        // SAFETY: the core passes our instance.
        unsafe { new(provctx, Kind::Rsa) }
    }

    fn new_pss(provctx: *mut c_void) -> *mut c_void {
        // SAFETY: the core passes our instance.
        unsafe { new(provctx, Kind::RsaPss) }
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
        Some(unsafe { matches(first.inner(), second.inner(), selection) })
    }

    fn import(key: *mut c_void, selection: c_int, params: *const OsslParam) -> c_int {
        // SAFETY: the core passes a key of ours.
        let key = unsafe { borrow::<Key>(key) }?;
        // What is in lanes must not change; the core imports into new keys only.
        if key.is_in_use() {
            return None;
        }
        let import = key.functions().import?;
        // SAFETY: a key of the default provider, and the core's parameters.
        Some(unsafe { import(key.inner(), selection, params) })
    }

    fn dup(key: *const c_void, selection: c_int) -> *mut c_void {
        // SAFETY: the core passes a key of ours.
        let key = unsafe { borrow::<Key>(key) }?;
        let dup = key.functions().dup?;
        // SAFETY: a key of the default provider.
        let inner = unsafe { dup(key.inner(), selection) };
        Key::adopt(key.delegate(), key.kind(), inner).map(lend)
    }

    fn gettable_params(provctx: *mut c_void) -> *const OsslParam {
        // SAFETY: the core passes our instance.
        let delegate = unsafe { borrow::<Instance>(provctx) }?.delegate();
        let gettable_params = delegate.rsa.functions.gettable_params?;
        // SAFETY: the default provider's own context.
        Some(unsafe { gettable_params(delegate.provctx) })
    }

    fn settable_params(provctx: *mut c_void) -> *const OsslParam {
        // SAFETY: the core passes our instance.
        let delegate = unsafe { borrow::<Instance>(provctx) }?.delegate();
        let settable_params = delegate.rsa.functions.settable_params?;
        // SAFETY: the default provider's own context.
        Some(unsafe { settable_params(delegate.provctx) })
    }

    fn gen_init_rsa(
        provctx: *mut c_void,
        selection: c_int,
        params: *const OsslParam,
    ) -> *mut c_void {
        // SAFETY: the core passes our instance and its parameters.
        unsafe { gen_init(provctx, Kind::Rsa, selection, params) }
    }

    fn gen_init_pss(
        provctx: *mut c_void,
        selection: c_int,
        params: *const OsslParam,
    ) -> *mut c_void {
        // SAFETY: the core passes our instance and its parameters.
        unsafe { gen_init(provctx, Kind::RsaPss, selection, params) }
    }

    fn gen_set_template(generation: *mut c_void, template: *mut c_void) -> c_int {
        // SAFETY: the core passes a generation of ours.
        let generation = unsafe { borrow::<Generation>(generation) }?;
        // SAFETY: the core passes a key of ours.
        let template = unsafe { borrow::<Key>(template) }?;
        let gen_set_template = generation.functions().gen_set_template?;
        // SAFETY: both are the default provider's.
        Some(unsafe { gen_set_template(generation.inner(), template.inner()) })
    }

    fn gen_settable_params_rsa(generation: *mut c_void, provctx: *mut c_void) -> *const OsslParam {
        // SAFETY: the core passes what it got from us.
        unsafe { gen_settable_params(generation, provctx, Kind::Rsa) }
    }

    fn gen_settable_params_pss(generation: *mut c_void, provctx: *mut c_void) -> *const OsslParam {
        // SAFETY: the core passes what it got from us.
        unsafe { gen_settable_params(generation, provctx, Kind::RsaPss) }
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
        let inner = unsafe { generate(generation.inner(), callback, argument) };
        Key::adopt(&generation.delegate, generation.kind, inner).map(lend)
    }

    fn gen_cleanup(generation: *mut c_void) {
        // SAFETY: the core ends a generation of ours.
        let generation = unsafe { take::<Generation>(generation) }?;
        let gen_cleanup = generation.functions().gen_cleanup?;
        // SAFETY: a generation of the default provider, ended once.
        unsafe { gen_cleanup(generation.inner()) };
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

/// Makes an empty key.
///
/// # Safety
/// `provctx` must be our instance.
unsafe fn new(provctx: *mut c_void, kind: Kind) -> Option<*mut c_void> {
    // SAFETY: passed on to the caller.
    let delegate = unsafe { borrow::<Instance>(provctx) }?.delegate();
    let new = kind.functions(delegate).new?;
    // SAFETY: the default provider's own context.
    let inner = unsafe { new(delegate.provctx) };
    Key::adopt(delegate, kind, inner).map(lend)
}

/// Begins to generate a key.
///
/// # Safety
/// `provctx` must be our instance, `params` the core's.
unsafe fn gen_init(
    provctx: *mut c_void,
    kind: Kind,
    selection: c_int,
    params: *const OsslParam,
) -> Option<*mut c_void> {
    // SAFETY: passed on to the caller.
    let delegate = unsafe { borrow::<Instance>(provctx) }?.delegate();
    let gen_init = kind.functions(delegate).gen_init?;
    // SAFETY: the default provider's own context, and the core's parameters.
    let inner = unsafe { gen_init(delegate.provctx, selection, params) };
    let delegate = Arc::clone(delegate);
    (!inner.is_null()).then(|| give(Generation { delegate, kind, inner }))
}

/// Names the parameters of a generation, which may be null.
///
/// # Safety
/// `generation` must be null or ours, `provctx` our instance.
unsafe fn gen_settable_params(
    generation: *mut c_void,
    provctx: *mut c_void,
    kind: Kind,
) -> Option<*const OsslParam> {
    // SAFETY: passed on to the caller.
    let delegate = unsafe { borrow::<Instance>(provctx) }?.delegate();
    // SAFETY: passed on to the caller.
    let generation = unsafe { borrow::<Generation>(generation) };
    let gen_settable_params = kind.functions(delegate).gen_settable_params?;
    let inner = generation.map_or(std::ptr::null_mut(), Generation::inner);
    // SAFETY: null or the default provider's, and the default provider's own context.
    Some(unsafe { gen_settable_params(inner, delegate.provctx) })
}
