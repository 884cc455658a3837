//! Records through OpenSSL's EVP calls, by its own ciphers or by ours behind them.
//!
//! The calls are those that libssl makes for a record, without the questions about lengths that
//! the `openssl` crate asks before each.
#![allow(unsafe_code, reason = "the ciphers are driven by libcrypto's own calls")]

use std::ffi::c_int;
use std::path::Path;
use std::ptr;

use foreign_types::ForeignType;
use openssl::cipher::Cipher;
use openssl::cipher_ctx::CipherCtx;
use openssl::error::ErrorStack;
use openssl::lib_ctx::LibCtx;
use openssl_sys as ffi;
use widelane_crypto::aead::{NONCE_BYTES, TAG_BYTES};

/// Our provider in a library context of its own, so that nothing else in this process meets it.
pub struct Provider {
    // Unloaded before its context is freed.
    _provider: openssl::provider::Provider,
    context: LibCtx,
}

impl Provider {
    /// Loads the shared object at `path`.
    ///
    /// # Errors
    ///
    /// Those of OpenSSL.
    pub fn load(path: &Path) -> Result<Self, ErrorStack> {
        let context = LibCtx::new()?;
        let provider = openssl::provider::Provider::load(Some(&context), &path.to_string_lossy())?;
        Ok(Provider { _provider: provider, context })
    }

    /// Its cipher `name`, if it offers one.
    pub fn cipher(&self, name: &str) -> Option<Cipher> {
        Cipher::fetch(Some(&self.context), name, Some("provider=widelane")).ok()
    }
}

/// The cipher `name` of OpenSSL's default provider.
pub fn default_cipher(name: &str) -> Result<Cipher, ErrorStack> {
    Cipher::fetch(None, name, Some("provider=default"))
}

/// Which way a [`Records`] goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Encrypts.
    Seal,
    /// Decrypts and verifies.
    Open,
}

/// A cipher with its key, ready for one record after the other.
pub struct Records {
    context: CipherCtx,
}

impl Records {
    /// Sets up `cipher` with `key`.
    ///
    /// # Errors
    ///
    /// Those of OpenSSL, as of all that follows.
    pub fn new(cipher: &Cipher, key: &[u8], way: Way) -> Result<Self, ErrorStack> {
        let mut context = CipherCtx::new()?;
        match way {
            Way::Seal => context.encrypt_init(Some(cipher), Some(key), None)?,
            Way::Open => context.decrypt_init(Some(cipher), Some(key), None)?,
        }
        Ok(Records { context })
    }

    /// Encrypts `text` where it is.
    pub fn seal(
        &mut self,
        nonce: &[u8; NONCE_BYTES],
        aad: &[u8],
        text: &mut [u8],
        tag: &mut [u8; TAG_BYTES],
    ) -> Result<(), ErrorStack> {
        self.begin(nonce, aad)?;
        let place = text.as_mut_ptr();
        self.update(place, place, text.len())?;
        self.finish()?;
        self.control(ffi::EVP_CTRL_GCM_GET_TAG, tag)
    }

    /// Decrypts `sealed` into `text`, and answers whether `tag` is the right one.
    pub fn open(
        &mut self,
        nonce: &[u8; NONCE_BYTES],
        aad: &[u8],
        sealed: &[u8],
        text: &mut [u8],
        tag: &mut [u8; TAG_BYTES],
    ) -> Result<(), ErrorStack> {
        assert_eq!(sealed.len(), text.len());
        self.begin(nonce, aad)?;
        self.update(sealed.as_ptr(), text.as_mut_ptr(), text.len())?;
        self.control(ffi::EVP_CTRL_GCM_SET_TAG, tag)?;
        self.finish()
    }

    fn begin(&mut self, nonce: &[u8; NONCE_BYTES], aad: &[u8]) -> Result<(), ErrorStack> {
        let (same, way) = (ptr::null(), -1);
        let context = self.context.as_ptr();
        // SAFETY: the context is live and has cipher and key, so that null pointers leave them as
        // they are; every cipher used here takes nonces of this length.
        let outcome = unsafe {
            ffi::EVP_CipherInit_ex(context, same, ptr::null_mut(), same.cast(), nonce.as_ptr(), way)
        };
        checked(outcome)?;
        self.update(aad.as_ptr(), ptr::null_mut(), aad.len())
    }

    /// Passes on `length` bytes at `input`, whose result, if any, goes to `output`.
    fn update(
        &mut self,
        input: *const u8,
        output: *mut u8,
        length: usize,
    ) -> Result<(), ErrorStack> {
        let mut written = 0;
        let context = self.context.as_ptr();
        // SAFETY: the callers of this private function pass places of `length` bytes, of which the
        // output may be null (then the input is authenticated alone) or the input itself; these
        // ciphers are stream ciphers, which put out as much as they take in.
        let outcome =
            unsafe { ffi::EVP_CipherUpdate(context, output, &mut written, input, length as c_int) };
        checked(outcome)
    }

    fn finish(&mut self) -> Result<(), ErrorStack> {
        let (mut nothing, mut written) = ([0; TAG_BYTES], 0);
        let context = self.context.as_ptr();
        // SAFETY: stream ciphers put out nothing at their end; a block would have its place.
        let outcome = unsafe { ffi::EVP_CipherFinal(context, nothing.as_mut_ptr(), &mut written) };
        checked(outcome)
    }

    fn control(&mut self, command: c_int, tag: &mut [u8; TAG_BYTES]) -> Result<(), ErrorStack> {
        let context = self.context.as_ptr();
        // SAFETY: both commands used here read or write as many bytes at the place as they are
        // told.
        let outcome = unsafe {
            ffi::EVP_CIPHER_CTX_ctrl(context, command, TAG_BYTES as c_int, tag.as_mut_ptr().cast())
        };
        checked(outcome)
    }
}

fn checked(outcome: c_int) -> Result<(), ErrorStack> {
    if outcome > 0 { Ok(()) } else { Err(ErrorStack::get()) }
}
