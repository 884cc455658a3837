//! A BIO that has nothing to read: it stands in for a connection's own for a while.

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::ptr;

use crate::real::OpenSsl;

const BIO_FLAGS_READ: c_int = 1;
const BIO_FLAGS_WRITE: c_int = 2;
const BIO_FLAGS_SPECIAL: c_int = 4;
const BIO_FLAGS_SHOULD_RETRY: c_int = 8;

/// Stands in for the BIO from which a connection reads: it never has anything yet.
pub(super) struct EmptyInput {
    ssl: *mut c_void,
    read: *mut c_void,
    former: Emptied,
}

/// A connection with an empty input, and its socket.
type Emptied = (*const c_void, c_int);

thread_local! {
    /// The one to which this thread has given one last.
    static EMPTIED: Cell<Emptied> = const { Cell::new((ptr::null(), -1)) };
}

impl EmptyInput {
    /// Puts one in, if memory allows.
    pub(super) fn insert(openssl: &OpenSsl, ssl: *mut c_void, descriptor: c_int) -> Option<Self> {
        let read = (openssl.SSL_get_rbio)(ssl);
        if read.is_null() {
            return None;
        }
        // Empty memory says to call again later.
        let empty = (openssl.BIO_new)((openssl.BIO_s_mem)());
        if empty.is_null() {
            return None;
        }
        (openssl.BIO_up_ref)(read);
        (openssl.SSL_set0_rbio)(ssl, empty);
        let former = EMPTIED.replace((ssl.cast_const(), descriptor));
        Some(Self { ssl, read, former })
    }

    /// Takes it out. If the connection waits for its peer, the BIO behind says so from now on: that
    /// is where `SSL_get_error` looks.
    pub(super) fn remove(self, openssl: &OpenSsl, waits_for_peer: bool) {
        EMPTIED.set(self.former);
        (openssl.SSL_set0_rbio)(self.ssl, self.read);
        if waits_for_peer {
            let all = BIO_FLAGS_READ | BIO_FLAGS_WRITE | BIO_FLAGS_SPECIAL | BIO_FLAGS_SHOULD_RETRY;
            (openssl.BIO_clear_flags)(self.read, all);
            (openssl.BIO_set_flags)(self.read, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY);
        }
    }
}

/// Takes note that a connection with an empty input is not gone on with: that ends with it.
pub(super) fn forget(ssl: *const c_void) {
    if ptr::eq(EMPTIED.get().0, ssl) {
        EMPTIED.set((ptr::null(), -1));
    }
}

/// The socket of a connection to which this thread has given an empty input: callbacks of the
/// program see it as always.
pub(crate) fn descriptor_behind(ssl: *const c_void) -> Option<c_int> {
    let (emptied, descriptor) = EMPTIED.get();
    (!ssl.is_null() && ptr::eq(emptied, ssl)).then_some(descriptor)
}
