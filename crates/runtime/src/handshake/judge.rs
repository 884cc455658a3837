//! The program's callback that judges certificates of clients, and ours in its place.
//!
//! libssl has a client's chain verified in a state in which it calls the program, too, with each of
//! the certificates. A callback may hold locks of the program, so it must not be left, whatever it
//! verifies itself. So from the server's own flight to the end of its handshake a callback of ours
//! stands in the place of the program's, calls that, and tells when it runs. What libcrypto
//! verifies while it does not may park.
//!
//! A connection may be freed while a signature of its chain waits. Its program does not hear of
//! such certificates any more: they are refused.
#![allow(unsafe_code, reason = "a callback of libssl's, and the program's")]

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};

use super::{Handshake, find};
use crate::real::{self, JudgeCallback, OpenSsl};

/// Whether the program verifies whole chains by a callback, for whatever connection: there is no
/// telling when that is libcrypto's turn.
static VERIFIES_BY_ITSELF: AtomicBool = AtomicBool::new(false);

const SSL_VERIFY_PEER: c_int = 1;

/// Called when the program sets a callback that verifies whole chains.
pub(crate) fn note_verifier(callback: *const c_void) {
    if !callback.is_null() {
        VERIFIES_BY_ITSELF.store(true, Ordering::Relaxed);
    }
}

impl Handshake {
    /// Puts ours in the place of the program's callback, if there is one and it is to be called.
    pub(super) fn take_place_of_judge(&self, openssl: &OpenSsl) {
        let mode = (openssl.SSL_get_verify_mode)(self.ssl);
        if mode & SSL_VERIFY_PEER == 0 || self.judge.get().is_some() {
            return;
        }
        if let Some(callback) = (openssl.SSL_get_verify_callback)(self.ssl) {
            self.judge.set(Some(callback));
            (openssl.SSL_set_verify)(self.ssl, mode, Some(judge));
        }
    }

    /// Gives the program's callback its place back.
    pub(super) fn give_back_place_of_judge(&self, openssl: &OpenSsl) {
        if let Some(callback) = self.judge.take()
            && is_ours((openssl.SSL_get_verify_callback)(self.ssl))
        {
            let mode = (openssl.SSL_get_verify_mode)(self.ssl);
            (openssl.SSL_set_verify)(self.ssl, mode, Some(callback));
        }
    }

    /// Whether libcrypto verifies a chain, and no callback of the program's runs.
    pub(super) fn is_between_judgements(&self, openssl: &OpenSsl) -> bool {
        !VERIFIES_BY_ITSELF.load(Ordering::Relaxed)
            && self.judge.get().is_some()
            && is_ours((openssl.SSL_get_verify_callback)(self.ssl))
            && !self.is_being_judged.get()
    }
}

fn is_ours(callback: JudgeCallback) -> bool {
    callback.is_some_and(|callback| ptr::eq(callback as *const (), judge as *const ()))
}

/// The handshake whose chain this is.
fn handshake_of(chain: *const c_void) -> Option<&'static Handshake> {
    let openssl = real::openssl()?;
    let index = (openssl.SSL_get_ex_data_X509_STORE_CTX_idx)();
    let ssl = (openssl.X509_STORE_CTX_get_ex_data)(chain, index);
    if ssl.is_null() { None } else { find(ssl) }
}

/// What libssl calls in place of the program's callback, which may throw: nothing of ours is around
/// it.
unsafe extern "C-unwind" fn judge(is_good: c_int, chain: *mut c_void) -> c_int {
    const REFUSED: c_int = 0;
    let Some(handshake) = handshake_of(chain) else { return REFUSED };
    let Some(callback) = handshake.judge.get().filter(|_| handshake.may_park.get()) else {
        return REFUSED;
    };
    handshake.is_being_judged.set(true);
    // SAFETY: the program's own callback, with what libssl calls it with.
    let judged = unsafe { callback(is_good, chain) };
    handshake.is_being_judged.set(false);
    judged
}
