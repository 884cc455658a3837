//! Errors that we leave on libcrypto's queue, and words on standard error.
#![allow(unsafe_code, reason = "calls libcrypto")]

use std::ffi::{CStr, CString, c_char, c_int};
use std::io::Write;
use std::ptr;

use widelane_ossl_sys::Libcrypto;
use widelane_ossl_sys::core;

/// Says a line on standard error. It may be closed, or a log on a full disk: that is no reason to
/// fail, as `eprintln!` would.
pub(crate) fn say(line: &str) {
    let _ = std::io::stderr().write_all(format!("widelane: {line}\n").as_bytes());
}

/// Does `work`, and forgets the errors that it leaves.
pub(crate) fn quietly<R>(libcrypto: &Libcrypto, work: impl FnOnce() -> R) -> R {
    // SAFETY: no arguments.
    unsafe { (libcrypto.ERR_set_mark)() };
    let result = work();
    // SAFETY: no arguments.
    unsafe { (libcrypto.ERR_pop_to_mark)() };
    result
}

/// Leaves an error that a text explains.
pub(crate) fn raise_text(libcrypto: &Libcrypto, text: &str) {
    let Ok(text) = CString::new(text.replace('%', "%%")) else { return };
    put(libcrypto, core::ERR_R_INTERNAL_ERROR, text.as_ptr());
}

/// Leaves an error of the reasons that providers have in common (`PROV_R_*`).
pub(crate) fn raise(libcrypto: &Libcrypto, reason: c_int) {
    put(libcrypto, reason, ptr::null());
}

/// Leaves an error with a text without conversions, or with none.
fn put(libcrypto: &Libcrypto, reason: c_int, text: *const c_char) {
    const FILE: &CStr = c"widelane";
    // SAFETY: no arguments.
    unsafe { (libcrypto.ERR_new)() };
    // SAFETY: constants.
    unsafe { (libcrypto.ERR_set_debug)(FILE.as_ptr(), 0, FILE.as_ptr()) };
    // SAFETY: a text without conversions, or none, needs no arguments.
    unsafe { (libcrypto.ERR_vset_error)(core::ERR_LIB_PROV, reason, text, ptr::null_mut()) };
}
