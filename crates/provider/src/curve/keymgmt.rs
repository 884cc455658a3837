//! Key management of X25519, Ed25519 and EC keys.
#![allow(unsafe_code, reason = "reads parameters, which are C arrays")]

use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;

use widelane_ossl_sys::core::{self, OsslParam};
use widelane_ossl_sys::dispatch::KeymgmtFunctions;

use crate::curve::generation::Generation;
use crate::curve::key::Key;
use crate::curve::params::Plain;
use crate::curve::{Algorithm, Curve};
use crate::delegate::Delegate;
use crate::keymgmt::{KeyFamily, ManagedKey};
use crate::params::{self, Array, Value};

/// Keys of [`Algorithm::Ec`].
pub(crate) enum Ec {}

/// Keys of [`Algorithm::Ed25519`].
pub(crate) enum Ed25519 {}

/// Keys of [`Algorithm::X25519`].
pub(crate) enum X25519 {}

impl KeyFamily for Ec {
    type Key = Key;
    const KIND: Algorithm = Algorithm::Ec;
}

impl KeyFamily for Ed25519 {
    type Key = Key;
    const KIND: Algorithm = Algorithm::Ed25519;
}

impl KeyFamily for X25519 {
    type Key = Key;
    const KIND: Algorithm = Algorithm::X25519;
}

impl ManagedKey for Key {
    type Kind = Algorithm;
    type Generation = Generation;

    fn functions_of(kind: Algorithm, delegate: &Delegate) -> &KeymgmtFunctions {
        kind.keymgmt(delegate)
    }

    fn make(delegate: &Arc<Delegate>, kind: Algorithm) -> Option<Arc<Self>> {
        Some(Arc::new(Key::new(delegate, kind)))
    }

    fn adopt(delegate: &Arc<Delegate>, kind: Algorithm, inner: *mut c_void) -> Option<Arc<Self>> {
        Key::adopt(delegate, kind, inner)
    }

    unsafe fn generate(
        delegate: &Arc<Delegate>,
        kind: Algorithm,
        selection: c_int,
        params: *const OsslParam,
    ) -> Option<Generation> {
        // SAFETY: passed on to the caller.
        unsafe { Generation::begin(delegate, kind, selection, params) }
    }

    fn delegate(&self) -> &Arc<Delegate> {
        self.delegate()
    }

    fn kind(&self) -> Algorithm {
        self.algorithm()
    }

    fn inner(&self) -> Option<*mut c_void> {
        self.inner()
    }

    fn is_in_use(&self) -> bool {
        self.is_in_use()
    }

    fn has(&self, selection: c_int) -> Option<bool> {
        Some(self.has(selection))
    }

    unsafe fn get_params(&self, params: *mut OsslParam) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { params::answer_all(params, |name| known(self, name)) }
    }

    unsafe fn set_params(&self, params: *const OsslParam) -> bool {
        // SAFETY: passed on to the caller.
        let given = unsafe { Array::new(params) };
        let encoded =
            |param: &&OsslParam| params::key(param) == core::PKEY_PARAM_ENCODED_PUBLIC_KEY;
        let mut first_two = given.iter();
        if let (Some(first), None) = (first_two.next().filter(encoded), first_two.next())
            && params::octets(first).is_some_and(|public| self.set_public(public))
        {
            return true;
        }
        // The default provider's key is made as this one is now.
        if self.functions().set_params.is_some() && self.inner().is_some() {
            self.hand_over(given.iter().any(|param| encoded(&param)));
        }
        false
    }

    fn is_valid(&self, selection: c_int) -> bool {
        // A public key that we hold is on its curve, of which the cofactor is 1: it has the right
        // order as well. X25519 takes any.
        self.is_ours() && selection == core::SELECT_PUBLIC_KEY && self.known_public().is_some()
    }

    fn matches(&self, other: &Self, selection: c_int) -> Option<bool> {
        let with_halves = selection & core::SELECT_KEYPAIR != 0;
        let with_public = selection & core::SELECT_PUBLIC_KEY != 0;
        if !self.is_ours() || !other.is_ours() || with_halves && !with_public {
            return None;
        }
        let same_curve = self.known_curve()? == other.known_curve()?;
        Some(same_curve && (!with_halves || self.known_public()? == other.known_public()?))
    }

    unsafe fn import(&self, selection: c_int, params: *const OsslParam) -> bool {
        // SAFETY: passed on to the caller.
        let given = unsafe { Array::new(params) };
        self.algorithm() == Algorithm::Ec
            && Plain::read(selection, given).is_some_and(|plain| self.keep(plain))
    }

    fn duplicate(&self, selection: c_int) -> Option<Self> {
        self.duplicate(selection)
    }
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
