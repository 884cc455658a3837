//! Encoders of EC keys: the default provider's, given its key inside ours.
//!
//! Without them libcrypto hands our keys over to the default provider's encoders as parameters,
//! which those refuse for SM2: among the default provider's keys, which are written as they are,
//! that curve has a kind of its own.
#![allow(unsafe_code, reason = "calls the default provider's functions")]

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use widelane_ossl_sys::core::{OsslCoreBio, OsslDispatch, OsslParam, OsslPassphraseCallback};
use widelane_ossl_sys::dispatch::EncoderFunctions;

use crate::curve::Algorithm;
use crate::curve::key::Key;
use crate::delegate::{Delegate, Owned};
use crate::entry::{Nth, Place, borrow, end_given, end_lent, entry, give, lend};
use crate::instance::Instance;
use crate::keymgmt::{self, ManagedKey};

/// Our functions for each of the default provider's encoders of EC keys.
pub(crate) fn functions(delegate: &Delegate) -> impl Iterator<Item = Box<[OsslDispatch]>> {
    let theirs = delegate.algorithms.ec_encoders.iter().map(|encoder| encoder.functions);
    theirs.zip(FUNCTIONS).map(|(theirs, ours)| ours.write_like(&theirs))
}

const fn table<P: Place>() -> EncoderFunctions {
    EncoderFunctions {
        newctx: Some(newctx::<P>),
        freectx: Some(end_given::<Context>),
        set_ctx_params: Some(set_ctx_params),
        settable_ctx_params: Some(settable_ctx_params::<P>),
        does_selection: Some(does_selection::<P>),
        encode: Some(encode),
        import_object: Some(import_object),
        free_object: Some(end_lent::<Key>),
    }
}

macro_rules! tables {
    ($($index:literal)*) => { [$(table::<Nth<$index>>()),*] };
}

/// For more encoders than the default provider has: 14 in OpenSSL 3.0.
const FUNCTIONS: [EncoderFunctions; 24] =
    tables![0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23];

/// An encoding being made.
struct Context {
    delegate: Arc<Delegate>,
    index: usize,
    inner: Owned,
}

impl Context {
    fn functions(&self) -> &EncoderFunctions {
        theirs(&self.delegate, self.index)
    }
}

/// The default provider's functions.
fn theirs(delegate: &Delegate, index: usize) -> &EncoderFunctions {
    &delegate.algorithms.ec_encoders[index].functions
}

entry! {
    fn newctx<P: Place>(provctx: *mut c_void) -> *mut c_void {
        // SAFETY: the core passes our instance.
        let delegate = unsafe { borrow::<Instance>(provctx) }?.delegate();
        let functions = theirs(delegate, P::INDEX);
        let inner = Owned::made(functions.newctx, delegate, functions.freectx)?;
        Some(give(Context { delegate: Arc::clone(delegate), index: P::INDEX, inner }))
    }

    fn settable_ctx_params<P: Place>(provctx: *mut c_void) -> *const OsslParam {
        // SAFETY: the core passes our instance.
        let delegate = unsafe { borrow::<Instance>(provctx) }?.delegate();
        let settable_ctx_params = theirs(delegate, P::INDEX).settable_ctx_params?;
        // SAFETY: the default provider's own context.
        Some(unsafe { settable_ctx_params(delegate.provctx) })
    }

    fn set_ctx_params(context: *mut c_void, params: *const OsslParam) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow::<Context>(context) }?;
        // SAFETY: the core's parameters.
        unsafe { context.delegate.expect_all(params) };
        let set_ctx_params = context.functions().set_ctx_params?;
        // SAFETY: a context of the default provider, and the core's parameters.
        Some(unsafe { set_ctx_params(context.inner.as_ptr(), params) })
    }

    fn does_selection<P: Place>(provctx: *mut c_void, selection: c_int) -> c_int {
        // SAFETY: the core passes our instance.
        let delegate = unsafe { borrow::<Instance>(provctx) }?.delegate();
        let does_selection = theirs(delegate, P::INDEX).does_selection?;
        // SAFETY: the default provider's own context.
        Some(unsafe { does_selection(delegate.provctx, selection) })
    }

    fn encode(
        context: *mut c_void,
        output: *mut OsslCoreBio,
        key: *const c_void,
        made_before: *const OsslParam,
        selection: c_int,
        passphrase: Option<OsslPassphraseCallback>,
        argument: *mut c_void,
    ) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow::<Context>(context) }?;
        // SAFETY: the core passes a key of ours, or what another encoder has made.
        let key = match unsafe { borrow::<Key>(key) } {
            Some(key) => key.inner()?,
            None => ptr::null_mut(),
        };
        let (inner, encode) = (context.inner.as_ptr(), context.functions().encode?);
        // SAFETY: context and key are the default provider's, the rest the core's.
        Some(unsafe { encode(inner, output, key, made_before, selection, passphrase, argument) })
    }

    fn import_object(
        context: *mut c_void,
        selection: c_int,
        params: *const OsslParam,
    ) -> *mut c_void {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow::<Context>(context) }?;
        let key = Arc::new(Key::new(&context.delegate, Algorithm::Ec));
        let place = Arc::as_ptr(&key).cast_mut().cast();
        // SAFETY: a key of ours, and the core's parameters.
        let imported = unsafe { keymgmt::import::<Key>(place, selection, params) } > 0;
        imported.then(|| lend(key))
    }
}
