//! Key management of X25519, Ed25519 and EC keys.
#![allow(unsafe_code, reason = "calls the default provider's functions")]

use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;

use widelane_ossl_sys::core::{self, OsslCallback, OsslDispatch, OsslParam};
use widelane_ossl_sys::dispatch::KeymgmtFunctions;

use crate::curve::generation::Generation;
use crate::curve::key::Key;
use crate::curve::params::Plain;
use crate::curve::{Algorithm, Curve};
use crate::delegate::Delegate;
use crate::entry::{borrow, borrow_mut, entry, forward, give, lend, take, take_back};
use crate::instance::Instance;
use crate::params::{self, Array, Value};

/// Our functions for keys of a family: those that the default provider has as well.
pub(crate) fn functions<F: Family>(delegate: &Delegate) -> Box<[OsslDispatch]> {
    let inner = F::ALGORITHM.keymgmt(delegate);
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
    const ALGORITHM: Algorithm;
}

/// [`Algorithm::Ec`].
pub(crate) enum Ec {}

/// [`Algorithm::Ed25519`].
pub(crate) enum Ed25519 {}

/// [`Algorithm::X25519`].
pub(crate) enum X25519 {}

impl Family for Ec {
    const ALGORITHM: Algorithm = Algorithm::Ec;
}

impl Family for Ed25519 {
    const ALGORITHM: Algorithm = Algorithm::Ed25519;
}

impl Family for X25519 {
    const ALGORITHM: Algorithm = Algorithm::X25519;
}

