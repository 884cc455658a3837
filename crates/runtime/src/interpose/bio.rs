//! A door in front of libcrypto's `BIO_ctrl`, by which libssl sends what it has written, and a BIO
//! gets a connection.
//!
//! In TLS 1.3 libssl writes two session tickets behind each full handshake and sends each by
//! itself: two system calls, two packets, and a client that is woken twice. On a handshake's fibre
//! all tickets leave together.
//!
//! A BIO that has a connection reads and writes by functions within libssl that no door stands in
//! front of. If its handshake were suspended, these would write data between its messages, under
//! the keys of the moment, or under none. So a connection that gets into a BIO before its handshake
//! is never suspended.
#![allow(unsafe_code, reason = "exported symbols")]
#![allow(non_snake_case, reason = "the names of OpenSSL")]

use core::ffi::{c_int, c_long, c_void};

use super::guard;
use crate::cork;
use crate::handshake;
use crate::real;

const BIO_CTRL_FLUSH: c_int = 11;
const BIO_C_SET_SSL: c_int = 109;

#[unsafe(no_mangle)]
extern "C-unwind" fn BIO_ctrl(
    bio: *mut c_void,
    command: c_int,
    number: c_long,
    argument: *mut c_void,
) -> c_long {
    if command == BIO_C_SET_SSL {
        guard((), || handshake::leave_alone_within(bio, argument));
    }
    if command != BIO_CTRL_FLUSH {
        return real::BIO_ctrl(bio, command, number, argument);
    }
    if guard(false, || handshake::has_more_tickets(bio)) {
        return 1;
    }
    let result = real::BIO_ctrl(bio, command, number, argument);
    cork::hold_no_more();
    result
}
