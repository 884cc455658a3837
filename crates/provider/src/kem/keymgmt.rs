//! Key management of key encapsulation. What is asked and set is what OpenSSL 3.5 knows; what it
//! does not know it leaves alone, and so do we.
//!
//! libssl answers a peer's share by the call that fails: with the alert `illegal_parameter` where
//! `set_params` refuses it, with `internal_error` where encapsulation fails later. So whatever can
//! be wrong with a share is refused in [`Key::set_public`].
#![allow(unsafe_code, reason = "speaks to the core")]

use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;

use widelane_crypto::mlkem::SEED_BYTES;
use widelane_ossl_sys::core::{
    self, OsslCallback, OsslDispatch, OsslParam, PARAM_INTEGER, PARAM_OCTET_STRING,
    PARAM_UTF8_STRING,
};
use widelane_ossl_sys::dispatch::KeymgmtFunctions;

use crate::entry::{Nth, Place, borrow, borrow_mut, end_given, end_lent, entry, give, lend};
use crate::errors::raise;
use crate::instance::Instance;
use crate::kem::MECHANISMS;
use crate::kem::generation::Generation;
use crate::kem::key::{Key, Reason};
use crate::params::{self, Array, Value};
use crate::secret::Secret;

/// Our functions for the keys of a mechanism, given by its place.
pub(super) fn functions(index: usize) -> Box<[OsslDispatch]> {
    FUNCTIONS[index].write()
}

const FUNCTIONS: [KeymgmtFunctions; MECHANISMS.len()] = [
    table::<Nth<0>>(),
    table::<Nth<1>>(),
    table::<Nth<2>>(),
    table::<Nth<3>>(),
    table::<Nth<4>>(),
    table::<Nth<5>>(),
];

const fn table<P: Place>() -> KeymgmtFunctions {
    KeymgmtFunctions {
        new: Some(new::<P>),
        gen_init: Some(gen_init::<P>),
        gen_set_template: None,
        gen_set_params: Some(gen_set_params),
        gen_settable_params: Some(gen_settable_params),
        generate: Some(generate),
        gen_cleanup: Some(end_given::<Generation>),
        free: Some(end_lent::<Key>),
        get_params: Some(get_params),
        gettable_params: Some(gettable_params::<P>),
        set_params: Some(set_params),
        settable_params: Some(settable_params),
        query_operation_name: None,
        has: Some(has),
        // As OpenSSL: a hybrid has no check of its own, and passes.
        validate: if MECHANISMS[P::INDEX].curve.is_none() { Some(validate) } else { None },
        matches: Some(matches),
        import: Some(import),
        import_types: Some(types),
        export: Some(export),
        export_types: Some(types),
        dup: Some(dup),
    }
}

/// Success, or a failure that an error explains.
fn answer(key: &Key, result: Result<(), Reason>) -> Option<c_int> {
    result.inspect_err(|reason| raise(&key.delegate().libcrypto, *reason)).ok().map(|()| 1)
}

/// Whether a key has the selected halves.
fn has_parts(key: &Key, selection: c_int) -> bool {
    match selection & core::SELECT_KEYPAIR {
        0 => true,
        core::SELECT_PUBLIC_KEY => key.public().is_some(),
        _ => key.decapsulation_key().is_some(),
    }
}

