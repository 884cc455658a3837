//! Doors in front of libcrypto's look-ups of algorithms by name, and of what changes their results.
//!
//! A handshake looks up some forty algorithms by name, each under several locks that all threads
//! share. On a handshake's fibre they are answered from what this thread has found before
//! ([`crate::methods`]).
#![allow(unsafe_code, reason = "exported symbols")]
#![allow(non_snake_case, reason = "the names of OpenSSL")]

use core::ffi::{c_char, c_int, c_ulong, c_void};

use super::guard;
use crate::methods::{self, Operation};
use crate::real;

macro_rules! fetch_functions {
    ($($name:ident: $operation:ident;)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name(
                context: *mut c_void,
                name: *const c_char,
                properties: *const c_char,
            ) -> *mut c_void {
                let fetch = || real::$name(context, name, properties);
                let known = guard(None, || {
                    methods::fetch(Operation::$operation, context, name, properties, fetch)
                });
                known.unwrap_or_else(fetch)
            }
        )*
    };
}

fetch_functions! {
    EVP_ASYM_CIPHER_fetch: AsymCipher;
    EVP_CIPHER_fetch: Cipher;
    EVP_KDF_fetch: Kdf;
    EVP_KEM_fetch: Kem;
    EVP_KEYEXCH_fetch: KeyExchange;
    EVP_KEYMGMT_fetch: KeyManagement;
    EVP_MAC_fetch: Mac;
    EVP_MD_fetch: Digest;
    EVP_SIGNATURE_fetch: Signature;
}

macro_rules! changes {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name($($argument: $type),*) $(-> $result)? {
                let result = real::$name($($argument),*);
                methods::forget();
                result
            }
        )*
    };
}

changes! {
    fn CONF_modules_finish();
    fn CONF_modules_load(
        configuration: *const c_void, program: *const c_char, flags: c_ulong
    ) -> c_int;
    fn CONF_modules_load_file(
        file: *const c_char, program: *const c_char, flags: c_ulong
    ) -> c_int;
    fn CONF_modules_load_file_ex(
        context: *mut c_void, file: *const c_char, program: *const c_char, flags: c_ulong
    ) -> c_int;
    fn CONF_modules_unload(all: c_int);
    fn EVP_default_properties_enable_fips(context: *mut c_void, enable: c_int) -> c_int;
    fn OSSL_LIB_CTX_load_config(context: *mut c_void, file: *const c_char) -> c_int;
    fn OSSL_PROVIDER_load(context: *mut c_void, name: *const c_char) -> *mut c_void;
    fn OSSL_PROVIDER_load_ex(
        context: *mut c_void, name: *const c_char, parameters: *mut c_void
    ) -> *mut c_void;
    fn OSSL_PROVIDER_self_test(provider: *const c_void) -> c_int;
    fn OSSL_PROVIDER_try_load(
        context: *mut c_void, name: *const c_char, retain: c_int
    ) -> *mut c_void;
    fn OSSL_PROVIDER_try_load_ex(
        context: *mut c_void, name: *const c_char, parameters: *mut c_void, retain: c_int
    ) -> *mut c_void;
    fn OSSL_PROVIDER_unload(provider: *mut c_void) -> c_int;
}
