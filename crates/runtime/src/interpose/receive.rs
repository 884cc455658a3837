//! A door in front of `recv`: from which socket a handshake hears its peer.
#![allow(unsafe_code, reason = "an exported symbol")]

use core::ffi::{c_int, c_void};

use super::guard;
use crate::handshake;
use crate::real;

#[unsafe(no_mangle)]
extern "C-unwind" fn recv(
    descriptor: c_int,
    buffer: *mut c_void,
    bytes: usize,
    flags: c_int,
) -> isize {
    guard((), || handshake::receives(descriptor));
    real::recv(descriptor, buffer, bytes, flags)
}
