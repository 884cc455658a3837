//! Which new sessions a program has to store.
//!
//! A TLS 1.3 session is in the ticket that the client gets, and libssl never asks the program for
//! it; still it calls the program for each ticket, "because some applications just want to know".
//! HAProxy encodes and stores every one, in a tree that all its threads share and that never fits
//! into a cache: 5 µs of a handshake, for entries that are never looked up. nginx leaves them out
//! by itself, by the test that is used here. HAProxy on AWS-LC is not called at all.
#![allow(unsafe_code, reason = "calls of and by libssl, with a function of the program's")]

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};
use core::{mem, ptr};

use crate::handshake::Notified;
use crate::provider::is_switched_off;
use crate::real::{self, OpenSsl, TLS1_3_VERSION};

/// What libssl calls for a new session; it keeps a reference if it returns 1.
pub(crate) type NewSession = extern "C-unwind" fn(ssl: *mut c_void, session: *mut c_void) -> c_int;

const SSL_OP_NO_TICKET: u64 = 1 << 14;
const SSL_OP_NO_ANTI_REPLAY: u64 = 1 << 24;

/// The program's functions, each called by the function of the same place in [`FUNCTIONS`].
static STORES: [AtomicPtr<c_void>; 2] = [const { AtomicPtr::new(ptr::null_mut()) }; 2];

/// HAProxy has one function for its clients and one for its servers.
const FUNCTIONS: [NewSession; 2] = [store::<0>, store::<1>];

/// The function to register in place of a program's.
pub(crate) fn instead_of(new_session: NewSession) -> NewSession {
    let address = new_session as *mut c_void;
    let place = STORES.iter().position(|place| {
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        match place.compare_exchange(ptr::null_mut(), address, success, failure) {
            Ok(_) => true,
            Err(known) => ptr::eq(known, address),
        }
    });
    place.map_or(new_session, |place| FUNCTIONS[place])
}

/// The program's function that a registered one stands for.
pub(crate) fn stands_for(registered: NewSession) -> NewSession {
    let is_registered = |ours: &NewSession| ptr::fn_addr_eq(*ours, registered);
    FUNCTIONS.iter().position(is_registered).and_then(function_at).unwrap_or(registered)
}

/// The program's function in this place, if there is one.
fn function_at(place: usize) -> Option<NewSession> {
    let address = STORES[place].load(Ordering::Relaxed);
    // SAFETY: null, or a function of the program's of this type (`instead_of`).
    unsafe { mem::transmute::<*mut c_void, Option<NewSession>>(address) }
}

extern "C-unwind" fn store<const PLACE: usize>(ssl: *mut c_void, session: *mut c_void) -> c_int {
    let is_needless = real::openssl().is_some_and(|openssl| is_needless(openssl, ssl));
    match function_at(PLACE) {
        Some(store) if !is_needless => store(ssl, session),
        _ => 0,
    }
}

/// Whether the program stores a session which libssl will never ask it for: that of a ticket which
/// says all.
fn is_needless(openssl: &OpenSsl, ssl: *mut c_void) -> bool {
    let options = (openssl.SSL_get_options)(ssl);
    let is_replay_refused =
        (openssl.SSL_get_max_early_data)(ssl) > 0 && options & SSL_OP_NO_ANTI_REPLAY == 0;
    !is_switched_off()
        && (openssl.SSL_is_server)(ssl) != 0
        && (openssl.SSL_version)(ssl) == TLS1_3_VERSION
        && options & SSL_OP_NO_TICKET == 0
        && !is_replay_refused
        && Notified::is_haproxy(openssl, ssl)
}
