//! The alert by which a server says that it will send no more, which leaves with the end of the
//! stream.
//!
//! HAProxy hangs up right behind it, and natively that is a packet of its own: the client is woken
//! twice. Other servers' BIOs take no flags, and two system calls more cost as much as the packet
//! (nginx: 117 µs for each handshake either way).

use core::ffi::{c_int, c_void};

use super::Notified;
use crate::cork;
use crate::event_loop::EventLoop;
use crate::provider::{is_switched_off, provider};
use crate::real;

const SSL_SENT_SHUTDOWN: c_int = 1;

/// Called before `SSL_shutdown`: the alert that it sends waits for what the program does next in
/// this turn of its event loop.
pub(crate) fn hold_goodbye(ssl: *mut c_void) {
    let (Some(_), Some(openssl)) = (provider(), real::openssl()) else { return };
    if (openssl.SSL_is_server)(ssl) == 0
        || (openssl.SSL_is_dtls)(ssl) != 0
        || (openssl.SSL_in_init)(ssl) != 0
        || (openssl.SSL_get_quiet_shutdown)(ssl) != 0
        || (openssl.SSL_get_shutdown)(ssl) & SSL_SENT_SHUTDOWN != 0
        || is_switched_off()
    {
        return;
    }
    // Otherwise the turn may never end.
    let has_turns = EventLoop::with(|it| it.has_polled() && !it.is_on_fibre()).unwrap_or(false);
    if has_turns && Notified::is_haproxy(openssl, ssl) {
        cork::hold_next();
    }
}
