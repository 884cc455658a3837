//! Connections that have several owners, each of which frees them: the last one ends a handshake.
//!
//! libssl does not tell how many there are, so they are counted. Before its handshake begins a
//! connection has the number itself where [`Handshake`]s are kept, and again behind its end.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::Ordering;

use super::{Handshake, extra_data_index, find};
use crate::provider::provider;
use crate::real;

/// Called when there is another reference to `ssl`.
pub(crate) fn add_reference(ssl: *mut c_void) {
    let Some(openssl) = provider().and_then(|_| real::openssl()) else { return };
    if let Some(handshake) = find(ssl) {
        handshake.references.fetch_add(1, Ordering::Relaxed);
    } else if (openssl.SSL_in_before)(ssl) != 0 && (openssl.SSL_is_server)(ssl) != 0 {
        change(ssl, |count| count.checked_add(1));
    }
}

/// Called when a reference to `ssl`, which has no handshake, is given back.
pub(super) fn take_reference(ssl: *mut c_void) {
    change(ssl, |count| count.checked_sub(1));
}

impl Handshake {
    /// Whether there are further references: one less from now on.
    pub(super) fn take_reference(&self) -> bool {
        let (set, fetch) = (Ordering::AcqRel, Ordering::Relaxed);
        self.references.fetch_update(set, fetch, |count| count.checked_sub(1)).is_ok()
    }
}

/// Changes the number of a connection without a handshake, if it can be changed like that.
fn change(ssl: *mut c_void, new: impl Fn(usize) -> Option<usize>) {
    let Some(openssl) = provider().and_then(|_| real::openssl()) else { return };
    let Some(index) = extra_data_index(openssl) else { return };
    let count = count_of((openssl.SSL_get_ex_data)(ssl, index));
    if let Some(new) = new(count) {
        // Error: there is no memory for it.
        (openssl.SSL_set_ex_data)(ssl, index, as_count(new));
    }
}

/// A number of references where a [`Handshake`] would be, whose address is even.
pub(super) fn as_count(references: usize) -> *mut c_void {
    match references {
        0 => ptr::null_mut(),
        _ => ptr::without_provenance_mut(references << 1 | 1),
    }
}

/// The number that this is, or zero.
pub(super) fn count_of(kept: *mut c_void) -> usize {
    if kept.addr() & 1 == 1 { kept.addr() >> 1 } else { 0 }
}
