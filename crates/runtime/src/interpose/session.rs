//! Doors in front of what libssl and programs do with new sessions.
#![allow(unsafe_code, reason = "exported symbols")]
#![allow(non_snake_case, reason = "the names of OpenSSL")]

use core::ffi::{c_int, c_long, c_uchar, c_void};

use super::guard;
use crate::real;
use crate::sessions::{self, NewSession};

/// libssl encodes its sessions by this function, programs their certificates and much else.
#[unsafe(no_mangle)]
extern "C-unwind" fn ASN1_item_i2d(
    value: *const c_void,
    output: *mut *mut c_uchar,
    item: *const c_void,
) -> c_int {
    guard(None, || sessions::encode(value, output, item))
        .unwrap_or_else(|| real::ASN1_item_i2d(value, output, item))
}

/// libssl decodes its sessions by this function.
#[unsafe(no_mangle)]
extern "C-unwind" fn ASN1_item_d2i(
    value: *mut *mut c_void,
    input: *mut *const c_uchar,
    bytes: c_long,
    item: *const c_void,
) -> *mut c_void {
    guard(None, || sessions::decode(value, input, bytes, item))
        .unwrap_or_else(|| real::ASN1_item_d2i(value, input, bytes, item))
}

#[unsafe(no_mangle)]
extern "C-unwind" fn SSL_CTX_sess_set_new_cb(
    context: *mut c_void,
    new_session: Option<NewSession>,
) {
    real::SSL_CTX_sess_set_new_cb(context, new_session.map(sessions::instead_of));
}

#[unsafe(no_mangle)]
extern "C-unwind" fn SSL_CTX_sess_get_new_cb(context: *mut c_void) -> Option<NewSession> {
    real::SSL_CTX_sess_get_new_cb(context).map(sessions::stands_for)
}
