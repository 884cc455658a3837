//! Keys and their contexts by libcrypto's own calls, as libssl makes them.
#![allow(unsafe_code, reason = "calls libcrypto as libssl and programs do")]
#![allow(dead_code, reason = "each test file uses its part")]

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use openssl::error::ErrorStack;

use crate::ffi;

/// A key that libcrypto counts.
pub struct Key(pub *mut c_void);

/// A context of libcrypto's.
pub struct Context(pub *mut c_void);

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: owned, freed once.
        unsafe { ffi::EVP_PKEY_free(self.0) };
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: owned, freed once.
        unsafe { ffi::EVP_PKEY_CTX_free(self.0) };
    }
}

/// What a status says, with what stands in the error queue.
pub fn good(status: c_int) -> Result<(), ErrorStack> {
    if status > 0 { Ok(()) } else { Err(ErrorStack::get()) }
}

impl Context {
    pub fn named(algorithm: &CStr) -> Self {
        // SAFETY: the default library context, and a C string.
        let context = unsafe {
            ffi::EVP_PKEY_CTX_new_from_name(ptr::null_mut(), algorithm.as_ptr(), ptr::null())
        };
        assert!(!context.is_null(), "{algorithm:?}");
        Context(context)
    }

    pub fn of(key: &Key) -> Self {
        // SAFETY: the default library context, and a key.
        let context =
            unsafe { ffi::EVP_PKEY_CTX_new_from_pkey(ptr::null_mut(), key.0, ptr::null()) };
        assert!(!context.is_null());
        Context(context)
    }

    /// A context that goes on from here by itself.
    pub fn duplicate(&self) -> Self {
        // SAFETY: the context lives.
        let copy = unsafe { ffi::EVP_PKEY_CTX_dup(self.0) };
        assert!(!copy.is_null(), "it can be copied");
        Context(copy)
    }
}

impl Key {
    /// As `ssl_generate_pkey_group` and `ssl_generate_param_group` do.
    pub fn make(algorithm: &CStr, group: &CStr, whole: bool) -> Result<Self, ErrorStack> {
        let context = Context::named(algorithm);
        let begin = if whole { ffi::EVP_PKEY_keygen_init } else { ffi::EVP_PKEY_paramgen_init };
        // SAFETY: the context lives.
        good(unsafe { begin(context.0) })?;
        // SAFETY: as above, and a C string.
        good(unsafe { ffi::EVP_PKEY_CTX_set_group_name(context.0, group.as_ptr()) })?;
        let mut key = ptr::null_mut();
        // SAFETY: as above.
        good(unsafe { ffi::EVP_PKEY_generate(context.0, &mut key) })?;
        Ok(Key(key))
    }

    /// Takes the share of a peer.
    pub fn take(self, encoded: &[u8]) -> Result<Self, ErrorStack> {
        let (bytes, length) = (encoded.as_ptr(), encoded.len());
        // SAFETY: pointer and length belong to the slice.
        good(unsafe { ffi::EVP_PKEY_set1_encoded_public_key(self.0, bytes, length) })?;
        Ok(self)
    }

    /// What a key says of itself.
    pub fn sizes(&self) -> [c_int; 3] {
        [c"bits", c"security-bits", c"max-size"].map(|name| {
            let mut value = -1;
            // SAFETY: the key lives, and the name is a C string.
            let told = unsafe { ffi::EVP_PKEY_get_int_param(self.0, name.as_ptr(), &mut value) };
            assert_eq!(told, 1);
            value
        })
    }
}
