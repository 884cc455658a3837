//! Doors in front of `recv` and `send`: from which socket a handshake receives, and which packets
//! wait for the next one.
#![allow(unsafe_code, reason = "exported symbols")]

use core::ffi::{c_int, c_void};

use super::guard;
use crate::cork;
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

#[unsafe(no_mangle)]
extern "C-unwind" fn send(
    descriptor: c_int,
    buffer: *const c_void,
    bytes: usize,
    flags: c_int,
) -> isize {
    let flags = guard(flags, || cork::flags_of_send(descriptor, flags));
    real::send(descriptor, buffer, bytes, flags)
}
