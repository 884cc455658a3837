//! Keys and their contexts by libcrypto's own calls, as libssl makes them.
#![allow(unsafe_code, reason = "calls libcrypto as libssl and programs do")]
#![allow(dead_code, reason = "each test file uses its part")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use openssl::error::ErrorStack;

unsafe extern "C" {
    fn EVP_PKEY_free(key: *mut c_void);
    pub fn EVP_PKEY_dup(key: *mut c_void) -> *mut c_void;
    pub fn EVP_PKEY_eq(first: *const c_void, second: *const c_void) -> c_int;
    pub fn EVP_PKEY_pairwise_check(context: *mut c_void) -> c_int;
    pub fn EVP_PKEY_public_check(context: *mut c_void) -> c_int;
    pub fn EVP_PKEY_set1_encoded_public_key(
        key: *mut c_void,
        bytes: *const u8,
        length: usize,
    ) -> c_int;
    pub fn EVP_PKEY_get_octet_string_param(
        key: *const c_void,
        name: *const c_char,
        bytes: *mut u8,
        size: usize,
        length: *mut usize,
    ) -> c_int;
    pub fn EVP_PKEY_get_int_param(
        key: *const c_void,
        name: *const c_char,
        value: *mut c_int,
    ) -> c_int;
    fn EVP_PKEY_CTX_new_from_name(
        context: *mut c_void,
        name: *const c_char,
        query: *const c_char,
    ) -> *mut c_void;
    fn EVP_PKEY_CTX_new_from_pkey(
        context: *mut c_void,
        key: *mut c_void,
        query: *const c_char,
    ) -> *mut c_void;
    fn EVP_PKEY_CTX_free(context: *mut c_void);
    pub fn EVP_PKEY_keygen_init(context: *mut c_void) -> c_int;
    fn EVP_PKEY_paramgen_init(context: *mut c_void) -> c_int;
    fn EVP_PKEY_CTX_set_group_name(context: *mut c_void, name: *const c_char) -> c_int;
    pub fn EVP_PKEY_generate(context: *mut c_void, key: *mut *mut c_void) -> c_int;
    pub fn EVP_PKEY_fromdata_init(context: *mut c_void) -> c_int;
}

/// A key that libcrypto counts.
pub struct Key(pub *mut c_void);

/// A context of libcrypto's.
pub struct Context(pub *mut c_void);

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: owned, freed once.
        unsafe { EVP_PKEY_free(self.0) };
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: owned, freed once.
        unsafe { EVP_PKEY_CTX_free(self.0) };
    }
}

/// What a status says, with what stands in the error queue.
pub fn good(status: c_int) -> Result<(), ErrorStack> {
    if status > 0 { Ok(()) } else { Err(ErrorStack::get()) }
}

impl Context {
    pub fn named(algorithm: &CStr) -> Self {
        // SAFETY: the default library context, and a C string.
        let context =
            unsafe { EVP_PKEY_CTX_new_from_name(ptr::null_mut(), algorithm.as_ptr(), ptr::null()) };
        assert!(!context.is_null(), "{algorithm:?}");
        Context(context)
    }

    pub fn of(key: &Key) -> Self {
        // SAFETY: the default library context, and a key.
        let context = unsafe { EVP_PKEY_CTX_new_from_pkey(ptr::null_mut(), key.0, ptr::null()) };
        assert!(!context.is_null());
        Context(context)
    }
}

impl Key {
    /// As `ssl_generate_pkey_group` and `ssl_generate_param_group` do.
    pub fn make(algorithm: &CStr, group: &CStr, whole: bool) -> Result<Self, ErrorStack> {
        let context = Context::named(algorithm);
        let begin = if whole { EVP_PKEY_keygen_init } else { EVP_PKEY_paramgen_init };
        // SAFETY: the context lives.
        good(unsafe { begin(context.0) })?;
        // SAFETY: as above, and a C string.
        good(unsafe { EVP_PKEY_CTX_set_group_name(context.0, group.as_ptr()) })?;
        let mut key = ptr::null_mut();
        // SAFETY: as above.
        good(unsafe { EVP_PKEY_generate(context.0, &mut key) })?;
        Ok(Key(key))
    }

    /// Takes the share of a peer.
    pub fn take(self, encoded: &[u8]) -> Result<Self, ErrorStack> {
        let (bytes, length) = (encoded.as_ptr(), encoded.len());
        // SAFETY: pointer and length belong to the slice.
        good(unsafe { EVP_PKEY_set1_encoded_public_key(self.0, bytes, length) })?;
        Ok(self)
    }

    /// What a key says of itself.
    pub fn sizes(&self) -> [c_int; 3] {
        [c"bits", c"security-bits", c"max-size"].map(|name| {
            let mut value = -1;
            // SAFETY: the key lives, and the name is a C string.
            assert_eq!(unsafe { EVP_PKEY_get_int_param(self.0, name.as_ptr(), &mut value) }, 1);
            value
        })
    }
}
