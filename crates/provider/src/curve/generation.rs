//! A key on an elliptic curve that is being generated.
#![allow(unsafe_code, reason = "calls the default provider's functions")]

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use widelane_bridge::counters::OperationKind;
use widelane_ossl_sys::core::{self, OsslCallback, OsslParam};
use widelane_ossl_sys::dispatch::KeymgmtFunctions;

use crate::batching::execute::now;
use crate::batching::queues::Method;
use crate::counters::{How, count_job};
use crate::curve::key::Key;
use crate::curve::{Algorithm, Curve};
use crate::delegate::{Delegate, Owned};
use crate::keymgmt::{self, Generation as _, ManagedKey};
use crate::{params, pool, process};

/// A key pair on a curve that is used once.
pub(crate) fn ephemeral(delegate: &Arc<Delegate>, curve: Curve) -> Option<Arc<Key>> {
    let mut generation = Generation {
        delegate: Arc::clone(delegate),
        algorithm: curve.algorithm(),
        selection: core::SELECT_ALL,
        curve: Some(curve),
        inner: None,
    };
    // SAFETY: without a callback none is called.
    unsafe { generation.generate(None, ptr::null_mut()) }
}

/// A key that is being generated.
pub(crate) struct Generation {
    delegate: Arc<Delegate>,
    algorithm: Algorithm,
    selection: c_int,
    /// The curve, where we know it.
    curve: Option<Curve>,
    /// The default provider's generation, from when something is asked that is not ours to answer.
    inner: Option<Owned>,
}

impl Generation {
    /// Begins to generate the selected parts of a key.
    ///
    /// # Safety
    /// `params` must be null or an array that ends with a null name.
    pub(super) unsafe fn begin(
        delegate: &Arc<Delegate>,
        algorithm: Algorithm,
        selection: c_int,
        params: *const OsslParam,
    ) -> Option<Self> {
        let mut generation = Generation {
            delegate: Arc::clone(delegate),
            algorithm,
            selection,
            curve: (algorithm == Algorithm::X25519).then_some(Curve::X25519),
            inner: None,
        };
        // SAFETY: passed on to the caller.
        (unsafe { generation.set_params(params) }? > 0).then_some(generation)
    }

    fn functions(&self) -> &KeymgmtFunctions {
        self.algorithm.keymgmt(&self.delegate)
    }
}

impl keymgmt::Generation for Generation {
    type Key = Key;

    fn inner(&mut self) -> Option<*mut c_void> {
        if let Some(inner) = &self.inner {
            return Some(inner.as_ptr());
        }
        let functions = self.functions();
        let (gen_init, gen_set_params) = (functions.gen_init?, functions.gen_set_params?);
        // SAFETY: the default provider's own context.
        let inner = unsafe { gen_init(self.delegate.provctx, self.selection, ptr::null()) };
        let inner = Owned::adopt(inner, functions.gen_cleanup)?;
        if let Some(name) = self.curve.and_then(Curve::group_name) {
            let params = [params::text_in(core::PKEY_PARAM_GROUP_NAME, name), OsslParam::END];
            // SAFETY: made above; `params` has an end.
            if unsafe { gen_set_params(inner.as_ptr(), params.as_ptr()) } <= 0 {
                return None;
            }
        }
        Some(self.inner.insert(inner).as_ptr())
    }

    /// The curve by itself, all others for the default provider.
    unsafe fn set_params(&mut self, params: *const OsslParam) -> Option<c_int> {
        // SAFETY: passed on to the caller.
        let mut given = unsafe { params::iter(params) };
        let ours = match (given.next(), given.next()) {
            (None, _) => return Some(1),
            (Some(only), None) if params::key(only) == core::PKEY_PARAM_GROUP_NAME => {
                params::text_of(only)
                    .and_then(|name| Curve::by_name(self.algorithm, name.as_c_str()))
                    .filter(|curve| curve.has_kernels())
            }
            _ => None,
        };
        if self.inner.is_none() && ours.is_some() {
            self.curve = ours;
            return Some(1);
        }
        let inner = self.inner()?;
        // SAFETY: a generation of the default provider, and the core's parameters.
        Some(unsafe { self.functions().gen_set_params?(inner, params) })
    }

    fn set_template(&mut self, template: &Key) -> Option<c_int> {
        if self.inner.is_none()
            && template.is_ours()
            && let Some(curve) = template.known_curve()
        {
            self.curve = Some(curve);
            return Some(1);
        }
        let inner = self.inner()?;
        // SAFETY: both are the default provider's.
        Some(unsafe { self.functions().gen_set_template?(inner, template.inner()?) })
    }

    unsafe fn generate(
        &mut self,
        callback: Option<OsslCallback>,
        argument: *mut c_void,
    ) -> Option<Arc<Key>> {
        let curve = self.curve.filter(|curve| self.inner.is_none() && curve.has_kernels());
        if let Some(curve) = curve {
            if self.selection & core::SELECT_KEYPAIR == 0 {
                return Some(Arc::new(Key::parameters(&self.delegate, curve)));
            }
            let pair = pool::take(&self.delegate, curve);
            if let Some(key) = pair.and_then(|pair| Key::generated(&self.delegate, curve, &pair)) {
                return Some(Arc::new(key));
            }
        }
        let begin = now();
        let inner = self.inner()?;
        // SAFETY: a generation of the default provider, and the core's callback.
        let key = unsafe { self.functions().generate?(inner, callback, argument) };
        let (key, kind, how) = match curve {
            Some(curve) => {
                let key = Key::adopt_generated(&self.delegate, curve, key)?;
                (key, curve.generate_kind(), How::Synchronous)
            }
            None => {
                let key = Key::adopt(&self.delegate, self.algorithm, key)?;
                (key, OperationKind::Other, How::Delegated)
            }
        };
        if self.selection & core::SELECT_KEYPAIR != 0 {
            let process = process::current();
            process.queues(kind).costs.record(Method::DefaultProvider, now().since(begin));
            count_job(process.counters(), kind, how);
        }
        Some(key)
    }
}
