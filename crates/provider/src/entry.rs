//! The border to C: what the core calls, guarded against panics, and pointers it hands back to us.
#![allow(unsafe_code, reason = "pointers that the core keeps for us")]

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;

use widelane_ossl_sys::core::{OsslAlgorithm, OsslParam};

/// Defines functions that the core calls. The body returns `None` if the function fails.
macro_rules! entry {
    ($(
        $(#[$doc:meta])*
        $visibility:vis fn $name:ident $(<$($generic:ident: $bound:path),+>)?(
            $($argument:ident: $type:ty),* $(,)?
        ) $(-> $result:ty)?
            $body:block
    )*) => {$(
        $(#[$doc])*
        $visibility unsafe extern "C" fn $name $(<$($generic: $bound),+>)?(
            $($argument: $type),*
        ) $(-> $result)? {
            $crate::entry::guard(move || $body)
        }
    )*};
}

/// Defines functions that the core calls and that the default provider answers alone: the context
/// or key is ours, with the default provider's inside, and the rest goes through unchanged.
macro_rules! forward {
    ($(
        fn $name:ident $(<$generic:ident: $bound:path>)?($handle:ident: $handle_type:ty
            => $target:ty $(, $argument:ident: $type:ty)*) -> $result:ty;
    )*) => {$(
        unsafe extern "C" fn $name $(<$generic: $bound>)?(
            $handle: $handle_type
            $(, $argument: $type)*
        ) -> $result {
            $crate::entry::guard(move || {
                // SAFETY: the core hands back what our constructor of this kind gave it.
                let ours = unsafe { $crate::entry::borrow::<$target>($handle) }?;
                let function = ours.functions().$name?;
                let inner = ours.inner()?;
                // SAFETY: the inner pointer is the default provider's of the same kind; the other
                // arguments are the core's.
                Some(unsafe { function(inner $(, $argument)*) })
            })
        }
    )*};
}

/// Defines functions that begin an operation with a key, and that the default provider does alone,
/// by the function named behind `=`: its context inside ours gets its key inside ours.
macro_rules! begin {
    ($(
        $name:ident = $theirs:ident $(<$generic:ident: $bound:path>)?
            ($context:ty $(, $digest:ident)?);
    )*) => {
        $crate::entry::entry! {$(
            fn $name $(<$generic: $bound>)?(
                context: *mut c_void,
                $($digest: *const c_char,)?
                key: *mut c_void,
                params: *const OsslParam,
            ) -> c_int {
                // SAFETY: the core passes a context of ours.
                let context = unsafe { $crate::entry::borrow_mut::<$context>(context) }?;
                let function = context.functions().$theirs?;
                // SAFETY: the core passes a key of ours, or none.
                let key = unsafe { context.hand_over(key) }?;
                $(
                    // SAFETY: the core passes a name, or none.
                    unsafe { context.delegate.expect_digest($digest) };
                )?
                // SAFETY: the core's parameters.
                unsafe { context.delegate.expect_all(params) };
                let inner = context.inner()?;
                // SAFETY: context and key are the default provider's, the rest the core's.
                Some(unsafe { function(inner, $($digest,)? key, params) })
            }
        )*}
    };
}

/// Defines functions that name the parameters of a context, which may be null: those of the default
/// provider, whose functions stand behind the context.
macro_rules! describe {
    ($(
        $name:ident $(<$generic:ident: $bound:path>)?($context:ty, $table:expr);
    )*) => {
        $crate::entry::entry! {$(
            fn $name $(<$generic: $bound>)?(
                context: *mut c_void,
                provctx: *mut c_void,
            ) -> *const OsslParam {
                // SAFETY: the core passes our instance.
                let instance = unsafe { $crate::entry::borrow::<Instance>(provctx) }?;
                let delegate = instance.delegate();
                // SAFETY: the core passes a context of ours, or none.
                let inner = match unsafe { $crate::entry::borrow::<$context>(context) } {
                    Some(context) => context.inner()?,
                    None => std::ptr::null_mut(),
                };
                let table: fn(&$crate::delegate::Delegate) -> &_ = $table;
                let function = table(delegate).$name?;
                // SAFETY: both are the default provider's.
                Some(unsafe { function(inner, delegate.provctx) })
            }
        )*}
    };
}

/// Defines functions that the runtime calls. A panic gives what stands after `otherwise`.
macro_rules! hook {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($($argument:ident: $type:ty)?) $(-> $result:ty)?,
            otherwise $fallback:expr; $body:block
    )*) => {$(
        $(#[$doc])*
        extern "C" fn $name($($argument: $type)?) $(-> $result)? {
            $crate::entry::guard_or($fallback, move || $body)
        }
    )*};
}

pub(crate) use {begin, describe, entry, forward, hook};

/// One of several algorithms as a type, by its place: the core calls functions of each without
/// saying which it means.
pub(crate) trait Place {
    /// The place.
    const INDEX: usize;
}

/// The algorithm at place `INDEX`, as a type.
pub(crate) enum Nth<const INDEX: usize> {}

impl<const INDEX: usize> Place for Nth<INDEX> {
    const INDEX: usize = INDEX;
}

/// What a function returns when it fails.
pub(crate) trait Failure {
    /// The answer.
    const FAILURE: Self;
}

impl Failure for c_int {
    const FAILURE: Self = 0;
}

impl Failure for () {
    const FAILURE: Self = ();
}

impl Failure for *mut c_void {
    const FAILURE: Self = ptr::null_mut();
}

impl Failure for *const OsslParam {
    const FAILURE: Self = ptr::null();
}

impl Failure for *const OsslAlgorithm {
    const FAILURE: Self = ptr::null();
}

/// Runs the body of a function that C calls; a panic ends here and counts as a failure.
#[inline(always)]
pub(crate) fn guard<R: Failure>(body: impl FnOnce() -> Option<R>) -> R {
    catch_unwind(AssertUnwindSafe(body)).ok().flatten().unwrap_or(R::FAILURE)
}

/// Runs the body of a hook that C calls; a panic ends here and gives `otherwise`.
pub(crate) fn guard_or<R>(otherwise: R, body: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

/// Gives C a share of `value`, as a pointer.
pub(crate) fn lend<T>(value: Arc<T>) -> *mut c_void {
    Arc::into_raw(value).cast_mut().cast()
}

/// Looks at what C holds a share of; nothing if the pointer is null.
///
/// # Safety
/// `pointer` must be null or come from [`lend`] or [`give`] with the same type and not have been
/// taken back; it stays with C for as long as the reference is used.
pub(crate) unsafe fn borrow<'a, T>(pointer: *const c_void) -> Option<&'a T> {
    // SAFETY: passed on to the caller.
    unsafe { pointer.cast::<T>().as_ref() }
}

/// Takes a further share of what C holds a share of; nothing if the pointer is null.
///
/// # Safety
/// As for [`borrow`], and the pointer must come from [`lend`].
pub(crate) unsafe fn share<T>(pointer: *const c_void) -> Option<Arc<T>> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: C holds a share, so the count is not zero.
    unsafe { Arc::increment_strong_count(pointer.cast::<T>()) };
    // SAFETY: counted just now.
    Some(unsafe { Arc::from_raw(pointer.cast::<T>()) })
}

/// Takes back the share that C holds; nothing if the pointer is null.
///
/// # Safety
/// As for [`share`]; C no longer uses the pointer.
pub(crate) unsafe fn take_back<T>(pointer: *const c_void) -> Option<Arc<T>> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: C gives its share back.
    Some(unsafe { Arc::from_raw(pointer.cast::<T>()) })
}

