//! Connections whose handshakes are never suspended.

use core::ffi::{c_int, c_void};
use core::ptr;

use crate::extra_data::{Index, OF_CONNECTIONS};
use crate::real::{self, OpenSsl};

const BIO_TYPE_SSL: c_int = 0x0207;

/// Called when `bio` is about to get something: if that is a connection, it is left alone.
pub(crate) fn leave_alone_within(bio: *const c_void, ssl: *mut c_void) {
    let Some(openssl) = real::openssl() else { return };
    if bio.is_null() || ssl.is_null() || (openssl.BIO_method_type)(bio) != BIO_TYPE_SSL {
        return;
    }
    leave_alone(ssl);
}

/// Has the handshake of `ssl` never suspended from now on.
pub(crate) fn leave_alone(ssl: *mut c_void) {
    let Some(openssl) = real::openssl() else { return };
    if !ssl.is_null()
        && let Some(index) = PLACE.get(openssl)
    {
        (openssl.SSL_set_ex_data)(ssl, index, MARK);
    }
}

/// Whether the handshake of `ssl` is not to be suspended.
pub(super) fn is_left_alone(openssl: &OpenSsl, ssl: *const c_void) -> bool {
    PLACE.get(openssl).is_none_or(|index| !(openssl.SSL_get_ex_data)(ssl, index).is_null())
}

const MARK: *mut c_void = ptr::without_provenance_mut(1);

/// Where connections have their mark.
static PLACE: Index = Index::new(OF_CONNECTIONS);
