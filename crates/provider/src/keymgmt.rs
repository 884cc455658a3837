//! Key management as libcrypto asks for it, the same for all keys beside which the default provider
//! has its own. A family of keys is a type that implements [`KeyFamily`].
#![allow(unsafe_code, reason = "calls the default provider's functions")]

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use widelane_ossl_sys::core::{OsslCallback, OsslDispatch, OsslParam};
use widelane_ossl_sys::dispatch::KeymgmtFunctions;

use crate::delegate::Delegate;
use crate::entry::{borrow, borrow_mut, end_given, end_lent, entry, forward, give, lend, share};
use crate::instance::Instance;

/// A family of keys, as a type: the core calls functions of each without saying which it means.
pub(crate) trait KeyFamily {
    /// A key.
    type Key: ManagedKey;
    /// Which of the kinds that such a key may have.
    const KIND: <Self::Key as ManagedKey>::Kind;
}

/// A key of ours. What it does not answer itself, the default provider answers with its own key.
pub(crate) trait ManagedKey: Sized {
    /// What distinguishes families of such keys.
    type Kind: Copy;
    /// A key that is being generated.
    type Generation: Generation<Key = Self>;

    /// The default provider's functions for a kind of keys.
    fn functions_of(kind: Self::Kind, delegate: &Delegate) -> &KeymgmtFunctions;

    /// A key without parts.
    fn make(delegate: &Arc<Delegate>, kind: Self::Kind) -> Option<Arc<Self>>;

    /// A key around one of the default provider's, which it owns from now on; nothing if there is
    /// none.
    fn adopt(delegate: &Arc<Delegate>, kind: Self::Kind, inner: *mut c_void) -> Option<Arc<Self>>;

    /// Begins to generate the selected parts of a key.
    ///
    /// # Safety
    /// `params` must be null or an array that ends with a null name.
    unsafe fn generate(
        delegate: &Arc<Delegate>,
        kind: Self::Kind,
        selection: c_int,
        params: *const OsslParam,
    ) -> Option<Self::Generation>;

    /// The default provider that owns the inner key.
    fn delegate(&self) -> &Arc<Delegate>;

    /// Its kind.
    fn kind(&self) -> Self::Kind;

    /// The default provider's functions for it.
    fn functions(&self) -> &KeymgmtFunctions {
        Self::functions_of(self.kind(), self.delegate())
    }

    /// The default provider's key.
    fn inner(&self) -> Option<*mut c_void>;

    /// Whether it may no longer change, since it is in lanes.
    fn is_in_use(&self) -> bool;

    /// Whether it has the selected parts.
    fn has(&self, _selection: c_int) -> Option<bool> {
        None
    }

    /// Whether all parameters are written.
    ///
    /// # Safety
    /// `params` must be the core's.
    unsafe fn get_params(&self, _params: *mut OsslParam) -> bool {
        false
    }

    /// Whether all parameters are set; otherwise the default provider sets them from now on.
    ///
    /// # Safety
    /// `params` must be the core's.
    unsafe fn set_params(&self, _params: *const OsslParam) -> bool {
        false
    }

    /// Whether the selected parts are known to be valid.
    fn is_valid(&self, _selection: c_int) -> bool {
        false
    }

    /// Whether the selected parts are those of another key.
    fn matches(&self, _other: &Self, _selection: c_int) -> Option<bool> {
        None
    }

    /// Whether the selected parts are taken.
    ///
    /// # Safety
    /// `params` must be the core's.
    unsafe fn import(&self, _selection: c_int, _params: *const OsslParam) -> bool {
        false
    }

    /// Called when the default provider has imported the selected parts.
    fn imported(self: Arc<Self>, _selection: c_int) {}

    /// A copy.
    fn duplicate(&self, _selection: c_int) -> Option<Self> {
        None
    }
}

/// A key that is being generated.
pub(crate) trait Generation: Sized {
    /// What the key will be.
    type Key: ManagedKey;

    /// The default provider's generation, which from now on is what counts.
    fn inner(&mut self) -> Option<*mut c_void>;

    /// Takes parameters.
    ///
    /// # Safety
    /// `params` must be null or an array that ends with a null name.
    unsafe fn set_params(&mut self, params: *const OsslParam) -> Option<c_int>;

    /// Takes the parameters of another key.
    fn set_template(&mut self, template: &Self::Key) -> Option<c_int>;

    /// Makes the key.
    ///
    /// # Safety
    /// `callback` must be the core's, and `argument` what it takes.
    unsafe fn generate(
        &mut self,
        callback: Option<OsslCallback>,
        argument: *mut c_void,
    ) -> Option<Arc<Self::Key>>;
}

