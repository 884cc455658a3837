//! What libcrypto calls, the same for all ciphers.
#![allow(unsafe_code, reason = "the provider's own entries")]

use std::ffi::{c_int, c_uchar, c_void};
use std::sync::Arc;

use widelane_bridge::counters::CipherKind;
use widelane_crypto::aead::Direction;
use widelane_ossl_sys::core::{self, OsslDispatch, OsslParam};
use widelane_ossl_sys::dispatch::CipherFunctions;

use super::Kind;
use super::context::{Context, Refused};
use super::piece::Piece;
use crate::delegate::{Delegate, Owned};
use crate::entry::{borrow, borrow_mut, end_given, entry, give, input};
use crate::errors::raise;
use crate::instance::Instance;
use crate::params::{self, Array};
use crate::switch;

/// What EVP has for a context.
enum Held<C> {
    Ours(C),
    /// One that was begun while the process was switched off.
    Theirs(Theirs),
}

/// A context of the default provider.
struct Theirs {
    delegate: Arc<Delegate>,
    kind: CipherKind,
    context: Owned,
}

impl Theirs {
    fn begin(delegate: &Arc<Delegate>, kind: CipherKind) -> Option<Self> {
        let functions = &delegate.algorithms.ciphers[kind as usize].as_ref()?.functions;
        let context = Owned::made(functions.newctx, delegate, functions.freectx)?;
        Some(Theirs { delegate: Arc::clone(delegate), kind, context })
    }

    fn functions(&self) -> Option<&CipherFunctions> {
        Some(&self.delegate.algorithms.ciphers[self.kind as usize].as_ref()?.functions)
    }

    fn duplicate(&self) -> Option<Self> {
        let functions = self.functions()?;
        // SAFETY: a context of the default provider, and its function for such.
        let context = unsafe { functions.dupctx?(self.context.as_ptr()) };
        let context = Owned::adopt(context, functions.freectx)?;
        Some(Theirs { delegate: Arc::clone(&self.delegate), kind: self.kind, context })
    }
}

/// The context of ours behind `$context`; where it is one of the default provider, its function
/// `$name` has the last word.
macro_rules! ours {
    ($context:ident: $type:ty, or $name:ident($($argument:expr),*)) => {
        // SAFETY: the core passes a context of ours.
        match unsafe { borrow_mut::<Held<$type>>($context) }? {
            Held::Ours(context) => context,
            Held::Theirs(theirs) => {
                let function = theirs.functions()?.$name?;
                // SAFETY: a context of the default provider; the other arguments are the core's.
                return Some(unsafe { function(theirs.context.as_ptr() $(, $argument)*) });
            }
        }
    };
}

/// The functions of a cipher: those that the default provider has as well.
pub(super) fn functions<K: Kind>(like: &CipherFunctions) -> Box<[OsslDispatch]> {
    CipherFunctions {
        newctx: Some(newctx::<K>),
        encrypt_init: Some(encrypt_init::<K::Context>),
        decrypt_init: Some(decrypt_init::<K::Context>),
        update: Some(update::<K::Context>),
        finish: Some(finish::<K::Context>),
        cipher: Some(cipher::<K::Context>),
        freectx: Some(end_given::<Held<K::Context>>),
        dupctx: Some(dupctx::<K::Context>),
        // Lengths, mode and flags are the algorithm's, not a context's.
        get_params: like.get_params,
        get_ctx_params: Some(get_ctx_params::<K::Context>),
        set_ctx_params: Some(set_ctx_params::<K::Context>),
        gettable_params: Some(gettable_params::<K>),
        gettable_ctx_params: Some(gettable_ctx_params::<K::Context>),
        settable_ctx_params: Some(settable_ctx_params::<K::Context>),
    }
    .write_like(like)
}

/// Puts the reason of a failure on libcrypto's queue.
fn explained<C: Context, T>(context: &C, result: Result<T, Refused>) -> Option<T> {
    result
        .inspect_err(|refused| {
            if let Some(reason) = refused.0 {
                raise(&context.delegate().libcrypto, reason);
            }
        })
        .ok()
}

/// Sets the parameters of an array.
///
/// # Safety
/// `array` must be null or such an array.
unsafe fn set_all<C: Context>(context: &mut C, array: *const OsslParam) -> Option<c_int> {
    // SAFETY: passed on to the caller.
    let array = unsafe { Array::new(array) };
    for param in array.iter() {
        let set = context.set(params::name(param), param, array);
        explained(context, set)?;
    }
    Some(1)
}

/// Begins messages.
///
/// # Safety
/// The arguments must be those of the core.
unsafe fn init<C: Context>(
    context: &mut C,
    direction: Direction,
    key: (*const c_uchar, usize),
    iv: (*const c_uchar, usize),
    array: *const OsslParam,
) -> Option<c_int> {
    // SAFETY: null, or as many bytes as the core says.
    let key = (!key.0.is_null()).then(|| unsafe { input(key.0, key.1) });
    // SAFETY: as above.
    let iv = (!iv.0.is_null()).then(|| unsafe { input(iv.0, iv.1) });
    let begun = context.init(direction, key, iv);
    explained(context, begun)?;
    // SAFETY: the core's array.
    unsafe { set_all(context, array) }
}

