//! Records and tags through OpenSSL's EVP calls, by its own ciphers or by ours behind them.
//!
//! The calls are those that libssl makes for a record, without the questions about lengths that
//! the `openssl` crate asks before each.
#![allow(unsafe_code, reason = "the ciphers are driven by libcrypto's own calls")]

use std::ffi::c_int;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::LazyLock;

use foreign_types::ForeignType;
use openssl::cipher::Cipher;
use openssl::cipher_ctx::CipherCtx;
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::lib_ctx::LibCtx;
use openssl_sys as ffi;
use widelane_crypto::aead::{NONCE_BYTES, TAG_BYTES};

/// Our provider in a library context of its own, so that nothing else in this process meets it.
pub struct Provider {
    // Unloaded before their context is freed.
    _providers: [openssl::provider::Provider; 2],
    context: LibCtx,
}

impl Provider {
    /// Loads the shared object at `path`, beside OpenSSL's default provider.
    ///
    /// # Errors
    ///
    /// Those of OpenSSL.
    pub fn load(path: &Path) -> Result<Self, ErrorStack> {
        let context = LibCtx::new()?;
        let load = |name: &str| openssl::provider::Provider::load(Some(&context), name);
        let providers = [load("default")?, load(&path.to_string_lossy())?];
        Ok(Provider { _providers: providers, context })
    }

    /// The cipher `name`: ours, or else OpenSSL's.
    ///
    /// # Errors
    ///
    /// Those of OpenSSL.
    pub fn preferred(&self, name: &str) -> Result<Cipher, ErrorStack> {
        Cipher::fetch(Some(&self.context), name, Some("?provider=widelane"))
    }

    /// Its cipher `name`, if it offers one.
    pub fn cipher(&self, name: &str) -> Option<Cipher> {
        Cipher::fetch(Some(&self.context), name, Some("provider=widelane")).ok()
    }
}

/// OpenSSL's default provider alone, whatever its configuration says: that may load our provider
/// for every program.
struct Plain {
    _provider: openssl::provider::Provider,
    context: LibCtx,
}

impl Plain {
    /// The only one, which is there until the process ends: keys and contexts refer to it.
    fn get() -> Result<&'static Self, ErrorStack> {
        static PLAIN: LazyLock<Result<Plain, ErrorStack>> = LazyLock::new(|| {
            let context = LibCtx::new()?;
            let provider = openssl::provider::Provider::load(Some(&context), "default")?;
            Ok(Plain { _provider: provider, context })
        });
        PLAIN.as_ref().map_err(Clone::clone)
    }
}

unsafe extern "C" {
    fn OSSL_LIB_CTX_set0_default(context: *mut ffi::OSSL_LIB_CTX) -> *mut ffi::OSSL_LIB_CTX;
}

/// Has this thread's calls to OpenSSL be served by its default provider alone, from now on.
///
/// # Errors
///
/// Those of OpenSSL.
pub fn leave_configuration_out() -> Result<(), ErrorStack> {
    let context = Plain::get()?.context.as_ptr();
    // SAFETY: the context is live until the process ends.
    let before = unsafe { OSSL_LIB_CTX_set0_default(context) };
    if before.is_null() { Err(ErrorStack::get()) } else { Ok(()) }
}

/// The cipher `name` of OpenSSL's default provider.
pub fn default_cipher(name: &str) -> Result<Cipher, ErrorStack> {
    Cipher::fetch(Some(&Plain::get()?.context), name, None)
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

    /// Decrypts `text` where it is, and returns whether `tag` is the right one.
    pub fn open(
        &mut self,
        nonce: &[u8; NONCE_BYTES],
        aad: &[u8],
        text: &mut [u8],
        tag: &mut [u8; TAG_BYTES],
    ) -> Result<(), ErrorStack> {
        self.begin(nonce, aad)?;
        let place = text.as_mut_ptr();
        self.update(place, place, text.len())?;
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
        // passed.
        let outcome = unsafe {
            ffi::EVP_CIPHER_CTX_ctrl(context, command, TAG_BYTES as c_int, tag.as_mut_ptr().cast())
        };
        checked(outcome)
    }
}

