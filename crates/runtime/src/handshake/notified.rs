//! How a program is notified that a handshake can go on, and so whether one may be paused at all.
#![allow(unsafe_code, reason = "calls of C, and a name from there")]

use core::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

use crate::real::{self, OpenSsl};
use crate::registry;

/// How a program is notified that a handshake can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notified {
    /// By an event of its non-blocking socket.
    ByEvent,
    /// Not at all, for it asks again by itself: HAProxy, whose BIO hides the socket.
    Asks,
    /// Not at all: QUIC of nginx, where all connections share a socket. The handshake goes on by
    /// itself, in `epoll_wait` or in nginx's call for another one. What it says to the peer it says
    /// by callbacks, which queue frames and post the connection's event; nginx handles posted
    /// events at the end of each turn of its loop, behind `epoll_wait`, and sends what is queued.
    ByPost,
}

/// The BIO by which HAProxy wraps its sockets; it polls for writing by itself when told to.
const HAPROXY_BIO: &CStr = c"ha methods";

/// The BIO that swallows all: what a connection writes there, its program has from callbacks.
const NULL_BIO: &CStr = c"NULL";

impl Notified {
    /// Those for a connection, if its program takes "call again later" for an answer.
    ///
    /// An in-memory BIO has nothing to wait for: its owner would sleep until the peer sends more,
    /// and the peer is waiting for us.
    pub(super) fn of(openssl: &OpenSsl, ssl: *mut c_void, descriptor: c_int) -> Option<Self> {
        if descriptor >= 0 {
            let may_be_told = is_non_blocking(descriptor) && registry::remembers(descriptor);
            return may_be_told.then_some(Self::ByEvent);
        }
        if Self::is_haproxy(openssl, ssl) {
            return Some(Self::Asks);
        }
        let is_quic = is_named(openssl, (openssl.SSL_get_wbio)(ssl), NULL_BIO) && is_nginx();
        // Of early data nginx looks for the keys right after its own call.
        (is_quic && (openssl.SSL_get_max_early_data)(ssl) == 0).then_some(Self::ByPost)
    }

    /// Whether a connection is one of HAProxy's.
    pub(crate) fn is_haproxy(openssl: &OpenSsl, ssl: *mut c_void) -> bool {
        is_named(openssl, (openssl.SSL_get_rbio)(ssl), HAPROXY_BIO)
    }
}

fn is_non_blocking(descriptor: c_int) -> bool {
    // SAFETY: reading the flags of a descriptor has no effect on memory.
    let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFL) };
    flags >= 0 && flags & libc::O_NONBLOCK != 0
}

fn is_named(openssl: &OpenSsl, bio: *mut c_void, expected: &CStr) -> bool {
    if bio.is_null() {
        return false;
    }
    let name = (openssl.BIO_method_name)(bio);
    // SAFETY: the method's name, a C string that lives as long as the method.
    !name.is_null() && unsafe { CStr::from_ptr(name) } == expected
}

/// Whether the program has nginx's queue of posted events.
fn is_nginx() -> bool {
    static IS: OnceLock<bool> = OnceLock::new();
    *IS.get_or_init(|| real::is_defined(c"ngx_posted_events"))
}
