//! Errors that we leave on libcrypto's queue, and words on standard error.
#![allow(unsafe_code, reason = "calls libcrypto")]

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;

use widelane_crypto::has_unlocked_keys;
use widelane_ossl_sys::Libcrypto;
use widelane_ossl_sys::core;
use widelane_reserve::Notices;
pub(crate) use widelane_reserve::say;

/// What is said once per server.
#[derive(Clone, Copy)]
pub(crate) enum Once {
    NoCounters = 1 << 0,
    UnlockedKeys = 1 << 1,
}

static NOTICES: Notices = Notices::new();

/// Makes the memory in which forked processes share what has been said; before the program forks.
pub(crate) fn share() {
    NOTICES.share();
}

/// Says a line, unless this server has said it before.
pub(crate) fn say_once(once: Once, line: &str) {
    NOTICES.say_once(once as u32, line);
}

/// Warns the operator if private keys are not locked in memory.
pub(crate) fn tell_of_unlocked_keys() {
    if has_unlocked_keys() {
        let line = "some private keys are not locked in memory and could be swapped out; if they \
                    must not, raise the limit on locked memory (LimitMEMLOCK= of the service, \
                    ulimit -l)";
        say_once(Once::UnlockedKeys, line);
    }
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
