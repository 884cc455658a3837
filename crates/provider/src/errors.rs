//! Errors that we leave on libcrypto's queue, and words on standard error.
#![allow(unsafe_code, reason = "calls libcrypto")]

use std::ffi::{CStr, CString, c_int};
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
    NoLaneKeys = 1 << 2,
    NoDevice = 1 << 3,
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
    let Ok(text) = CString::new(text) else { return };
    begin(libcrypto);
    let (reason, format) = (core::ERR_R_INTERNAL_ERROR, c"%s".as_ptr());
    // SAFETY: the format takes a C string.
    unsafe { (libcrypto.ERR_set_error)(core::ERR_LIB_PROV, reason, format, text.as_ptr()) };
}

/// Leaves an error of the reasons that providers have in common (`PROV_R_*`).
pub(crate) fn raise(libcrypto: &Libcrypto, reason: c_int) {
    begin(libcrypto);
    // SAFETY: no format needs no arguments.
    unsafe { (libcrypto.ERR_set_error)(core::ERR_LIB_PROV, reason, ptr::null()) };
}

/// Begins an error of ours.
fn begin(libcrypto: &Libcrypto) {
    const FILE: &CStr = c"widelane";
    // SAFETY: no arguments.
    unsafe { (libcrypto.ERR_new)() };
    // SAFETY: constants.
    unsafe { (libcrypto.ERR_set_debug)(FILE.as_ptr(), 0, FILE.as_ptr()) };
}

#[cfg(test)]
pub(crate) mod tests {
    use openssl::error::ErrorStack;

    use super::*;

    /// The libcrypto that tests are linked with.
    pub(crate) fn libcrypto_of_tests() -> Libcrypto {
        // SAFETY: a function of libcrypto; only its type is forgotten.
        let function = unsafe {
            std::mem::transmute::<*const (), unsafe extern "C" fn()>(
                openssl_sys::ERR_get_error as *const (),
            )
        };
        Libcrypto::of_caller(function).expect("tests link libcrypto")
    }

    #[test]
    fn errors_have_the_texts_that_they_were_given() {
        let libcrypto = libcrypto_of_tests();
        raise_text(&libcrypto, "no %s at 100 %");
        raise(&libcrypto, core::PROV_R_INVALID_KEY);
        let left = ErrorStack::get();
        let texts = left.errors().iter().map(|error| error.data());
        assert!(texts.eq([Some("no %s at 100 %"), None]));
    }
}
