//! Shared secrets: X25519, and ECDH on the curves that we know; key derivation on top of it and
//! other curves are the default provider's.
#![allow(unsafe_code, reason = "calls the default provider's functions")]

use std::ffi::{c_int, c_uchar, c_void};
use std::ptr;
use std::sync::Arc;

use widelane_bridge::counters::OperationKind;
use widelane_ossl_sys::core::{OsslDispatch, OsslParam};
use widelane_ossl_sys::dispatch::KeyexchFunctions;

use crate::batching::{self, Made};
use crate::counters::count_delegated;
use crate::curve::batch::Derive;
use crate::curve::key::Key;
use crate::curve::keymgmt::{Ec, X25519};
use crate::curve::{Algorithm, Curve};
use crate::delegate::{Delegate, OnDemand, Owned};
use crate::entry::{borrow, borrow_mut, describe, end_given, entry, forward, give, output, share};
use crate::instance::Instance;
use crate::keymgmt::{KeyFamily, ManagedKey};
use crate::params;

/// Our functions for X25519.
pub(crate) fn x25519_functions(delegate: &Delegate) -> Box<[OsslDispatch]> {
    all::<X25519>().write_like(Algorithm::X25519.exchange(delegate))
}

/// Our functions for ECDH.
pub(crate) fn ecdh_functions(delegate: &Delegate) -> Box<[OsslDispatch]> {
    all::<Ec>().write_like(Algorithm::Ec.exchange(delegate))
}

const fn all<F: KeyFamily<Key = Key>>() -> KeyexchFunctions {
    KeyexchFunctions {
        newctx: Some(newctx::<F>),
        init: Some(init),
        derive: Some(derive),
        set_peer: Some(set_peer),
        freectx: Some(end_given::<Context>),
        dupctx: Some(dupctx),
        set_ctx_params: Some(set_ctx_params),
        settable_ctx_params: Some(settable_ctx_params::<F>),
        get_ctx_params: Some(get_ctx_params),
        gettable_ctx_params: Some(gettable_ctx_params::<F>),
    }
}

/// A shared secret to be made.
///
/// As long as it is ours there is no context of the default provider; it is made when something is
/// asked or set that we do not answer, and does the rest from the latter on.
struct Context {
    delegate: Arc<Delegate>,
    algorithm: Algorithm,
    ours: bool,
    key: Option<Arc<Key>>,
    peer: Option<Arc<Key>>,
    inner: OnDemand,
}

impl Context {
    fn functions(&self) -> &KeyexchFunctions {
        self.algorithm.exchange(&self.delegate)
    }

    /// The default provider's context, made now if there is none, with our keys.
    fn inner(&self) -> Option<*mut c_void> {
        let (key, peer) = (self.key.as_deref(), self.peer.as_deref());
        self.inner.get_or_make(|| begin(&self.delegate, self.algorithm, key, peer))
    }

    /// The keys and their curve, if the secret is ours to make.
    fn operands(&self) -> Option<(Curve, &Arc<Key>, &Arc<Key>)> {
        let key = self.key.as_ref().filter(|_| self.ours)?;
        Some((key.curve()?, key, self.peer.as_ref()?))
    }

    /// Makes the secret; nothing if the default provider is to make it or to say why not.
    fn derive(&self) -> Option<Made> {
        let (_, key, peer) = self.operands()?;
        let (key, peer) = (Arc::clone(key), Arc::clone(peer));
        Some(batching::run(Derive { key, peer }))
    }
}

/// A context of the default provider's for a shared secret of the keys that there are.
pub(super) fn begin(
    delegate: &Delegate,
    algorithm: Algorithm,
    key: Option<&Key>,
    peer: Option<&Key>,
) -> Option<Owned> {
    let functions = algorithm.exchange(delegate);
    let inner = Owned::made(functions.newctx, delegate, functions.freectx)?;
    if let Some(key) = key {
        // SAFETY: context and key are the default provider's.
        let begun = unsafe { functions.init?(inner.as_ptr(), key.inner()?, ptr::null()) };
        (begun > 0).then_some(())?;
    }
    if let Some(peer) = peer {
        // SAFETY: as above.
        let is_set = unsafe { functions.set_peer?(inner.as_ptr(), peer.inner()?) > 0 };
        is_set.then_some(())?;
    }
    Some(inner)
}