/// Goes on with a message; returns how many bytes were written.
///
/// # Safety
/// The arguments must be those of the core.
unsafe fn advance<C: Context>(
    context: &mut C,
    output: *mut c_uchar,
    size: usize,
    data: *const c_uchar,
    bytes: usize,
) -> Result<usize, Refused> {
    if size < bytes {
        return Err(core::PROV_R_OUTPUT_BUFFER_TOO_SMALL.into());
    }
    // SAFETY: the core passes data of this length, and room for as much if it wants a result.
    context.advance(unsafe { Piece::new(output, data, bytes) })
}

/// Defines functions that begin messages which go one way.
macro_rules! init {
    ($($name:ident = $direction:expr;)*) => {
        entry! {$(
            fn $name<C: Context>(
                context: *mut c_void,
                key: *const c_uchar,
                key_bytes: usize,
                iv: *const c_uchar,
                iv_bytes: usize,
                params: *const OsslParam,
            ) -> c_int {
                let context = ours!(context: C, or $name(key, key_bytes, iv, iv_bytes, params));
                // SAFETY: the arguments are the core's.
                unsafe { init(context, $direction, (key, key_bytes), (iv, iv_bytes), params) }
            }
        )*}
    };
}

init! {
    encrypt_init = Direction::Seal;
    decrypt_init = Direction::Open;
}

entry! {
    fn newctx<K: Kind>(provctx: *mut c_void) -> *mut c_void {
        // SAFETY: the core passes our instance.
        let delegate = unsafe { borrow::<Instance>(provctx) }?.delegate();
        Some(give(if switch::is_off() {
            Held::Theirs(Theirs::begin(delegate, K::KIND)?)
        } else {
            Held::Ours(K::Context::new(Arc::clone(delegate), K::KIND, K::ALGORITHM))
        }))
    }

    fn gettable_params<K: Kind>(provctx: *mut c_void) -> *const OsslParam {
        // SAFETY: the core passes our instance.
        let delegate = unsafe { borrow::<Instance>(provctx) }?.delegate();
        let cipher = delegate.algorithms.ciphers[K::KIND as usize].as_ref()?;
        let function = cipher.functions.gettable_params?;
        // SAFETY: the default provider's function and its context.
        Some(unsafe { function(delegate.provctx) })
    }

    fn gettable_ctx_params<C: Context>(
        _context: *mut c_void,
        _provctx: *mut c_void,
    ) -> *const OsslParam {
        Some(C::GETTABLE.as_ptr())
    }

    fn settable_ctx_params<C: Context>(
        _context: *mut c_void,
        _provctx: *mut c_void,
    ) -> *const OsslParam {
        Some(C::SETTABLE.as_ptr())
    }

    fn dupctx<C: Context>(context: *mut c_void) -> *mut c_void {
        // SAFETY: the core passes a context of ours.
        Some(give(match unsafe { borrow::<Held<C>>(context) }? {
            Held::Ours(context) => Held::Ours(context.clone()),
            Held::Theirs(theirs) => Held::<C>::Theirs(theirs.duplicate()?),
        }))
    }

    fn update<C: Context>(
        context: *mut c_void,
        output: *mut c_uchar,
        length: *mut usize,
        size: usize,
        data: *const c_uchar,
        bytes: usize,
    ) -> c_int {
        let context = ours!(context: C, or update(output, length, size, data, bytes));
        let done = if bytes == 0 {
            Ok(0)
        } else {
            // SAFETY: the arguments are the core's.
            unsafe { advance(context, output, size, data, bytes) }
                .map_err(|refused| Refused(refused.0.or(C::UPDATE_FAILED)))
        };
        let written = explained(context, done)?;
        // SAFETY: the core waits for the length.
        unsafe { length.write(written) };
        Some(1)
    }

    fn finish<C: Context>(
        context: *mut c_void,
        output: *mut c_uchar,
        length: *mut usize,
        size: usize,
    ) -> c_int {
        let context = ours!(context: C, or finish(output, length, size));
        let done = context.advance(Piece::End);
        explained(context, done)?;
        // SAFETY: the core waits for the length.
        unsafe { length.write(0) };
        Some(1)
    }

    /// An update where there is input, the end where there is none.
    fn cipher<C: Context>(
        context: *mut c_void,
        output: *mut c_uchar,
        length: *mut usize,
        size: usize,
        data: *const c_uchar,
        bytes: usize,
    ) -> c_int {
        let context = ours!(context: C, or cipher(output, length, size, data, bytes));
        // SAFETY: the arguments are the core's.
        let done = unsafe { advance(context, output, size, data, bytes) };
        let written = explained(context, done)?;
        // SAFETY: the core waits for the length.
        unsafe { length.write(written) };
        Some(1)
    }

    fn get_ctx_params<C: Context>(context: *mut c_void, params: *mut OsslParam) -> c_int {
        let context = ours!(context: C, or get_ctx_params(params));
        // SAFETY: the core's array.
        for (name, param) in unsafe { params::iter_mut(params) } {
            // SAFETY: the core's array has room for what it asks for.
            let answered = unsafe { context.answer(name, param) };
            explained(context, answered)?;
        }
        Some(1)
    }

    fn set_ctx_params<C: Context>(context: *mut c_void, params: *const OsslParam) -> c_int {
        let context = ours!(context: C, or set_ctx_params(params));
        // SAFETY: the core's array.
        unsafe { set_all(context, params) }
    }
}
