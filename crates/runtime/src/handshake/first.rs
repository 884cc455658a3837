//! Functions that read or write, called for a connection that still handshakes.
//!
//! In these libssl handshakes first, and some programs leave it at that: lighttpd and mosquitto
//! never call `SSL_accept` or `SSL_do_handshake`. So the handshake is driven here, as it is by
//! those, and the function itself is called once nothing is left of it. Until then the function
//! fails as libssl's own does: with the result, the error and the error queue of the handshake.

use core::ffi::c_void;
use core::ptr;
use std::sync::Arc;

use super::{State, advance, find, take_in, told_elsewhere};
use crate::event_loop::EventLoop;
use crate::interpose::uncancelled;
use crate::provider::provider;
use crate::real::{self, OpenSsl};

/// Drives the handshake of `ssl` for a function that reads or writes: `None` if the function must
/// fail for now, otherwise it may go on.
pub(crate) fn handshake_first(ssl: *mut c_void) -> Option<()> {
    let (Some(hooks), Some(openssl)) = (provider(), real::openssl()) else { return Some(()) };
    let known = find(ssl);
    let is_suspended = known.is_some_and(|handshake| handshake.state() != State::Idle);
    if !is_suspended && !begins_with_handshake(openssl, ssl) {
        return Some(());
    }
    let driven = |event_loop: &EventLoop| {
        if event_loop.is_on_fibre() {
            // A callback of the program uses the connection that it was called for, or another one.
            let is_its_own = known.is_some_and(|handshake| handshake.is_on(event_loop));
            return (is_its_own || !is_suspended).then_some(());
        }
        let Some(handshake) = known.or_else(|| take_in(hooks, event_loop, ssl)) else {
            return Some(());
        };
        let call = handshake.begun.get();
        if !Arc::ptr_eq(&handshake.owner, event_loop.mailbox()) {
            let told = told_elsewhere(handshake, call);
            return told.is_none_or(|result| call.is_done(result)).then_some(());
        }
        // Its own callback, on no fibre.
        if handshake.state() == State::Running {
            return Some(());
        }
        // `SSL_write_early_data` writes by `SSL_write_ex`, and does not wait for the handshake.
        if !is_suspended && handshake.has_read_early_data.get() {
            return Some(());
        }
        if (openssl.SSL_in_before)(ssl) == 0 {
            return call.is_done(advance(hooks, event_loop, handshake, call)).then_some(());
        }
        (openssl.ERR_set_mark)();
        let result = advance(hooks, event_loop, handshake, call);
        if (openssl.SSL_in_before)(ssl) == 0 {
            // libssl has emptied the queue, and with it the mark.
            return call.is_done(result).then_some(());
        }
        // It has not been set whether to accept or to connect; libssl's function returns the error.
        (openssl.ERR_pop_to_mark)();
        Some(())
    };
    uncancelled(|| EventLoop::with(driven)).flatten()
}

/// Whether libssl handshakes before it reads or writes.
///
/// In a later handshake, data may come in between; and after a close_notify was sent or received,
/// libssl returns just that.
fn begins_with_handshake(openssl: &OpenSsl, ssl: *mut c_void) -> bool {
    (openssl.SSL_in_init)(ssl) != 0
        && (openssl.SSL_get_shutdown)(ssl) == 0
        && is_first(openssl, ssl)
}

/// Whether the connection's first handshake is not over.
pub(super) fn is_first(openssl: &OpenSsl, ssl: *const c_void) -> bool {
    let is_finished = |bytes: extern "C" fn(*const c_void, *mut c_void, usize) -> usize| {
        bytes(ssl, ptr::null_mut(), 0) > 0
    };
    !(is_finished(openssl.SSL_get_finished) && is_finished(openssl.SSL_get_peer_finished))
}