/// Gives C a context of its own, as a pointer.
pub(crate) fn give<T>(value: T) -> *mut c_void {
    Box::into_raw(Box::new(value)).cast()
}

/// Uses a context that C owns; nothing if the pointer is null.
///
/// # Safety
/// `pointer` must be null or come from [`give`] with the same type. C uses a context in one thread
/// at a time.
pub(crate) unsafe fn borrow_mut<'a, T>(pointer: *mut c_void) -> Option<&'a mut T> {
    // SAFETY: passed on to the caller.
    unsafe { pointer.cast::<T>().as_mut() }
}

/// Ends a context that C owned; nothing if the pointer is null.
///
/// # Safety
/// As for [`borrow_mut`]; C no longer uses the pointer.
unsafe fn take<T>(pointer: *mut c_void) -> Option<Box<T>> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: made by `give`, ended once.
    Some(unsafe { Box::from_raw(pointer.cast::<T>()) })
}

/// C gives its share of a `T` back: a function for tables.
///
/// # Safety
/// As for [`take_back`].
pub(crate) unsafe extern "C" fn end_lent<T>(pointer: *mut c_void) {
    guard(|| {
        // SAFETY: passed on to the caller.
        drop(unsafe { take_back::<T>(pointer) });
        Some(())
    })
}

/// C ends a `T` of its own: a function for tables.
///
/// # Safety
/// As for [`take`].
pub(crate) unsafe extern "C" fn end_given<T>(pointer: *mut c_void) {
    guard(|| {
        // SAFETY: passed on to the caller.
        drop(unsafe { take::<T>(pointer) });
        Some(())
    })
}

/// The bytes at `data`; none if it is null.
///
/// # Safety
/// `data` must be null or readable for `bytes` bytes while the slice is used.
pub(crate) unsafe fn input<'a>(data: *const u8, bytes: usize) -> &'a [u8] {
    if data.is_null() {
        return &[];
    }
    // SAFETY: passed on to the caller.
    unsafe { std::slice::from_raw_parts(data, bytes) }
}

/// Writes the answer of an operation: the bytes to `data`, their number to `length`.
///
/// # Safety
/// `data` must be writable for `answer`, `length` for a number.
pub(crate) unsafe fn output(answer: &[u8], data: *mut u8, length: *mut usize) {
    // SAFETY: passed on to the caller; what we hold and what C gave us do not overlap.
    unsafe { ptr::copy_nonoverlapping(answer.as_ptr(), data, answer.len()) };
    // SAFETY: passed on to the caller.
    unsafe { length.write(answer.len()) };
}
