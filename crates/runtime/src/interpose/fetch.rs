//! Doors in front of libcrypto's look-ups of algorithms by name, and of what changes their results.
//!
//! A handshake looks up some forty algorithms by name, each under several locks that all threads
//! share. On a handshake's fibre and within libssl they are answered from what this thread has
//! found before ([`crate::methods`]).
#![allow(unsafe_code, reason = "exported symbols")]
#![allow(non_snake_case, reason = "the names of OpenSSL")]

use core::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_ulong, c_void};
use core::ptr;

use super::{guard, uncancelled};
use crate::methods::{self, NameCallback, Operation, Random};
use crate::random::REQUEST_BYTES_MAX;
use crate::real::{self, next_functions};

macro_rules! fetch_functions {
    ($($name:ident: $operation:ident;)*) => {
        pub(crate) mod look_ups {
            use super::*;

            next_functions! {$(
                fn $name(
                    context: *mut c_void, name: *const c_char, properties: *const c_char
                ) -> *mut c_void, or ptr::null_mut();
            )*}
        }

        $(
            #[unsafe(no_mangle)]
            extern "C-unwind" fn $name(
                context: *mut c_void,
                name: *const c_char,
                properties: *const c_char,
            ) -> *mut c_void {
                let fetch_by = |properties| uncancelled(|| real::$name(context, name, properties));
                let fetch = || fetch_by(properties);
                let operation = Operation::$operation;
                let known = guard(None, || {
                    methods::fetch(operation, context, name, properties, fetch).or_else(|| {
                        methods::fetch_while_off(operation, context, name, properties, fetch_by)
                    })
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

#[unsafe(no_mangle)]
extern "C-unwind" fn RAND_get_rand_method() -> *const c_void {
    guard(None, || methods::random(Random::Method, ptr::null_mut(), real::RAND_get_rand_method))
        .unwrap_or_else(real::RAND_get_rand_method)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn RAND_bytes_ex(
    context: *mut c_void,
    bytes: *mut c_uchar,
    count: usize,
    strength: c_uint,
) -> c_int {
    let draw = |bytes: &mut [u8]| {
        let (first, count) = (bytes.as_mut_ptr(), bytes.len());
        // May read from the kernel.
        uncancelled(|| real::RAND_bytes_ex(context, first, count, strength) == 1)
    };
    if !bytes.is_null() && (1..=REQUEST_BYTES_MAX).contains(&count) && strength == 0 {
        // SAFETY: not null, and as many bytes as the caller says.
        let bytes = unsafe { core::slice::from_raw_parts_mut(bytes, count) };
        if guard(false, || methods::random_bytes(context, bytes, draw)) {
            return 1;
        }
    }
    real::RAND_bytes_ex(context, bytes, count, strength)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn RAND_get0_public(context: *mut c_void) -> *const c_void {
    let get = || uncancelled(|| real::RAND_get0_public(context));
    guard(None, || methods::random(Random::Public, context, get)).unwrap_or_else(get)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn RAND_get0_private(context: *mut c_void) -> *const c_void {
    let get = || uncancelled(|| real::RAND_get0_private(context));
    guard(None, || methods::random(Random::Private, context, get)).unwrap_or_else(get)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn EVP_KEYMGMT_is_a(key_management: *const c_void, name: *const c_char) -> c_int {
    let ask = || real::EVP_KEYMGMT_is_a(key_management, name);
    if key_management.is_null() || name.is_null() {
        return ask();
    }
    // SAFETY: not null, and the caller's C string.
    let text = unsafe { CStr::from_ptr(name) };
    guard(None, || methods::is_a(key_management, text, ask)).unwrap_or_else(ask)
}

/// A new key or context asks for all names of its kind, and libcrypto goes through all names of all
/// algorithms to find them.
#[unsafe(no_mangle)]
extern "C-unwind" fn EVP_KEYMGMT_names_do_all(
    key_management: *const c_void,
    callback: Option<NameCallback>,
    argument: *mut c_void,
) -> c_int {
    let all = |callback, argument| {
        real::EVP_KEYMGMT_names_do_all(key_management, Some(callback), argument)
    };
    match (callback, guard(None, || methods::names(key_management, all))) {
        (Some(callback), Some(names)) => {
            names.iter().filter(|name| !name.is_null()).for_each(|name| callback(*name, argument));
            1
        }
        _ => real::EVP_KEYMGMT_names_do_all(key_management, callback, argument),
    }
}

/// What a new key of a provider asks for several times: another implementation of its kind, in an
/// engine. Libcrypto goes through all engines for that, under a lock for writing.
#[unsafe(no_mangle)]
extern "C-unwind" fn ENGINE_pkey_asn1_find_str(
    engine: *mut *mut c_void,
    name: *const c_char,
    length: c_int,
) -> *const c_void {
    let find = || real::ENGINE_pkey_asn1_find_str(engine, name, length);
    let (false, false, Ok(bytes)) = (engine.is_null(), name.is_null(), usize::try_from(length))
    else {
        return find();
    };
    // SAFETY: not null, and as many bytes as the caller says.
    let text = unsafe { core::slice::from_raw_parts(name.cast(), bytes) };
    let mut found = None;
    let is_known = guard(None, || methods::has_no_engine(text, || !found.insert(find()).is_null()));
    match (found, is_known) {
        (Some(found), _) => found,
        (None, Some(true)) => {
            // SAFETY: where the caller waits for the engine.
            unsafe { engine.write(ptr::null_mut()) };
            ptr::null()
        }
        (None, _) => find(),
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn OPENSSL_thread_stop() {
    real::OPENSSL_thread_stop();
    methods::forget_generators();
}

#[unsafe(no_mangle)]
extern "C-unwind" fn OPENSSL_thread_stop_ex(context: *mut c_void) {
    real::OPENSSL_thread_stop_ex(context);
    methods::forget_generators();
}

macro_rules! changes {
    ($(
        fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty, or $failure:expr)?;
    )*) => {
        pub(crate) mod changing {
            use super::*;

            next_functions! {
                $(fn $name($($argument: $type),*) $(-> $result, or $failure)?;)*
            }
        }

        $(
            #[unsafe(no_mangle)]
            extern "C-unwind" fn $name($($argument: $type),*) $(-> $result)? {
                let result = real::$name($($argument),*);
                methods::forget();
                result
            }
        )*
    };
}

changes! {
    fn ENGINE_register_pkey_asn1_meths(engine: *mut c_void) -> c_int, or 0;
    fn ENGINE_set_default_pkey_asn1_meths(engine: *mut c_void) -> c_int, or 0;
    fn RAND_set0_private(context: *mut c_void, generator: *mut c_void) -> c_int, or 0;
    fn RAND_set0_public(context: *mut c_void, generator: *mut c_void) -> c_int, or 0;
    fn RAND_set_rand_engine(engine: *mut c_void) -> c_int, or 0;
    fn RAND_set_rand_method(method: *const c_void) -> c_int, or 0;
    fn CONF_modules_finish();
    fn CONF_modules_load(
        configuration: *const c_void, program: *const c_char, flags: c_ulong
    ) -> c_int, or 0;
    fn CONF_modules_load_file(
        file: *const c_char, program: *const c_char, flags: c_ulong
    ) -> c_int, or 0;
    fn CONF_modules_load_file_ex(
        context: *mut c_void, file: *const c_char, program: *const c_char, flags: c_ulong
    ) -> c_int, or 0;
    fn CONF_modules_unload(all: c_int);
    fn EVP_default_properties_enable_fips(context: *mut c_void, enable: c_int) -> c_int, or 0;
    fn OSSL_LIB_CTX_load_config(context: *mut c_void, file: *const c_char) -> c_int, or 0;
    fn OSSL_PROVIDER_load(
        context: *mut c_void, name: *const c_char
    ) -> *mut c_void, or ptr::null_mut();
    fn OSSL_PROVIDER_load_ex(
        context: *mut c_void, name: *const c_char, parameters: *mut c_void
    ) -> *mut c_void, or ptr::null_mut();
    fn OSSL_PROVIDER_self_test(provider: *const c_void) -> c_int, or 0;
    fn OSSL_PROVIDER_try_load(
        context: *mut c_void, name: *const c_char, retain: c_int
    ) -> *mut c_void, or ptr::null_mut();
    fn OSSL_PROVIDER_try_load_ex(
        context: *mut c_void, name: *const c_char, parameters: *mut c_void, retain: c_int
    ) -> *mut c_void, or ptr::null_mut();
    fn OSSL_PROVIDER_unload(provider: *mut c_void) -> c_int, or 0;
}
