//! Doors in front of libcrypto's functions by which libssl decodes the certificates of its peers
//! ([`crate::certificates`]).
#![allow(unsafe_code, reason = "exported symbols, and places of their callers")]
#![allow(non_snake_case, reason = "the names of OpenSSL")]

use core::ffi::{CStr, c_char, c_int, c_long, c_uchar, c_void};
use core::slice;

use super::guard;
use crate::certificates;
use crate::methods;
use crate::real;

#[unsafe(no_mangle)]
extern "C-unwind" fn X509_new_ex(context: *mut c_void, properties: *const c_char) -> *mut c_void {
    let certificate = real::X509_new_ex(context, properties);
    // SAFETY: null, or a C string of the caller's.
    let properties = (!properties.is_null()).then(|| unsafe { CStr::from_ptr(properties) });
    guard((), || certificates::note_new(context, properties, certificate));
    certificate
}

#[unsafe(no_mangle)]
extern "C-unwind" fn d2i_X509(
    certificate: *mut *mut c_void,
    input: *mut *const c_uchar,
    bytes: c_long,
) -> *mut c_void {
    let decode = || real::d2i_X509(certificate, input, bytes);
    // SAFETY: null, or places of the caller's, by the contract of this function.
    let (Some(place), Some(next)) = (unsafe { certificate.as_mut() }, unsafe { input.as_mut() })
    else {
        return decode();
    };
    let (start, Ok(bytes)) = (*next, usize::try_from(bytes)) else { return decode() };
    let is_new = guard(false, || certificates::is_new(*place));
    if !is_new || start.is_null() {
        return decode();
    }
    // SAFETY: the caller's encoding, of this length, by the contract.
    let encoding = unsafe { slice::from_raw_parts(start, bytes) };
    let end = encoding.as_ptr_range().end;
    if let Some(known) = guard(None, || certificates::find(encoding)) {
        let empty = core::mem::replace(place, known);
        if let Some(openssl) = real::openssl() {
            (openssl.X509_free)(empty);
        }
        *next = end;
        return known;
    }
    let before = methods::changes();
    let decoded = decode();
    // SAFETY: the caller's place, as above.
    let is_used_up = unsafe { input.read() } == end;
    if !decoded.is_null() && is_used_up {
        guard((), || certificates::keep(encoding, decoded, before));
    }
    decoded
}

#[unsafe(no_mangle)]
extern "C-unwind" fn X509_set_ex_data(
    certificate: *mut c_void,
    index: c_int,
    data: *mut c_void,
) -> c_int {
    guard((), || certificates::note_data(certificate));
    real::X509_set_ex_data(certificate, index, data)
}
