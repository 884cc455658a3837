//! The session tickets of TLS 1.3, which leave together, and with the answer where that comes soon.
#![allow(unsafe_code, reason = "a name from libssl")]

use core::ffi::{CStr, c_void};

use super::{Handshake, Notified};
use crate::cork;
use crate::event_loop::on_fibre;
use crate::real::{self, OpenSsl, TLS1_3_VERSION};

/// The short name of libssl's state in which it writes a ticket.
const WRITES_TICKET: &CStr = c"TWST";

/// Called before `bio` is flushed: whether that can be left out, since it is for a ticket of the
/// handshake whose fibre is running, and another ticket follows at once, whose flush sends both.
///
/// The last ticket is flushed, but its packet waits for what the program writes next.
pub(crate) fn has_more_tickets(bio: *mut c_void) -> bool {
    on_fibre(|handshake| handshake.has_more_tickets(bio)).unwrap_or(false)
}

impl Handshake {
    fn has_more_tickets(&self, bio: *mut c_void) -> bool {
        let Some(openssl) = real::openssl() else { return false };
        if !self.writes_ticket(openssl, bio) {
            return false;
        }
        let written = self.tickets.get() + 1;
        // A resumed handshake is followed by one ticket.
        let is_resumed = (openssl.SSL_session_reused)(self.ssl) != 0;
        let has_more =
            self.is_first && !is_resumed && written < (openssl.SSL_get_num_tickets)(self.ssl);
        if has_more {
            self.tickets.set(written);
        } else {
            match self.notified {
                Notified::Asks => cork::hold_next(),
                Notified::ByEvent | Notified::ByPost => cork::hold(self.ssl, self.descriptor),
            }
        }
        has_more
    }

    fn writes_ticket(&self, openssl: &OpenSsl, bio: *mut c_void) -> bool {
        // SAFETY: libssl's names of states are constants.
        let state = unsafe { CStr::from_ptr((openssl.SSL_state_string)(self.ssl)) };
        state == WRITES_TICKET
            && (openssl.SSL_version)(self.ssl) == TLS1_3_VERSION
            // Libssl's own buffer, and no BIO of a callback of the program.
            && (openssl.BIO_next)(bio) == (openssl.SSL_get_wbio)(self.ssl)
    }
}
