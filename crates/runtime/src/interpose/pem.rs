//! The door in front of libcrypto's reading of private keys.
#![allow(unsafe_code, reason = "an exported symbol")]
#![allow(non_snake_case, reason = "the names of OpenSSL")]

use core::ffi::c_void;

use super::guard;
use crate::config::config;
use crate::keys;
use crate::real::{self, PasswordCallback};

#[unsafe(no_mangle)]
extern "C" fn PEM_read_bio_PrivateKey(
    bio: *mut c_void,
    key: *mut *mut c_void,
    ask: PasswordCallback,
    argument: *mut c_void,
) -> *mut c_void {
    // A key that is to be replaced is libcrypto's affair.
    let is_ours = !bio.is_null() && key.is_null() && config().is_some();
    match guard(None, || is_ours.then(|| keys::read(bio)).flatten()) {
        Some(key) => key.as_ptr(),
        None => real::PEM_read_bio_PrivateKey(bio, key, ask, argument),
    }
}
