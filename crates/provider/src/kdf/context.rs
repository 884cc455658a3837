//! A key derivation under way, and what libcrypto calls, the same for all of them.
#![allow(unsafe_code, reason = "calls the default provider's functions")]

use std::ffi::{c_int, c_uchar, c_void};
use std::sync::Arc;

use widelane_ossl_sys::core::OsslParam;
use widelane_ossl_sys::dispatch::KdfFunctions;

use crate::delegate::{Delegate, OnDemand, Owned};
use crate::entry::{borrow, borrow_mut, end_given, entry, forward, give};
use crate::instance::Instance;
use crate::kdf::fields::{Field, Fields};
use crate::{params, switch};

/// A key derivation.
pub(super) struct Derivation {
    /// The default provider's functions.
    pub(super) table: fn(&Delegate) -> &KdfFunctions,
    /// What we know of what can be set.
    pub(super) known: &'static [Field],
    /// Whether the default provider, too, takes it when just this is set.
    pub(super) is_accepted: fn(&Fields) -> bool,
    /// Derives a key; nothing if the default provider is to do it, or to say why not.
    pub(super) derive: fn(&Fields, &mut [u8]) -> Option<()>,
}

/// A key derivation under way.
///
/// As long as it is ours there is no context of the default provider.
pub(super) struct Context {
    kind: &'static Derivation,
    delegate: Arc<Delegate>,
    /// What is set, while it is ours.
    fields: Option<Fields>,
    inner: OnDemand,
}

impl Context {
    /// Begins one for the core.
    ///
    /// # Safety
    /// `provctx` must be our instance.
    pub(super) unsafe fn begin(
        provctx: *mut c_void,
        kind: &'static Derivation,
    ) -> Option<*mut c_void> {
        // SAFETY: passed on to the caller.
        let delegate = Arc::clone(unsafe { borrow::<Instance>(provctx) }?.delegate());
        Some(give(Context { kind, delegate, fields: new_fields(), inner: OnDemand::new() }))
    }

    pub(super) fn functions(&self) -> &KdfFunctions {
        (self.kind.table)(&self.delegate)
    }

    /// The default provider's context, made now if there is none, with all that is set.
    pub(super) fn inner(&self) -> Option<*mut c_void> {
        self.inner.get_or_make(|| self.make_inner())
    }

    fn make_inner(&self) -> Option<Owned> {
        let functions = self.functions();
        let inner = Owned::made(functions.newctx, &self.delegate, functions.freectx)?;
        let Some(fields) = self.fields.as_ref().filter(|fields| !fields.is_empty()) else {
            return Some(inner);
        };
        let set = functions.set_ctx_params?;
        // SAFETY: a context of the default provider; the parameters have an end.
        let done = fields.replay(|given| unsafe { set(inner.as_ptr(), given.as_ptr()) });
        (done > 0).then_some(inner)
    }

    /// Leaves everything to the default provider.
    fn hand_over(&mut self) -> Option<*mut c_void> {
        let inner = self.inner();
        self.fields = None;
        inner
    }

    /// Sets parameters; 0 where the default provider refuses them.
    ///
    /// # Safety
    /// `params` must be the core's.
    unsafe fn set(&mut self, params: *const OsslParam) -> Option<c_int> {
        if let Some(fields) = &mut self.fields {
            if params.is_null() {
                return Some(1);
            }
            // SAFETY: passed on to the caller.
            let params = unsafe { params::iter(params) };
            if fields.set(params, self.kind.known, self.kind.is_accepted) {
                // A context that was only asked something does not know what is new.
                self.inner = OnDemand::new();
                return Some(1);
            }
        }
        // SAFETY: passed on to the caller.
        unsafe { self.delegate.expect_all(params) };
        let (inner, set) = (self.hand_over()?, self.functions().set_ctx_params?);
        // SAFETY: a context of the default provider, and the core's parameters.
        Some(unsafe { set(inner, params) })
    }
}

/// What a derivation begins with that is ours; nothing if it is the default provider's.
fn new_fields() -> Option<Fields> {
    (!switch::is_off()).then(Fields::new)
}

/// The functions that all key derivations share.
pub(super) const FUNCTIONS: KdfFunctions = KdfFunctions {
    newctx: None,
    dupctx: Some(dupctx),
    freectx: Some(end_given::<Context>),
    reset: Some(reset),
    derive: Some(derive),
    gettable_ctx_params: None,
    settable_ctx_params: None,
    get_ctx_params: Some(get_ctx_params),
    set_ctx_params: Some(set_ctx_params),
};

entry! {
    fn dupctx(context: *mut c_void) -> *mut c_void {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow::<Context>(context) }?;
        // SAFETY: a context of the default provider, and its function for such.
        let inner = unsafe { context.inner.duplicate(context.functions().dupctx) }?;
        let (kind, delegate) = (context.kind, Arc::clone(&context.delegate));
        let fields = context.fields.as_ref().map(|_| Fields::new());
        let copy = give(Context { kind, delegate, fields, inner });
        // SAFETY: made above.
        let fields = unsafe { borrow_mut::<Context>(copy) }?.fields.as_mut();
        if let (Some(fields), Some(from)) = (fields, &context.fields) {
            fields.copy(from);
        }
        Some(copy)
    }

    fn reset(context: *mut c_void) {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        (context.fields, context.inner) = (new_fields(), OnDemand::new());
        Some(())
    }

    fn derive(
        context: *mut c_void,
        key: *mut c_uchar,
        bytes: usize,
        params: *const OsslParam,
    ) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        // SAFETY: the core's parameters.
        if unsafe { context.set(params) }? <= 0 {
            return None;
        }
        if let Some(fields) = context.fields.as_ref().filter(|_| !key.is_null() && bytes > 0) {
            // SAFETY: the core passes room for so many bytes.
            let output = unsafe { std::slice::from_raw_parts_mut(key, bytes) };
            if (context.kind.derive)(fields, output).is_some() {
                return Some(1);
            }
        }
        let (inner, derive) = (context.inner()?, context.functions().derive?);
        // SAFETY: a context of the default provider that knows all parameters, and the core's room.
        Some(unsafe { derive(inner, key, bytes, std::ptr::null()) })
    }

    fn set_ctx_params(context: *mut c_void, params: *const OsslParam) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        // SAFETY: the core's parameters.
        unsafe { context.set(params) }
    }
}

forward! {
    fn get_ctx_params(context: *mut c_void => Context, params: *mut OsslParam) -> c_int;
}