entry! {
    fn new<P: Place>(provctx: *mut c_void) -> *mut c_void {
        // SAFETY: the core passes our instance.
        let delegate = unsafe { borrow::<Instance>(provctx) }?.delegate();
        Some(lend(Arc::new(Key::new(delegate, P::INDEX))))
    }

    fn has(key: *const c_void, selection: c_int) -> c_int {
        // SAFETY: the core passes a key of ours.
        let key = unsafe { borrow::<Key>(key) }?;
        Some(c_int::from(has_parts(key, selection)))
    }

    fn validate(key: *const c_void, selection: c_int, _check: c_int) -> c_int {
        // SAFETY: the core passes a key of ours.
        let key = unsafe { borrow::<Key>(key) }?;
        if !has_parts(key, selection) {
            return None;
        }
        let is_pair = selection & core::SELECT_KEYPAIR == core::SELECT_KEYPAIR;
        let is_right = !is_pair || key.agrees();
        answer(key, is_right.then_some(()).ok_or(core::PROV_R_INVALID_KEY))
    }

    fn matches(first: *const c_void, second: *const c_void, selection: c_int) -> c_int {
        // SAFETY: the core passes a key of ours.
        let first = unsafe { borrow::<Key>(first) }?;
        // SAFETY: as above.
        let second = unsafe { borrow::<Key>(second) }?;
        let is_same = std::ptr::eq(first.mechanism(), second.mechanism())
            && (selection & core::SELECT_KEYPAIR == 0 || first.public() == second.public());
        Some(c_int::from(is_same))
    }

    fn get_params(key: *mut c_void, params: *mut OsslParam) -> c_int {
        // SAFETY: the core passes a key of ours.
        let key = unsafe { borrow::<Key>(key) }?;
        // SAFETY: the core's array.
        for (name, param) in unsafe { params::iter_mut(params) } {
            let told = tell(key, name, |value| {
                // SAFETY: the core has room for what it asks for.
                unsafe { value.write_to(param) }
            });
            if !told {
                if key.mechanism().curve.is_some() && param.data_type == PARAM_OCTET_STRING {
                    raise(&key.delegate().libcrypto, core::PROV_R_OUTPUT_BUFFER_TOO_SMALL);
                }
                return None;
            }
        }
        Some(1)
    }

    fn gettable_params<P: Place>(_provctx: *mut c_void) -> *const OsslParam {
        let is_hybrid = MECHANISMS[P::INDEX].curve.is_some();
        Some(if is_hybrid { GETTABLE[ONLY_OF_ML_KEM..].as_ptr() } else { GETTABLE.as_ptr() })
    }

    fn set_params(key: *mut c_void, params: *const OsslParam) -> c_int {
        // SAFETY: the core passes a key of ours.
        let key = unsafe { borrow::<Key>(key) }?;
        // SAFETY: the core's array.
        let params = unsafe { Array::new(params) };
        let Some(public) = params.find(core::PKEY_PARAM_ENCODED_PUBLIC_KEY) else {
            return Some(1);
        };
        answer(key, key.set_public(params::octets(public)?))
    }

    fn settable_params(_provctx: *mut c_void) -> *const OsslParam {
        Some(SETTABLE.as_ptr())
    }

    fn import(key: *mut c_void, selection: c_int, params: *const OsslParam) -> c_int {
        // SAFETY: the core passes a key of ours.
        let key = unsafe { borrow::<Key>(key) }?;
        if selection & core::SELECT_KEYPAIR == 0 || key.halves().is_some() {
            return None;
        }
        // SAFETY: the core's array.
        let params = unsafe { Array::new(params) };
        let with_private = selection & core::SELECT_PRIVATE_KEY != 0;
        let part = |name, is_selected: bool| {
            params.find(name).filter(|_| is_selected).and_then(params::octets)
        };
        answer(key, key.import([
            part(core::PKEY_PARAM_ML_KEM_SEED, with_private),
            part(core::PKEY_PARAM_PRIV_KEY, with_private),
            part(core::PKEY_PARAM_PUB_KEY, true),
        ]))
    }

    fn types(selection: c_int) -> *const OsslParam {
        (selection & core::SELECT_KEYPAIR != 0).then_some(TYPES.as_ptr())
    }

    fn export(
        key: *mut c_void,
        selection: c_int,
        callback: Option<OsslCallback>,
        argument: *mut c_void,
    ) -> c_int {
        // SAFETY: the core passes a key of ours.
        let key = unsafe { borrow::<Key>(key) }?;
        if selection & core::SELECT_KEYPAIR == 0 {
            return None;
        }
        let Some(halves) = key.halves() else {
            raise(&key.delegate().libcrypto, core::PROV_R_MISSING_KEY);
            return None;
        };
        let with_private = selection & core::SELECT_PRIVATE_KEY != 0;
        let private = key.private().filter(|_| with_private);
        let seed = halves.seed.as_ref().filter(|_| with_private);
        let mut parts = Vec::with_capacity(4);
        if selection & core::SELECT_PUBLIC_KEY != 0 {
            parts.push(params::octets_in(core::PKEY_PARAM_PUB_KEY, &halves.public));
        }
        if let Some(seed) = seed {
            parts.push(params::octets_in(core::PKEY_PARAM_ML_KEM_SEED, &seed.0));
        }
        if let Some(private) = &private {
            parts.push(params::octets_in(core::PKEY_PARAM_PRIV_KEY, &private.0));
        }
        parts.push(OsslParam::END);
        // SAFETY: the core's callback and its argument; the array has an end.
        Some(unsafe { callback?(parts.as_ptr(), argument) })
    }

    fn dup(key: *const c_void, selection: c_int) -> *mut c_void {
        // SAFETY: the core passes a key of ours.
        let key = unsafe { borrow::<Key>(key) }?;
        let copy = match selection & core::SELECT_KEYPAIR {
            0 => key.duplicate(false),
            core::SELECT_KEYPAIR => key.duplicate(true),
            _ if key.halves().is_none() => key.duplicate(false),
            // As OpenSSL 3.5: a part of a key is none.
            _ => return None,
        };
        Some(lend(Arc::new(copy)))
    }

    fn gen_init<P: Place>(
        provctx: *mut c_void,
        selection: c_int,
        params: *const OsslParam,
    ) -> *mut c_void {
        // SAFETY: the core passes our instance.
        let delegate = unsafe { borrow::<Instance>(provctx) }?.delegate();
        let mut generation = Generation::begin(delegate, P::INDEX, selection)?;
        // SAFETY: the core's parameters.
        set(&mut generation, unsafe { Array::new(params) })?;
        Some(give(generation))
    }

    fn gen_set_params(generation: *mut c_void, params: *const OsslParam) -> c_int {
        // SAFETY: the core passes a generation of ours.
        let generation = unsafe { borrow_mut::<Generation>(generation) }?;
        // SAFETY: the core's parameters.
        set(generation, unsafe { Array::new(params) })
    }

    fn gen_settable_params(_generation: *mut c_void, _provctx: *mut c_void) -> *const OsslParam {
        Some(GENERATION_SETTABLE.as_ptr())
    }

    fn generate(
        generation: *mut c_void,
        _callback: Option<OsslCallback>,
        _argument: *mut c_void,
    ) -> *mut c_void {
        // SAFETY: the core passes a generation of ours.
        let generation = unsafe { borrow_mut::<Generation>(generation) }?;
        generation.generate().map(lend)
    }
}

