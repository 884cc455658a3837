//! Errors that we leave on libcrypto's queue, and words on standard error.
#![allow(unsafe_code, reason = "calls libcrypto")]

use std::ffi::{CStr, CString, c_char, c_int};
use std::io::Write;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use widelane_crypto::has_unlocked_keys;
use widelane_ossl_sys::Libcrypto;
use widelane_ossl_sys::core;

/// Says a line on standard error. It may be closed, or a log on a full disk: that is no reason to
/// fail, as `eprintln!` would.
pub(crate) fn say(line: &str) {
    let _ = std::io::stderr().write_all(format!("widelane: {line}\n").as_bytes());
}

/// What is said once per server.
#[derive(Clone, Copy)]
pub(crate) enum Once {
    NoCounters = 1 << 0,
    UnlockedKeys = 1 << 1,
}

/// What has been said, in memory that is shared with processes forked from this one: a server that
/// forks one for each connection says a line once, not at each connection.
static SAID: OnceLock<&'static AtomicU32> = OnceLock::new();

/// The same where there is no such memory.
static SAID_BY_PROCESS: AtomicU32 = AtomicU32::new(0);

/// Makes the shared memory; before the program forks.
pub(crate) fn share() {
    // SAFETY: an atomic number.
    SAID.get_or_init(|| unsafe { widelane_reserve::shared() }.unwrap_or(&SAID_BY_PROCESS));
}

/// Says a line, unless this server has said it before.
pub(crate) fn say_once(once: Once, line: &str) {
    let said = SAID.get().copied().unwrap_or(&SAID_BY_PROCESS);
    if said.fetch_or(once as u32, Ordering::Relaxed) & once as u32 == 0 {
        say(line);
    }
}

/// Tells the operator if private keys are not locked in memory.
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
