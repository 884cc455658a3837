//! ML-KEM through OpenSSL's EVP calls, one operation at a time.
#![allow(unsafe_code, reason = "the openssl crate has no calls of key encapsulation")]

use std::ffi::{CStr, c_int};
use std::ptr;

use foreign_types::ForeignType;
use openssl::error::ErrorStack;
use openssl::pkey::{HasPrivate, HasPublic, PKey};
use openssl::pkey_ctx::PkeyCtx;
use openssl_sys as ffi;

/// Whether OpenSSL has keys of the type `name`.
pub fn has(name: &CStr) -> bool {
    generator(name).is_ok()
}

/// A context that makes keys of the type `name`, one after the other.
///
/// # Errors
///
/// Those of OpenSSL, as of all that follows.
pub fn generator(name: &CStr) -> Result<PkeyCtx<()>, ErrorStack> {
    let (context, properties) = (ptr::null_mut(), ptr::null());
    // SAFETY: the default library context, a C string, and no properties.
    let made = unsafe { ffi::EVP_PKEY_CTX_new_from_name(context, name.as_ptr(), properties) };
    if made.is_null() {
        return Err(ErrorStack::get());
    }
    // SAFETY: not null, made above, and nobody else's.
    let mut made: PkeyCtx<()> = unsafe { PkeyCtx::from_ptr(made) };
    made.keygen_init()?;
    Ok(made)
}

/// Encapsulates a new secret for `key`; the ciphertext and the secret have the lengths of its type.
pub fn encapsulate<T: HasPublic>(
    key: &PKey<T>,
    ciphertext: &mut [u8],
    shared: &mut [u8],
) -> Result<(), ErrorStack> {
    let context = PkeyCtx::new(key)?;
    // SAFETY: a live context of a key, and no parameters.
    checked(unsafe { ffi::EVP_PKEY_encapsulate_init(context.as_ptr(), ptr::null()) })?;
    let (mut ciphertext_bytes, mut shared_bytes) = (ciphertext.len(), shared.len());
    // SAFETY: the context is ready; both places are as long as is said.
    checked(unsafe {
        ffi::EVP_PKEY_encapsulate(
            context.as_ptr(),
            ciphertext.as_mut_ptr(),
            &mut ciphertext_bytes,
            shared.as_mut_ptr(),
            &mut shared_bytes,
        )
    })
}

/// A key whose secrets are taken out of ciphertexts.
pub struct Decapsulation<T>(PkeyCtx<T>);

impl<T: HasPrivate> Decapsulation<T> {
    /// Gets ready.
    pub fn new(key: &PKey<T>) -> Result<Self, ErrorStack> {
        let context = PkeyCtx::new(key)?;
        // SAFETY: a live context of a key, and no parameters.
        checked(unsafe { ffi::EVP_PKEY_decapsulate_init(context.as_ptr(), ptr::null()) })?;
        Ok(Decapsulation(context))
    }

    /// The secret in `ciphertext`.
    pub fn decapsulate(&mut self, ciphertext: &[u8], shared: &mut [u8]) -> Result<(), ErrorStack> {
        let mut shared_bytes = shared.len();
        // SAFETY: the context is ready; both places are as long as is said.
        checked(unsafe {
            ffi::EVP_PKEY_decapsulate(
                self.0.as_ptr(),
                shared.as_mut_ptr(),
                &mut shared_bytes,
                ciphertext.as_ptr(),
                ciphertext.len(),
            )
        })
    }
}

fn checked(outcome: c_int) -> Result<(), ErrorStack> {
    if outcome == 1 { Ok(()) } else { Err(ErrorStack::get()) }
}