/// AES-CBC stitched together with HMAC, ready for one record of TLS 1.2 after the other.
pub struct Stitched {
    context: CipherCtx,
    mac_bytes: usize,
}

/// Commands of `EVP_CIPHER_CTX_ctrl` that `openssl-sys` does not name.
const CONTROL_TLS1_AAD: c_int = 0x16;
const CONTROL_SET_MAC_KEY: c_int = 0x17;

const BLOCK_BYTES: usize = 16;

/// The beginning of what is authenticated with a record, before its length: the number of the
/// record, application data, TLS 1.2.
pub const HEADER: [u8; 11] = [0, 0, 0, 0, 0, 0, 0, 1, 23, 3, 3];

impl Stitched {
    /// Sets up `cipher` with its keys.
    ///
    /// # Errors
    ///
    /// Those of OpenSSL, as of all that follows.
    pub fn new(cipher: &Cipher, key: &[u8], mac_key: &[u8], way: Way) -> Result<Self, ErrorStack> {
        let context = Records::new(cipher, key, way)?.context;
        let mut records = Stitched { context, mac_bytes: mac_key.len() };
        checked(records.control(CONTROL_SET_MAC_KEY, &mut mac_key.to_vec()))?;
        Ok(records)
    }

    /// Bytes of a record with a text of `size` bytes: explicit IV, text, MAC and padding.
    pub fn record_bytes(size: usize, mac_bytes: usize) -> usize {
        BLOCK_BYTES + (size + mac_bytes) / BLOCK_BYTES * BLOCK_BYTES + BLOCK_BYTES
    }

    /// Encrypts the record whose text of `size` bytes follows an explicit IV.
    pub fn seal(&mut self, size: usize, record: &mut [u8]) -> Result<(), ErrorStack> {
        let written = self.crypt(BLOCK_BYTES + size, record)?;
        let wanted = Self::record_bytes(size, self.mac_bytes);
        assert_eq!(written, wanted, "the cipher pads as TLS has it");
        Ok(())
    }

    /// Announces a record of `length` bytes, random IV included, to the cipher, has it done, and
    /// returns how many bytes that took.
    fn crypt(&mut self, length: usize, record: &mut [u8]) -> Result<usize, ErrorStack> {
        let mut head = [&HEADER[..], &[(length >> 8) as u8, length as u8]].concat();
        let more = self.control(CONTROL_TLS1_AAD, &mut head);
        checked(more)?;
        let bytes = length + more as usize;
        assert!(bytes <= record.len());
        let (context, place, mut written) = (self.context.as_ptr(), record.as_mut_ptr(), 0);
        // SAFETY: the cipher works in place on as many bytes as it is passed, which the record has;
        // it writes as many as it reads.
        let outcome =
            unsafe { ffi::EVP_CipherUpdate(context, place, &mut written, place, bytes as c_int) };
        checked(outcome)?;
        Ok(written as usize)
    }

    fn control(&mut self, command: c_int, bytes: &mut [u8]) -> c_int {
        let context = self.context.as_ptr();
        let (length, place) = (bytes.len() as c_int, bytes.as_mut_ptr());
        // SAFETY: both commands used here read as many bytes at the place as `length` says.
        unsafe { ffi::EVP_CIPHER_CTX_ctrl(context, command, length, place.cast()) }
    }
}

/// HMAC with its key, ready for one message after the other.
pub struct Tags {
    context: NonNull<ffi::HMAC_CTX>,
}

