//! Doors in front of libcrypto's functions by which libssl decodes the certificates of its peers
//! ([`crate::certificates`]).
#![allow(unsafe_code, reason = "exported symbols")]
#![allow(non_snake_case, reason = "the names of OpenSSL")]

use core::ffi::{c_char, c_int, c_long, c_uchar, c_void};

use super::guard;
use crate::certificates;
use crate::real;

#[unsafe(no_mangle)]
extern "C-unwind" fn X509_new_ex(context: *mut c_void, properties: *const c_char) -> *mut c_void {
    let certificate = real::X509_new_ex(context, properties);
    guard((), || certificates::note_new(context, properties, certificate));
    certificate
}

#[unsafe(no_mangle)]
extern "C-unwind" fn d2i_X509(
    certificate: *mut *mut c_void,
    input: *mut *const c_uchar,
    bytes: c_long,
) -> *mut c_void {
    // SAFETY: the caller's places, by the contract of this function.
    if !guard(false, || unsafe { certificates::is_new(certificate, input) }) {
        return real::d2i_X509(certificate, input, bytes);
    }
    let known = guard(None, || {
        // SAFETY: neither place is null.
        unsafe { certificates::decode_known(certificate, input, bytes) }
    });
    if let Some(known) = known {
        return known;
    }
    // SAFETY: as above.
    let start = unsafe { input.read() };
    let decoded = real::d2i_X509(certificate, input, bytes);
    // SAFETY: as above.
    guard((), || unsafe { certificates::keep(decoded, start, input, bytes) });
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