/// Takes the seed. The group, which libssl names, is the mechanism.
fn set(generation: &mut Generation, params: Array<'_>) -> Option<c_int> {
    let seed = params.find(core::PKEY_PARAM_ML_KEM_SEED).filter(|_| generation.takes_seed());
    let Some(seed) = seed else { return Some(1) };
    match params::octets(seed) {
        Some(seed) if seed.len() == SEED_BYTES => generation.seed = Some(Secret(seed.to_vec())),
        _ => {
            raise(&generation.delegate().libcrypto, core::PROV_R_INVALID_SEED_LENGTH);
            return None;
        }
    }
    Some(1)
}

/// Gives the value of a parameter to `write`, if there is one; false if that does not take it.
fn tell(key: &Key, name: params::Name<'_>, write: impl FnOnce(Value<'_>) -> bool) -> bool {
    let [bits, strength, category] = key.mechanism().sizes().map(usize::from);
    let is = |known: &CStr| name == known;
    if is(core::PKEY_PARAM_BITS) {
        write(Value::Size(bits))
    } else if is(core::PKEY_PARAM_SECURITY_BITS) {
        write(Value::Size(strength))
    } else if is(core::PKEY_PARAM_SECURITY_CATEGORY) {
        write(Value::Size(category))
    } else if is(core::PKEY_PARAM_MAX_SIZE) {
        write(Value::Size(key.mechanism().ciphertext_bytes()))
    } else if is(core::PKEY_PARAM_ENCODED_PUBLIC_KEY)
        || is(core::PKEY_PARAM_PUB_KEY) && key.mechanism().curve.is_none()
    {
        key.public().is_none_or(|public| write(Value::Octets(public)))
    } else if is(core::PKEY_PARAM_PRIV_KEY) {
        key.private().is_none_or(|private| write(Value::Octets(&private.0)))
    } else if is(core::PKEY_PARAM_ML_KEM_SEED) {
        let seed = key.halves().and_then(|halves| halves.seed.as_ref());
        seed.is_none_or(|seed| write(Value::Octets(&seed.0)))
    } else {
        true
    }
}

static GETTABLE: [OsslParam; 9] = [
    params::gettable(core::PKEY_PARAM_PUB_KEY, PARAM_OCTET_STRING),
    params::gettable(core::PKEY_PARAM_ML_KEM_SEED, PARAM_OCTET_STRING),
    params::gettable(core::PKEY_PARAM_BITS, PARAM_INTEGER),
    params::gettable(core::PKEY_PARAM_SECURITY_BITS, PARAM_INTEGER),
    params::gettable(core::PKEY_PARAM_SECURITY_CATEGORY, PARAM_INTEGER),
    params::gettable(core::PKEY_PARAM_MAX_SIZE, PARAM_INTEGER),
    params::gettable(core::PKEY_PARAM_ENCODED_PUBLIC_KEY, PARAM_OCTET_STRING),
    params::gettable(core::PKEY_PARAM_PRIV_KEY, PARAM_OCTET_STRING),
    OsslParam::END,
];

/// The first of them, which a hybrid does not answer.
const ONLY_OF_ML_KEM: usize = 2;

static SETTABLE: [OsslParam; 2] =
    [params::gettable(core::PKEY_PARAM_ENCODED_PUBLIC_KEY, PARAM_OCTET_STRING), OsslParam::END];

static GENERATION_SETTABLE: [OsslParam; 3] = [
    params::gettable(core::PKEY_PARAM_GROUP_NAME, PARAM_UTF8_STRING),
    params::gettable(core::PKEY_PARAM_ML_KEM_SEED, PARAM_OCTET_STRING),
    OsslParam::END,
];

static TYPES: [OsslParam; 4] = [
    params::gettable(core::PKEY_PARAM_PUB_KEY, PARAM_OCTET_STRING),
    params::gettable(core::PKEY_PARAM_PRIV_KEY, PARAM_OCTET_STRING),
    params::gettable(core::PKEY_PARAM_ML_KEM_SEED, PARAM_OCTET_STRING),
    OsslParam::END,
];
