//! A provider that is neither OpenSSL's nor ours: it has one digest, the sum of all bytes that have
//! the same place modulo 32.

use std::ffi::{CStr, c_int, c_uchar, c_void};
use std::mem::transmute;
use std::ptr;

use widelane_ossl_sys::core::{self, OsslAlgorithm, OsslCoreHandle, OsslDispatch, OsslParam};

use super::ffi;

/// The name of its digest.
pub const DIGEST: &CStr = c"TOY-SUM";

/// Loads it into the default library context.
pub fn load() -> *mut c_void {
    let name = c"toy".as_ptr();
    // SAFETY: the default library context, and a C string.
    assert_eq!(unsafe { ffi::OSSL_PROVIDER_add_builtin(ptr::null_mut(), name, begin) }, 1);
    // SAFETY: as above.
    unsafe { ffi::OSSL_PROVIDER_load(ptr::null_mut(), name) }
}

const BYTES: usize = 32;

struct Sum {
    sums: [u8; BYTES],
    next: usize,
}

unsafe extern "C" fn begin(
    _handle: *const OsslCoreHandle,
    _upcalls: *const OsslDispatch,
    functions: *mut *const OsslDispatch,
    provctx: *mut *mut c_void,
) -> c_int {
    // SAFETY: the core waits for the answer here.
    unsafe { functions.write(PROVIDER.as_ptr()) };
    // SAFETY: as above. The context tells whether the functions get the right one.
    unsafe { provctx.write(ptr::from_ref(DIGEST).cast_mut().cast()) };
    1
}

unsafe extern "C" fn query(
    provctx: *mut c_void,
    operation: c_int,
    _no_cache: *mut c_int,
) -> *const OsslAlgorithm {
    assert_eq!(provctx, ptr::from_ref(DIGEST).cast_mut().cast());
    if operation == core::OP_DIGEST { DIGESTS.0.as_ptr() } else { ptr::null() }
}

unsafe extern "C" fn newctx(provctx: *mut c_void) -> *mut c_void {
    assert_eq!(provctx, ptr::from_ref(DIGEST).cast_mut().cast());
    Box::into_raw(Box::new(Sum { sums: [0; BYTES], next: 0 })).cast()
}

unsafe extern "C" fn init(sum: *mut c_void, _params: *const OsslParam) -> c_int {
    // SAFETY: the core passes a context that `newctx` made.
    unsafe { sum.cast::<Sum>().write(Sum { sums: [0; BYTES], next: 0 }) };
    1
}

unsafe extern "C" fn update(sum: *mut c_void, data: *const c_uchar, bytes: usize) -> c_int {
    // SAFETY: as above.
    let sum = unsafe { &mut *sum.cast::<Sum>() };
    if bytes == 0 {
        return 1;
    }
    // SAFETY: the core passes data of this length.
    for byte in unsafe { std::slice::from_raw_parts(data, bytes) } {
        sum.sums[sum.next] = sum.sums[sum.next].wrapping_add(*byte);
        sum.next = (sum.next + 1) % BYTES;
    }
    1
}

unsafe extern "C" fn finish(
    sum: *mut c_void,
    output: *mut c_uchar,
    length: *mut usize,
    size: usize,
) -> c_int {
    if size < BYTES {
        return 0;
    }
    // SAFETY: as above.
    let sum = unsafe { &*sum.cast::<Sum>() };
    // SAFETY: there is room for the digest.
    unsafe { ptr::copy_nonoverlapping(sum.sums.as_ptr(), output, BYTES) };
    // SAFETY: the core waits for the length here.
    unsafe { length.write(BYTES) };
    1
}

unsafe extern "C" fn freectx(sum: *mut c_void) {
    if !sum.is_null() {
        // SAFETY: made by `newctx` or `dupctx`, freed once.
        drop(unsafe { Box::from_raw(sum.cast::<Sum>()) });
    }
}

unsafe extern "C" fn dupctx(sum: *mut c_void) -> *mut c_void {
    // SAFETY: the core passes a context that `newctx` made.
    let Sum { sums, next } = unsafe { &*sum.cast::<Sum>() };
    Box::into_raw(Box::new(Sum { sums: *sums, next: *next })).cast()
}

unsafe extern "C" fn get_params(params: *mut OsslParam) -> c_int {
    for name in [c"size", c"blocksize"] {
        // SAFETY: the core's array, and a C string.
        let param = unsafe { ffi::OSSL_PARAM_locate(params, name.as_ptr()) };
        // SAFETY: a parameter of the core's.
        if !param.is_null() && unsafe { ffi::OSSL_PARAM_set_size_t(param, BYTES) } != 1 {
            return 0;
        }
    }
    1
}

const fn entry(function_id: c_int, function: unsafe extern "C" fn()) -> OsslDispatch {
    OsslDispatch { function_id, function: Some(function) }
}

type Untyped = unsafe extern "C" fn();

macro_rules! dispatch {
    ($number:expr, $function:ident: fn($($argument:ty),*) $(-> $result:ty)?) => {
        // SAFETY: only the type is forgotten; the number brings it back.
        entry($number, unsafe {
            transmute::<unsafe extern "C" fn($($argument),*) $(-> $result)?, Untyped>($function)
        })
    };
}

static PROVIDER: [OsslDispatch; 2] = [
    dispatch!(
        1027,
        query: fn(*mut c_void, c_int, *mut c_int) -> *const OsslAlgorithm
    ),
    OsslDispatch::END,
];

static FUNCTIONS: [OsslDispatch; 8] = [
    dispatch!(1, newctx: fn(*mut c_void) -> *mut c_void),
    dispatch!(2, init: fn(*mut c_void, *const OsslParam) -> c_int),
    dispatch!(3, update: fn(*mut c_void, *const c_uchar, usize) -> c_int),
    dispatch!(4, finish: fn(*mut c_void, *mut c_uchar, *mut usize, usize) -> c_int),
    dispatch!(6, freectx: fn(*mut c_void)),
    dispatch!(7, dupctx: fn(*mut c_void) -> *mut c_void),
    dispatch!(8, get_params: fn(*mut OsslParam) -> c_int),
    OsslDispatch::END,
];

struct Algorithms([OsslAlgorithm; 2]);

// SAFETY: the pointers lead to constants.
unsafe impl Sync for Algorithms {}

static DIGESTS: Algorithms = Algorithms([
    OsslAlgorithm {
        algorithm_names: DIGEST.as_ptr(),
        property_definition: c"provider=toy".as_ptr(),
        implementation: FUNCTIONS.as_ptr(),
        algorithm_description: ptr::null(),
    },
    OsslAlgorithm::END,
]);
