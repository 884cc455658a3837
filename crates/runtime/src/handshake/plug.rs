//! A connection whose peer is not heard for a while.

use core::ffi::{c_int, c_void};

use super::{Handshake, find};
use crate::provider::provider;
use crate::real::OpenSsl;

const BIO_FLAGS_READ: c_int = 1;
const BIO_FLAGS_WRITE: c_int = 2;
const BIO_FLAGS_SPECIAL: c_int = 4;
const BIO_FLAGS_SHOULD_RETRY: c_int = 8;

/// Stands in for the BIO from which a connection reads: it never has anything yet.
pub(super) struct Plug<'h> {
    handshake: &'h Handshake,
    read: *mut c_void,
}

impl<'h> Plug<'h> {
    /// Puts one in, if memory allows.
    pub(super) fn insert(openssl: &OpenSsl, handshake: &'h Handshake) -> Option<Self> {
        let read = (openssl.SSL_get_rbio)(handshake.ssl);
        // Empty memory says to call again later.
        let empty = (openssl.BIO_new)((openssl.BIO_s_mem)());
        if read.is_null() || empty.is_null() {
            return None;
        }
        (openssl.BIO_up_ref)(read);
        (openssl.SSL_set0_rbio)(handshake.ssl, empty);
        handshake.is_plugged.set(true);
        Some(Self { handshake, read })
    }

    /// Takes it out. If the connection waits for its peer, the BIO behind says so from now on: that
    /// is where `SSL_get_error` looks.
    pub(super) fn remove(self, openssl: &OpenSsl, waits_for_peer: bool) {
        self.handshake.is_plugged.set(false);
        (openssl.SSL_set0_rbio)(self.handshake.ssl, self.read);
        if waits_for_peer {
            let all = BIO_FLAGS_READ | BIO_FLAGS_WRITE | BIO_FLAGS_SPECIAL | BIO_FLAGS_SHOULD_RETRY;
            (openssl.BIO_clear_flags)(self.read, all);
            (openssl.BIO_set_flags)(self.read, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY);
        }
    }
}

/// The socket behind, where something stands in for it: callbacks of the program are to see it.
pub(crate) fn descriptor_behind(ssl: *const c_void) -> Option<c_int> {
    provider()?;
    let handshake = find(ssl.cast_mut())?;
    handshake.is_plugged.get().then_some(handshake.descriptor)
}