/// Our functions for keys of a family: those that the default provider has as well.
pub(crate) fn functions<F: KeyFamily>(delegate: &Delegate) -> Box<[OsslDispatch]> {
    let theirs = F::Key::functions_of(F::KIND, delegate);
    KeymgmtFunctions {
        new: Some(new::<F>),
        gen_init: Some(gen_init::<F>),
        gen_set_template: Some(gen_set_template::<F::Key>),
        gen_set_params: Some(gen_set_params::<F::Key>),
        gen_settable_params: Some(gen_settable_params::<F>),
        generate: Some(generate::<F::Key>),
        gen_cleanup: Some(end_given::<<F::Key as ManagedKey>::Generation>),
        free: Some(end_lent::<F::Key>),
        get_params: Some(get_params::<F::Key>),
        gettable_params: Some(gettable_params::<F>),
        set_params: Some(set_params::<F::Key>),
        settable_params: Some(settable_params::<F>),
        has: Some(has::<F::Key>),
        validate: Some(validate::<F::Key>),
        matches: Some(matches::<F::Key>),
        import: Some(import::<F::Key>),
        export: Some(export::<F::Key>),
        dup: Some(dup::<F::Key>),
        // These take neither a key nor a context: the default provider's own serve.
        query_operation_name: theirs.query_operation_name,
        import_types: theirs.import_types,
        export_types: theirs.export_types,
    }
    .write_like(theirs)
}