entry! {
    fn new<F: Family>(provctx: *mut c_void) -> *mut c_void {
        // SAFETY: the core passes our instance.
        let delegate = unsafe { borrow::<Instance>(provctx) }?.delegate();
        Some(lend(Arc::new(Key::new(delegate, F::ALGORITHM))))
    }

    fn free(key: *mut c_void) {
        // SAFETY: the core gives a key back that it got from `lend`.
        drop(unsafe { take_back::<Key>(key) });
        Some(())
    }

    fn has(key: *const c_void, selection: c_int) -> c_int {
        // SAFETY: the core passes a key of ours.
        let key = unsafe { borrow::<Key>(key) }?;
        Some(c_int::from(key.has(selection)))
    }

    fn get_params(key: *mut c_void, params: *mut OsslParam) -> c_int {
        // SAFETY: the core passes a key of ours.
        let key = unsafe { borrow::<Key>(key) }?;
        // SAFETY: the core's array.
        if unsafe { params::answer_all(params, |name| known(key, name)) } {
            return Some(1);
        }
        let (get_params, inner) = (key.functions().get_params?, key.inner()?);
        // SAFETY: a key of the default provider, and the core's parameters.
        Some(unsafe { get_params(inner, params) })
    }

    fn set_params(key: *mut c_void, params: *const OsslParam) -> c_int {
        // SAFETY: the core passes a key of ours.
        let key = unsafe { borrow::<Key>(key) }?;
        // SAFETY: the core's array.
        let mut given = unsafe { params::iter(params) };
        let encoded = |param: &&OsslParam| {
            params::key(param) == core::PKEY_PARAM_ENCODED_PUBLIC_KEY
        };
        // SAFETY: the core's array.
        let changes = unsafe { params::iter(params) }.any(|param| encoded(&param));
        if let (Some(first), None) = (given.next().filter(encoded), given.next())
            && params::octets(first).is_some_and(|public| key.set_public(public))
        {
            return Some(1);
        }
        let (set_params, inner) = (key.functions().set_params?, key.inner()?);
        key.hand_over(changes);
        // SAFETY: a key of the default provider, and the core's parameters.
        Some(unsafe { set_params(inner, params) })
    }

    fn validate(key: *const c_void, selection: c_int, check: c_int) -> c_int {
        // SAFETY: the core passes a key of ours.
        let key = unsafe { borrow::<Key>(key) }?;
        // A public key that we hold is on its curve, of which the cofactor is 1: it has the right
        // order as well. X25519 takes any.
        if key.is_ours() && selection == core::SELECT_PUBLIC_KEY && key.known_public().is_some() {
            return Some(1);
        }
        let (validate, inner) = (key.functions().validate?, key.inner()?);
        // SAFETY: a key of the default provider.
        Some(unsafe { validate(inner, selection, check) })
    }

    fn matches(first: *const c_void, second: *const c_void, selection: c_int) -> c_int {
        // SAFETY: the core passes a key of ours.
        let first = unsafe { borrow::<Key>(first) }?;
        // SAFETY: as above.
        let second = unsafe { borrow::<Key>(second) }?;
        if let Some(matches) = first.matches(second, selection) {
            return Some(c_int::from(matches));
        }
        let (matches, inner) = (first.functions().matches?, first.inner()?);
        // SAFETY: both are keys of the default provider.
        Some(unsafe { matches(inner, second.inner()?, selection) })
    }

    pub(super) fn import(key: *mut c_void, selection: c_int, params: *const OsslParam) -> c_int {
        // SAFETY: the core passes a key of ours.
        let key = unsafe { borrow::<Key>(key) }?;
        // What is in lanes must not change; the core imports into new keys only.
        if key.is_in_use() {
            return None;
        }
        // SAFETY: the core's parameters.
        let given = unsafe { Array::new(params) };
        if key.algorithm() == Algorithm::Ec
            && Plain::read(selection, given).is_some_and(|plain| key.keep(plain))
        {
            return Some(1);
        }
        let (import, inner) = (key.functions().import?, key.inner()?);
        // SAFETY: a key of the default provider, and the core's parameters.
        Some(unsafe { import(inner, selection, params) })
    }

    fn dup(key: *const c_void, selection: c_int) -> *mut c_void {
        // SAFETY: the core passes a key of ours.
        let key = unsafe { borrow::<Key>(key) }?;
        if let Some(copy) = key.duplicate(selection) {
            return Some(lend(Arc::new(copy)));
        }
        let (dup, inner) = (key.functions().dup?, key.inner()?);
        // SAFETY: a key of the default provider.
        let inner = unsafe { dup(inner, selection) };
        Key::adopt(key.delegate(), key.algorithm(), inner).map(lend)
    }

    fn gettable_params<F: Family>(provctx: *mut c_void) -> *const OsslParam {
        // SAFETY: the core passes our instance.
        let delegate = unsafe { borrow::<Instance>(provctx) }?.delegate();
        let gettable_params = F::ALGORITHM.keymgmt(delegate).gettable_params?;
        // SAFETY: the default provider's own context.
        Some(unsafe { gettable_params(delegate.provctx) })
    }

    fn settable_params<F: Family>(provctx: *mut c_void) -> *const OsslParam {
        // SAFETY: the core passes our instance.
        let delegate = unsafe { borrow::<Instance>(provctx) }?.delegate();
        let settable_params = F::ALGORITHM.keymgmt(delegate).settable_params?;
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
        // SAFETY: the core's parameters.
        unsafe { Generation::begin(delegate, F::ALGORITHM, selection, params) }.map(give)
    }

    fn gen_set_template(generation: *mut c_void, template: *mut c_void) -> c_int {
        // SAFETY: the core passes a generation of ours.
        let generation = unsafe { borrow_mut::<Generation>(generation) }?;
        // SAFETY: the core passes a key of ours.
        let template = unsafe { borrow::<Key>(template) }?;
        generation.set_template(template)
    }

    fn gen_set_params(generation: *mut c_void, params: *const OsslParam) -> c_int {
        // SAFETY: the core passes a generation of ours.
        let generation = unsafe { borrow_mut::<Generation>(generation) }?;
        // SAFETY: the core's parameters.
        unsafe { generation.set_params(params) }
    }

    fn gen_settable_params<F: Family>(
        generation: *mut c_void,
        provctx: *mut c_void,
    ) -> *const OsslParam {
        // SAFETY: the core passes our instance.
        let delegate = unsafe { borrow::<Instance>(provctx) }?.delegate();
        // SAFETY: the core passes a generation of ours, or none.
        let inner = match unsafe { borrow_mut::<Generation>(generation) } {
            Some(generation) => generation.inner()?,
            None => std::ptr::null_mut(),
        };
        let gen_settable_params = F::ALGORITHM.keymgmt(delegate).gen_settable_params?;
        // SAFETY: null or the default provider's, and the default provider's own context.
        Some(unsafe { gen_settable_params(inner, delegate.provctx) })
    }

    fn generate(
        generation: *mut c_void,
        callback: Option<OsslCallback>,
        argument: *mut c_void,
    ) -> *mut c_void {
        // SAFETY: the core passes a generation of ours.
        let generation = unsafe { borrow_mut::<Generation>(generation) }?;
        // SAFETY: the core's callback and its argument.
        unsafe { generation.generate(callback, argument) }.map(lend)
    }

    fn gen_cleanup(generation: *mut c_void) {
        // SAFETY: the core ends a generation of ours.
        drop(unsafe { take::<Generation>(generation) });
        Some(())
    }
}

forward! {
    fn export(
        key: *mut c_void => Key,
        selection: c_int,
        callback: Option<OsslCallback>,
        argument: *mut c_void
    ) -> c_int;
}

/// What a key says of itself without the default provider.
fn known<'a>(key: &'a Key, name: &CStr) -> Option<Value<'a>> {
    let curve = key.known_curve()?;
    let [bits, strength, longest] = curve.sizes();
    if name == core::PKEY_PARAM_BITS {
        Some(Value::Int(bits))
    } else if name == core::PKEY_PARAM_SECURITY_BITS {
        Some(Value::Int(strength))
    } else if name == core::PKEY_PARAM_SECURITY_CATEGORY {
        Some(Value::Int(0))
    } else if name == core::PKEY_PARAM_MAX_SIZE {
        Some(Value::Int(longest))
    } else if name == core::PKEY_PARAM_GROUP_NAME {
        curve.group_name().map(Value::Text)
    } else if name == core::PKEY_PARAM_ENCODED_PUBLIC_KEY && curve != Curve::Ed25519 {
        key.known_public().map(Value::Octets)
    } else {
        None
    }
}