impl Tags {
    /// Sets up HMAC over `digest` with `key`.
    ///
    /// # Errors
    ///
    /// Those of OpenSSL, as of all that follows.
    pub fn new(digest: MessageDigest, key: &[u8]) -> Result<Self, ErrorStack> {
        // SAFETY: takes nothing, and returns a context or null.
        let context = unsafe { ffi::HMAC_CTX_new() };
        let tags = Tags { context: NonNull::new(context).ok_or_else(ErrorStack::get)? };
        let (context, length) = (tags.context.as_ptr(), key.len() as c_int);
        let (place, digest, engine) = (key.as_ptr().cast(), digest.as_ptr(), ptr::null_mut());
        // SAFETY: the context is live, the key has the length passed, and digests are static.
        checked(unsafe { ffi::HMAC_Init_ex(context, place, length, digest, engine) })?;
        Ok(tags)
    }

    /// Stores the tag of `message`, which is as long as `tag`.
    pub fn tag(&mut self, message: &[u8], tag: &mut [u8]) -> Result<(), ErrorStack> {
        let (context, same) = (self.context.as_ptr(), ptr::null());
        // SAFETY: the context is live and keeps its key and digest.
        checked(unsafe { ffi::HMAC_Init_ex(context, same, 0, same.cast(), ptr::null_mut()) })?;
        // SAFETY: the message has the length passed.
        checked(unsafe { ffi::HMAC_Update(context, message.as_ptr(), message.len()) })?;
        let mut made = [0; ffi::EVP_MAX_MD_SIZE as usize];
        // SAFETY: no tag is longer than what there is room for.
        checked(unsafe { ffi::HMAC_Final(context, made.as_mut_ptr(), ptr::null_mut()) })?;
        tag.copy_from_slice(&made[..tag.len()]);
        Ok(())
    }
}

impl Drop for Tags {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and not used any more.
        unsafe { ffi::HMAC_CTX_free(self.context.as_ptr()) };
    }
}

fn checked(outcome: c_int) -> Result<(), ErrorStack> {
    if outcome > 0 { Ok(()) } else { Err(ErrorStack::get()) }
}

#[cfg(test)]
mod tests {
    use openssl::pkey::PKey;
    use openssl::sign::Signer;
    use openssl::symm::{self, Crypter, Mode};

    use super::*;

    const MAC_BYTES: usize = 20;

    #[test]
    fn a_stitched_record_is_cipher_and_mac_one_after_the_other() {
        let (key, mac_key) = ([3; 16], [9; MAC_BYTES]);
        for size in [1, 64, 75, 76, 1350, 16384] {
            let text: Vec<u8> = (0..size).map(|index| index as u8).collect();
            let mut record = vec![0; Stitched::record_bytes(size, MAC_BYTES)];
            record[BLOCK_BYTES..][..size].copy_from_slice(&text);
            let cipher = default_cipher("AES-128-CBC-HMAC-SHA1").unwrap();
            let mut records = Stitched::new(&cipher, &key, &mac_key, Way::Seal).unwrap();
            records.seal(size, &mut record).unwrap();

            let mut crypter =
                Crypter::new(symm::Cipher::aes_128_cbc(), Mode::Decrypt, &key, Some(&[0; 16]))
                    .unwrap();
            crypter.pad(false);
            let mut plain = vec![0; record.len() + BLOCK_BYTES];
            crypter.update(&record, &mut plain).unwrap();
            let plain = &plain[BLOCK_BYTES..record.len()];
            assert_eq!(plain[..size], text, "{size}");

            let mac_key = PKey::hmac(&mac_key).unwrap();
            let mut signer = Signer::new(MessageDigest::sha1(), &mac_key).unwrap();
            let length = [(size >> 8) as u8, size as u8];
            let head = [&[0, 0, 0, 0, 0, 0, 0, 1, 23, 3, 3], &length[..]].concat();
            signer.update(&[head, text].concat()).unwrap();
            assert_eq!(plain[size..][..MAC_BYTES], signer.sign_to_vec().unwrap(), "{size}");
        }
    }
}
