//! Doors in front of libssl: creation of contexts, handshakes, and what may meet one suspended.
#![allow(unsafe_code, reason = "exported symbols")]
#![allow(non_snake_case, reason = "the names of OpenSSL")]

use core::ffi::{c_char, c_int, c_void};

use super::{guard, guard_uncancelled};
use crate::activate::{configure, with_preference, without_idle_exclusion};
use crate::cork::{self, release};
use crate::foreign;
use crate::groups;
use crate::handshake::{self, Call};
use crate::interpreters;
use crate::methods;
use crate::real::{self, CertificateCallback, next_functions};
use crate::transfer;

#[unsafe(no_mangle)]
extern "C-unwind" fn SSL_CTX_new(method: *const c_void) -> *mut c_void {
    guard_uncancelled((), foreign::keep_apart);
    if let Some(function) =
        guard_uncancelled(None, || foreign::function_beside(method, c"SSL_CTX_new"))
    {
        return real::call_context_maker(function, method);
    }
    guard_uncancelled((), configure);
    let made = methods::within_libssl(|| real::SSL_CTX_new(method));
    guard_uncancelled((), || groups::prefer(made));
    made
}

#[unsafe(no_mangle)]
extern "C-unwind" fn SSL_CTX_new_ex(
    context: *mut c_void,
    properties: *const c_char,
    method: *const c_void,
) -> *mut c_void {
    guard_uncancelled((), configure);
    let instead = guard_uncancelled(None, || {
        without_idle_exclusion(properties).filter(|_| context.is_null())
    });
    let properties = instead.as_ref().map_or(properties, |instead| instead.as_ptr());
    let made = methods::within_libssl(|| real::SSL_CTX_new_ex(context, properties, method));
    // In another context of libraries there is no provider of ours.
    if context.is_null() {
        guard_uncancelled((), || groups::prefer(made));
    }
    made
}

#[unsafe(no_mangle)]
extern "C-unwind" fn SSL_CTX_use_PrivateKey(context: *mut c_void, key: *mut c_void) -> c_int {
    let used = real::SSL_CTX_use_PrivateKey(context, key);
    if used == 1 {
        guard_uncancelled((), || transfer::make_known(key));
    }
    used
}

#[unsafe(no_mangle)]
extern "C-unwind" fn SSL_CTX_use_PrivateKey_file(
    context: *mut c_void,
    file: *const c_char,
    format: c_int,
) -> c_int {
    let used = real::SSL_CTX_use_PrivateKey_file(context, file, format);
    if used == 1 {
        guard_uncancelled((), || transfer::make_own_known(context));
    }
    used
}

/// Notes that the program chooses certificates by a callback.
#[unsafe(no_mangle)]
extern "C-unwind" fn SSL_CTX_set_cert_cb(
    context: *mut c_void,
    callback: CertificateCallback,
    argument: *mut c_void,
) {
    interpreters::note_callback(callback);
    real::SSL_CTX_set_cert_cb(context, callback, argument);
}

/// As [`SSL_CTX_set_cert_cb`], of one connection.
#[unsafe(no_mangle)]
extern "C-unwind" fn SSL_set_cert_cb(
    ssl: *mut c_void,
    callback: CertificateCallback,
    argument: *mut c_void,
) {
    interpreters::note_callback(callback);
    real::SSL_set_cert_cb(ssl, callback, argument);
}

/// Keeps the preference for our provider where the program sets properties for the default context.
#[unsafe(no_mangle)]
extern "C-unwind" fn EVP_set_default_properties(
    context: *mut c_void,
    properties: *const c_char,
) -> c_int {
    let merged =
        guard_uncancelled(None, || with_preference(properties).filter(|_| context.is_null()));
    let properties = merged.as_ref().map_or(properties, |merged| merged.as_ptr());
    let result = real::EVP_set_default_properties(context, properties);
    methods::forget();
    result
}

