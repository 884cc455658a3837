//! What libcrypto calls, the same for all ciphers.
#![allow(unsafe_code, reason = "the provider's own entries")]

use std::ffi::{c_int, c_uchar, c_void};
use std::sync::Arc;

use widelane_crypto::aead::Direction;
use widelane_ossl_sys::core::{self, OsslDispatch, OsslParam};
use widelane_ossl_sys::dispatch::CipherFunctions;

use super::Kind;
use super::context::{Context, Refused};
use super::piece::Piece;
use crate::entry::{borrow, borrow_mut, entry, give, input, take};
use crate::errors::raise;
use crate::instance::Instance;
use crate::params::{self, Array};

/// The functions of a cipher: those that the default provider has as well.
pub(super) fn functions<K: Kind>(like: &CipherFunctions) -> Box<[OsslDispatch]> {
    CipherFunctions {
        newctx: Some(newctx::<K>),
        encrypt_init: Some(encrypt_init::<K::Context>),
        decrypt_init: Some(decrypt_init::<K::Context>),
        update: Some(update::<K::Context>),
        finish: Some(finish::<K::Context>),
        cipher: Some(cipher::<K::Context>),
        freectx: Some(freectx::<K::Context>),
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
    context: *mut c_void,
    direction: Direction,
    key: (*const c_uchar, usize),
    iv: (*const c_uchar, usize),
    array: *const OsslParam,
) -> Option<c_int> {
    // SAFETY: the core passes a context of ours.
    let context = unsafe { borrow_mut::<C>(context) }?;
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

entry! {
    fn newctx<K: Kind>(provctx: *mut c_void) -> *mut c_void {
        // SAFETY: the core passes our instance.
        let instance = unsafe { borrow::<Instance>(provctx) }?;
        Some(give(K::Context::new(Arc::clone(instance.delegate()), K::KIND, K::ALGORITHM)))
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

    fn freectx<C: Context>(context: *mut c_void) {
        // SAFETY: the core ends a context of ours.
        drop(unsafe { take::<C>(context) });
        Some(())
    }

    fn dupctx<C: Context>(context: *mut c_void) -> *mut c_void {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow::<C>(context) }?;
        Some(give(context.clone()))
    }

    fn encrypt_init<C: Context>(
        context: *mut c_void,
        key: *const c_uchar,
        key_bytes: usize,
        iv: *const c_uchar,
        iv_bytes: usize,
        params: *const OsslParam,
    ) -> c_int {
        // SAFETY: the arguments are the core's.
        unsafe { init::<C>(context, Direction::Seal, (key, key_bytes), (iv, iv_bytes), params) }
    }

    fn decrypt_init<C: Context>(
        context: *mut c_void,
        key: *const c_uchar,
        key_bytes: usize,
        iv: *const c_uchar,
        iv_bytes: usize,
        params: *const OsslParam,
    ) -> c_int {
        // SAFETY: the arguments are the core's.
        unsafe { init::<C>(context, Direction::Open, (key, key_bytes), (iv, iv_bytes), params) }
    }

    fn update<C: Context>(
        context: *mut c_void,
        output: *mut c_uchar,
        length: *mut usize,
        size: usize,
        data: *const c_uchar,
        bytes: usize,
    ) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<C>(context) }?;
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
        _output: *mut c_uchar,
        length: *mut usize,
        _size: usize,
    ) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<C>(context) }?;
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
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<C>(context) }?;
        // SAFETY: the arguments are the core's.
        let done = unsafe { advance(context, output, size, data, bytes) };
        let written = explained(context, done)?;
        // SAFETY: the core waits for the length.
        unsafe { length.write(written) };
        Some(1)
    }

    fn get_ctx_params<C: Context>(context: *mut c_void, params: *mut OsslParam) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<C>(context) }?;
        // SAFETY: the core's array.
        for (name, param) in unsafe { params::iter_mut(params) } {
            // SAFETY: the core's array has room for what it asks for.
            let answered = unsafe { context.answer(name, param) };
            explained(context, answered)?;
        }
        Some(1)
    }

    fn set_ctx_params<C: Context>(context: *mut c_void, params: *const OsslParam) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<C>(context) }?;
        // SAFETY: the core's array.
        unsafe { set_all(context, params) }
    }
}
