//! The doors in front of libcrypto's reading of private keys.
#![allow(unsafe_code, reason = "exported symbols")]
#![allow(non_snake_case, reason = "the names of OpenSSL")]

use core::ffi::{c_char, c_void};
use core::ptr::NonNull;

use super::guard_uncancelled;
use crate::config::config;
use crate::keys;
use crate::real::{self, PasswordCallback};

#[unsafe(no_mangle)]
extern "C-unwind" fn PEM_read_bio_PrivateKey(
    bio: *mut c_void,
    key: *mut *mut c_void,
    ask: PasswordCallback,
    argument: *mut c_void,
) -> *mut c_void {
    match read(bio, key) {
        Some(key) => key.as_ptr(),
        None => real::PEM_read_bio_PrivateKey(bio, key, ask, argument),
    }
}

/// By this libssl reads the files of `SSL_CTX_use_PrivateKey_file` and `SSL_use_PrivateKey_file`.
#[unsafe(no_mangle)]
extern "C-unwind" fn PEM_read_bio_PrivateKey_ex(
    bio: *mut c_void,
    key: *mut *mut c_void,
    ask: PasswordCallback,
    argument: *mut c_void,
    context: *mut c_void,
    properties: *const c_char,
) -> *mut c_void {
    // The decoders that are kept are those of the default context, without properties.
    let is_default = context.is_null() && properties.is_null();
    match is_default.then(|| read(bio, key)).flatten() {
        Some(key) => key.as_ptr(),
        None => real::PEM_read_bio_PrivateKey_ex(bio, key, ask, argument, context, properties),
    }
}

fn read(bio: *mut c_void, key: *mut *mut c_void) -> Option<NonNull<c_void>> {
    // A key that is to be replaced is libcrypto's affair.
    let is_ours = !bio.is_null() && key.is_null() && config().is_some();
    guard_uncancelled(None, || is_ours.then(|| keys::read(bio)).flatten())
}