entry! {
    fn new<F: KeyFamily>(provctx: *mut c_void) -> *mut c_void {
        // SAFETY: the core passes our instance.
        F::Key::make(unsafe { borrow::<Instance>(provctx) }?.delegate(), F::KIND).map(lend)
    }

    fn has<K: ManagedKey>(key: *const c_void, selection: c_int) -> c_int {
        // SAFETY: the core passes a key of ours.
        let key = unsafe { borrow::<K>(key) }?;
        if let Some(has) = key.has(selection) {
            return Some(c_int::from(has));
        }
        let (has, inner) = (key.functions().has?, key.inner()?);
        // SAFETY: a key of the default provider.
        Some(unsafe { has(inner, selection) })
    }

    fn get_params<K: ManagedKey>(key: *mut c_void, params: *mut OsslParam) -> c_int {
        // SAFETY: the core passes a key of ours.
        let key = unsafe { borrow::<K>(key) }?;
        // SAFETY: the core's array.
        if unsafe { key.get_params(params) } {
            return Some(1);
        }
        let (get_params, inner) = (key.functions().get_params?, key.inner()?);
        // SAFETY: a key of the default provider, and the core's parameters.
        Some(unsafe { get_params(inner, params) })
    }

    fn set_params<K: ManagedKey>(key: *mut c_void, params: *const OsslParam) -> c_int {
        // SAFETY: the core passes a key of ours.
        let key = unsafe { borrow::<K>(key) }?;
        // SAFETY: the core's array.
        if unsafe { key.set_params(params) } {
            return Some(1);
        }
        let (set_params, inner) = (key.functions().set_params?, key.inner()?);
        // SAFETY: a key of the default provider, and the core's parameters.
        Some(unsafe { set_params(inner, params) })
    }

    fn validate<K: ManagedKey>(key: *const c_void, selection: c_int, check: c_int) -> c_int {
        // SAFETY: the core passes a key of ours.
        let key = unsafe { borrow::<K>(key) }?;
        if key.is_valid(selection) {
            return Some(1);
        }
        let (validate, inner) = (key.functions().validate?, key.inner()?);
        // SAFETY: a key of the default provider.
        Some(unsafe { validate(inner, selection, check) })
    }

    fn matches<K: ManagedKey>(
        first: *const c_void,
        second: *const c_void,
        selection: c_int,
    ) -> c_int {
        // SAFETY: the core passes a key of ours.
        let first = unsafe { borrow::<K>(first) }?;
        // SAFETY: as above.
        let second = unsafe { borrow::<K>(second) }?;
        if let Some(matches) = first.matches(second, selection) {
            return Some(c_int::from(matches));
        }
        let (matches, inner) = (first.functions().matches?, first.inner()?);
        // SAFETY: both are keys of the default provider.
        Some(unsafe { matches(inner, second.inner()?, selection) })
    }

    pub(crate) fn import<K: ManagedKey>(
        key: *mut c_void,
        selection: c_int,
        params: *const OsslParam,
    ) -> c_int {
        // SAFETY: the core passes a key of ours.
        let key = unsafe { share::<K>(key) }?;
        // What is in lanes must not change; the core imports into new keys only.
        if key.is_in_use() {
            return None;
        }
        // SAFETY: the core's parameters.
        if unsafe { key.import(selection, params) } {
            return Some(1);
        }
        let (import, inner) = (key.functions().import?, key.inner()?);
        // SAFETY: a key of the default provider, and the core's parameters.
        let imported = unsafe { import(inner, selection, params) };
        if imported > 0 {
            key.imported(selection);
        }
        Some(imported)
    }

    fn dup<K: ManagedKey>(key: *const c_void, selection: c_int) -> *mut c_void {
        // SAFETY: the core passes a key of ours.
        let key = unsafe { borrow::<K>(key) }?;
        if let Some(copy) = key.duplicate(selection) {
            return Some(lend(Arc::new(copy)));
        }
        let (dup, inner) = (key.functions().dup?, key.inner()?);
        // SAFETY: a key of the default provider.
        let copy = unsafe { dup(inner, selection) };
        K::adopt(key.delegate(), key.kind(), copy).map(lend)
    }

    fn gettable_params<F: KeyFamily>(provctx: *mut c_void) -> *const OsslParam {
        // SAFETY: the core passes our instance.
        let delegate = unsafe { borrow::<Instance>(provctx) }?.delegate();
        let gettable_params = F::Key::functions_of(F::KIND, delegate).gettable_params?;
        // SAFETY: the default provider's own context.
        Some(unsafe { gettable_params(delegate.provctx) })
    }

    fn settable_params<F: KeyFamily>(provctx: *mut c_void) -> *const OsslParam {
        // SAFETY: the core passes our instance.
        let delegate = unsafe { borrow::<Instance>(provctx) }?.delegate();
        let settable_params = F::Key::functions_of(F::KIND, delegate).settable_params?;
        // SAFETY: the default provider's own context.
        Some(unsafe { settable_params(delegate.provctx) })
    }

    fn gen_init<F: KeyFamily>(
        provctx: *mut c_void,
        selection: c_int,
        params: *const OsslParam,
    ) -> *mut c_void {
        // SAFETY: the core passes our instance.
        let delegate = unsafe { borrow::<Instance>(provctx) }?.delegate();
        // SAFETY: the core's parameters.
        unsafe { F::Key::generate(delegate, F::KIND, selection, params) }.map(give)
    }

    fn gen_set_template<K: ManagedKey>(generation: *mut c_void, template: *mut c_void) -> c_int {
        // SAFETY: the core passes a generation of ours.
        let generation = unsafe { borrow_mut::<K::Generation>(generation) }?;
        // SAFETY: the core passes a key of ours.
        generation.set_template(unsafe { borrow::<K>(template) }?)
    }

    fn gen_set_params<K: ManagedKey>(generation: *mut c_void, params: *const OsslParam) -> c_int {
        // SAFETY: the core passes a generation of ours.
        let generation = unsafe { borrow_mut::<K::Generation>(generation) }?;
        // SAFETY: the core's parameters.
        unsafe { generation.set_params(params) }
    }

    fn gen_settable_params<F: KeyFamily>(
        generation: *mut c_void,
        provctx: *mut c_void,
    ) -> *const OsslParam {
        // SAFETY: the core passes our instance.
        let delegate = unsafe { borrow::<Instance>(provctx) }?.delegate();
        // SAFETY: the core passes a generation of ours, or none.
        let inner = match unsafe { borrow_mut::<<F::Key as ManagedKey>::Generation>(generation) } {
            Some(generation) => generation.inner()?,
            None => ptr::null_mut(),
        };
        let gen_settable_params = F::Key::functions_of(F::KIND, delegate).gen_settable_params?;
        // SAFETY: null or the default provider's, and the default provider's own context.
        Some(unsafe { gen_settable_params(inner, delegate.provctx) })
    }

    fn generate<K: ManagedKey>(
        generation: *mut c_void,
        callback: Option<OsslCallback>,
        argument: *mut c_void,
    ) -> *mut c_void {
        // SAFETY: the core passes a generation of ours.
        let generation = unsafe { borrow_mut::<K::Generation>(generation) }?;
        // SAFETY: the core's callback and its argument.
        unsafe { generation.generate(callback, argument) }.map(lend)
    }
}

forward! {
    fn export<K: ManagedKey>(
        key: *mut c_void => K,
        selection: c_int,
        callback: Option<OsslCallback>,
        argument: *mut c_void
    ) -> c_int;
}
