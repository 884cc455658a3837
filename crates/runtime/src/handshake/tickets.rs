//! The session tickets of TLS 1.3, which leave together.

use core::ffi::{CStr, c_int, c_void};

use super::Handshake;
use crate::event_loop::EventLoop;
use crate::real;

const TLS1_3_VERSION: c_int = 0x0304;

/// The short name of libssl's state in which it writes a ticket.
const WRITES_TICKET: &CStr = c"TWST";

/// Called when `bio` is to be flushed: whether that is for a ticket of the handshake whose fibre is
/// running, and another ticket follows at once, whose flush sends both.
pub(crate) fn has_more_tickets(bio: *mut c_void) -> bool {
    EventLoop::with(|event_loop| {
        event_loop.on_fibre().is_some_and(|handshake| handshake.has_more_tickets(bio))
    })
    .unwrap_or(false)
}

impl Handshake {
    fn has_more_tickets(&self, bio: *mut c_void) -> bool {
        let Some(openssl) = real::openssl() else { return false };
        let ssl = self.ssl;
        // SAFETY: libssl's names of states are constants.
        let state = unsafe { CStr::from_ptr((openssl.SSL_state_string)(ssl)) };
        // Libssl's own buffer, and no BIO of a callback of the program.
        let is_buffer = || (openssl.BIO_next)(bio) == (openssl.SSL_get_wbio)(ssl);
        if state != WRITES_TICKET
            || (openssl.SSL_version)(ssl) != TLS1_3_VERSION
            || !is_buffer()
            // A resumed handshake is followed by one ticket.
            || (openssl.SSL_session_reused)(ssl) != 0
        {
            return false;
        }
        let written = self.tickets.get() + 1;
        let has_more = written < (openssl.SSL_get_num_tickets)(ssl);
        if has_more {
            self.tickets.set(written);
        }
        has_more
    }
}
