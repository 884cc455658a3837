//! Connections whose handshakes are never suspended.

use core::ffi::{c_int, c_void};
use core::ptr;
use std::sync::OnceLock;

use super::{extra_data_index, new_index};
use crate::real::{self, OpenSsl};

const BIO_TYPE_SSL: c_int = 0x0207;

/// Called when `bio` is about to get something: if that is a connection, it is left alone.
pub(crate) fn leave_alone_within(bio: *const c_void, ssl: *mut c_void) {
    let Some(openssl) = real::openssl() else { return };
    if bio.is_null() || ssl.is_null() || (openssl.BIO_method_type)(bio) != BIO_TYPE_SSL {
        return;
    }
    if let Some(index) = mark_index(openssl) {
        (openssl.SSL_set_ex_data)(ssl, index, MARK);
    }
}

/// Whether the handshake of `ssl` is not to be suspended.
pub(super) fn is_left_alone(openssl: &OpenSsl, ssl: *const c_void) -> bool {
    mark_index(openssl).is_none_or(|index| !(openssl.SSL_get_ex_data)(ssl, index).is_null())
}

const MARK: *mut c_void = ptr::without_provenance_mut(1);

/// Where connections have their mark.
fn mark_index(openssl: &OpenSsl) -> Option<c_int> {
    static INDEX: OnceLock<c_int> = OnceLock::new();
    // Behind the low indices, which some programs use without asking.
    extra_data_index(openssl)?;
    let index = *INDEX.get_or_init(|| new_index(openssl, None, None));
    (index >= 0).then_some(index)
}
