//! A door in front of libcrypto's wiping. Its own writes eight bytes at a time, and every handshake
//! ends with a buffer of 20 KiB wiped.
#![allow(unsafe_code, reason = "exported symbols")]
#![allow(non_snake_case, reason = "the names of OpenSSL")]

use core::ffi::c_void;

#[unsafe(no_mangle)]
extern "C" fn OPENSSL_cleanse(memory: *mut c_void, bytes: usize) {
    // SAFETY: the caller's memory, of this length.
    unsafe { libc::explicit_bzero(memory, bytes) };
}