#[unsafe(no_mangle)]
extern "C-unwind" fn SSL_do_handshake(ssl: *mut c_void) -> c_int {
    handshake::drive(ssl, Call::DoHandshake)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn SSL_accept(ssl: *mut c_void) -> c_int {
    handshake::drive(ssl, Call::Accept)
}

/// Takes whatever its handshake waits for as the end of the connection.
#[unsafe(no_mangle)]
extern "C-unwind" fn SSL_stateless(ssl: *mut c_void) -> c_int {
    guard((), || handshake::leave_alone(ssl));
    real::SSL_stateless(ssl)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn SSL_read_early_data(
    ssl: *mut c_void,
    buffer: *mut c_void,
    bytes: usize,
    done: *mut usize,
) -> c_int {
    handshake::drive(ssl, Call::ReadEarlyData { buffer, bytes, done })
}

#[unsafe(no_mangle)]
extern "C-unwind" fn SSL_get_error(ssl: *const c_void, result: c_int) -> c_int {
    if result <= 0
        && let Some(error) = guard(None, || handshake::error_of_suspended(ssl))
    {
        return error;
    }
    real::SSL_get_error(ssl, result)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn SSL_want(ssl: *const c_void) -> c_int {
    guard(None, || handshake::want_of_suspended(ssl)).unwrap_or_else(|| real::SSL_want(ssl))
}

/// A callback may ask for the socket while its handshake goes on without the program.
#[unsafe(no_mangle)]
extern "C-unwind" fn SSL_get_fd(ssl: *const c_void) -> c_int {
    guard(None, || handshake::descriptor_behind(ssl)).unwrap_or_else(|| real::SSL_get_fd(ssl))
}

#[unsafe(no_mangle)]
extern "C-unwind" fn SSL_get_rfd(ssl: *const c_void) -> c_int {
    guard(None, || handshake::descriptor_behind(ssl)).unwrap_or_else(|| real::SSL_get_rfd(ssl))
}

#[unsafe(no_mangle)]
extern "C-unwind" fn SSL_free(ssl: *mut c_void) {
    if ssl.is_null() || guard(true, || handshake::abandon_before_free(ssl)) {
        real::SSL_free(ssl);
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn SSL_up_ref(ssl: *mut c_void) -> c_int {
    let done = real::SSL_up_ref(ssl);
    if done == 1 {
        guard((), || handshake::add_reference(ssl));
    }
    done
}

#[unsafe(no_mangle)]
extern "C-unwind" fn SSL_shutdown(ssl: *mut c_void) -> c_int {
    guard((), || handshake::hold_goodbye(ssl));
    let result = real::SSL_shutdown(ssl);
    cork::hold_no_more();
    result
}

#[unsafe(no_mangle)]
extern "C-unwind" fn SSL_clear(ssl: *mut c_void) -> c_int {
    if !ssl.is_null() && !guard(true, || handshake::abandon_before_clear(ssl)) {
        return 0;
    }
    real::SSL_clear(ssl)
}

macro_rules! data_functions {
    ($(
        fn $name:ident($($argument:ident: $type:ty),*), or $failure:expr $(, then $after:path)?;
    )*) => {
        pub(crate) mod data {
            use super::*;

            next_functions! {
                $(fn $name(ssl: *mut c_void, $($argument: $type),*) -> c_int, or $failure;)*
            }
        }

        $(
            #[unsafe(no_mangle)]
            extern "C-unwind" fn $name(ssl: *mut c_void, $($argument: $type),*) -> c_int {
                if guard(None, || handshake::handshake_first(ssl)).is_none() {
                    return $failure;
                }
                let result = methods::within_libssl(|| real::$name(ssl, $($argument),*));
                $(guard((), || $after(ssl));)?
                result
            }
        )*
    };
}

data_functions! {
    fn SSL_peek(buffer: *mut c_void, bytes: c_int), or -1;
    fn SSL_peek_ex(buffer: *mut c_void, bytes: usize, done: *mut usize), or 0;
    fn SSL_read(buffer: *mut c_void, bytes: c_int), or -1;
    fn SSL_read_ex(buffer: *mut c_void, bytes: usize, done: *mut usize), or 0;
    fn SSL_write(buffer: *const c_void, bytes: c_int), or -1, then release;
    fn SSL_write_ex(buffer: *const c_void, bytes: usize, done: *mut usize), or 0, then release;
    fn SSL_write_ex2(
        buffer: *const c_void, bytes: usize, flags: u64, done: *mut usize
    ), or 0, then release;
}