entry! {
    fn newctx<F: KeyFamily<Key = Key>>(provctx: *mut c_void) -> *mut c_void {
        // SAFETY: the core passes our instance.
        let delegate = Arc::clone(unsafe { borrow::<Instance>(provctx) }?.delegate());
        let (ours, key, peer, inner) = (true, None, None, OnDemand::new());
        Some(give(Context { delegate, algorithm: F::KIND, ours, key, peer, inner }))
    }

    fn dupctx(context: *mut c_void) -> *mut c_void {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow::<Context>(context) }?;
        // SAFETY: a context of the default provider, and its function for such.
        let inner = unsafe { context.inner.duplicate(context.functions().dupctx) }?;
        Some(give(Context {
            delegate: Arc::clone(&context.delegate),
            algorithm: context.algorithm,
            ours: context.ours,
            key: context.key.clone(),
            peer: context.peer.clone(),
            inner,
        }))
    }

    fn init(context: *mut c_void, key: *mut c_void, params: *const OsslParam) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        // SAFETY: the core passes a key of ours, or none.
        let key = unsafe { share::<Key>(key) };
        (context.key, context.peer, context.inner) = (None, None, OnDemand::new());
        // SAFETY: the core's parameters.
        let plain = unsafe { params::is_empty(params) };
        context.ours = plain && key.as_ref().is_some_and(|key| key.private_curve().is_some());
        if context.ours {
            context.key = key;
            return Some(1);
        }
        // SAFETY: as above.
        unsafe { context.delegate.expect_all(params) };
        let (inner, init) = (context.inner()?, context.functions().init?);
        let inner_key = match &key {
            Some(key) => key.inner()?,
            None => ptr::null_mut(),
        };
        context.key = key;
        // SAFETY: context and key are the default provider's, the parameters the core's.
        Some(unsafe { init(inner, inner_key, params) })
    }

    fn set_peer(context: *mut c_void, peer: *mut c_void) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        // SAFETY: the core passes a key of ours.
        let peer = unsafe { share::<Key>(peer) }?;
        let curve = context.key.as_ref().filter(|_| context.ours).and_then(|key| key.curve());
        if curve.is_some_and(|curve| peer.is_peer_on(curve)) {
            // A context that was only asked something does not know the new peer.
            context.inner = OnDemand::new();
            context.peer = Some(peer);
            return Some(1);
        }
        context.ours = false;
        let (inner, set_peer) = (context.inner()?, context.functions().set_peer?);
        // SAFETY: context and key are the default provider's.
        Some(unsafe { set_peer(inner, peer.inner()?) })
    }

    fn derive(
        context: *mut c_void,
        secret: *mut c_uchar,
        length: *mut usize,
        size: usize,
    ) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow::<Context>(context) }?;
        let operands = context.operands();
        if let Some((curve, ..)) = operands {
            let bytes = curve.private_bytes();
            if secret.is_null() {
                // SAFETY: the core waits for the length here.
                unsafe { length.write(bytes) };
                return Some(1);
            }
            if size >= bytes {
                match context.derive() {
                    Some(Made::Done(made)) => {
                        // SAFETY: there is room for it, and the core waits for the length.
                        unsafe { output(&made.0, secret, length) };
                        return Some(1);
                    }
                    Some(Made::Nothing) => return None,
                    Some(Made::Theirs) | None => {}
                }
            }
        }
        if !secret.is_null() {
            let kind = operands.map_or(OperationKind::Other, |(curve, ..)| curve.derive_kind());
            count_delegated(kind);
        }
        let (inner, derive) = (context.inner()?, context.functions().derive?);
        // SAFETY: a context of the default provider, and the core's buffers.
        Some(unsafe { derive(inner, secret, length, size) })
    }

    fn set_ctx_params(context: *mut c_void, params: *const OsslParam) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        // SAFETY: the core's parameters.
        if unsafe { params::is_empty(params) } {
            return Some(1);
        }
        context.ours = false;
        // SAFETY: as above.
        unsafe { context.delegate.expect_all(params) };
        let (inner, set_ctx_params) = (context.inner()?, context.functions().set_ctx_params?);
        // SAFETY: a context of the default provider, and the core's parameters.
        Some(unsafe { set_ctx_params(inner, params) })
    }
}

describe! {
    gettable_ctx_params<F: KeyFamily<Key = Key>>(Context, |delegate| F::KIND.exchange(delegate));
    settable_ctx_params<F: KeyFamily<Key = Key>>(Context, |delegate| F::KIND.exchange(delegate));
}

forward! {
    fn get_ctx_params(context: *mut c_void => Context, params: *mut OsslParam) -> c_int;
}
