//! Ciphers by EVP's own calls, so that their answers can be compared one by one.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use super::ffi;

pub const CTRL_SET_IVLEN: c_int = 0x9;
pub const CTRL_GET_TAG: c_int = 0x10;
pub const CTRL_SET_TAG: c_int = 0x11;
pub const CTRL_SET_IV_FIXED: c_int = 0x12;
pub const CTRL_IV_GEN: c_int = 0x13;
pub const CTRL_TLS1_AAD: c_int = 0x16;
pub const CTRL_AEAD_SET_MAC_KEY: c_int = 0x17;
pub const CTRL_SET_IV_INV: c_int = 0x18;
pub const CTRL_MULTIBLOCK_AAD: c_int = 0x19;
pub const CTRL_MULTIBLOCK_ENCRYPT: c_int = 0x1a;
pub const CTRL_MULTIBLOCK_MAX_BUFSIZE: c_int = 0x1c;

/// A cipher of one provider.
pub struct Cipher(*mut c_void);

impl Cipher {
    pub fn fetch(name: &CStr, provider: &CStr) -> Option<Self> {
        // SAFETY: the default library context, and C strings.
        let cipher =
            unsafe { ffi::EVP_CIPHER_fetch(ptr::null_mut(), name.as_ptr(), provider.as_ptr()) };
        (!cipher.is_null()).then_some(Cipher(cipher))
    }

    pub fn is_a(&self, name: &CStr) -> bool {
        // SAFETY: a cipher, and a C string.
        unsafe { ffi::EVP_CIPHER_is_a(self.0, name.as_ptr()) == 1 }
    }

    pub fn key_bytes(&self) -> usize {
        // SAFETY: a cipher.
        unsafe { ffi::EVP_CIPHER_get_key_length(self.0) }.try_into().expect("a length")
    }

    /// Mode, flags, bytes of a block, number of the name.
    pub fn facts(&self) -> (c_int, u64, c_int, c_int) {
        // SAFETY: a cipher.
        let mode = unsafe { ffi::EVP_CIPHER_get_mode(self.0) };
        // SAFETY: as above.
        let flags = unsafe { ffi::EVP_CIPHER_get_flags(self.0) };
        // SAFETY: as above.
        let block = unsafe { ffi::EVP_CIPHER_get_block_size(self.0) };
        // SAFETY: as above.
        (mode, flags, block, unsafe { ffi::EVP_CIPHER_get_nid(self.0) })
    }
}

impl Drop for Cipher {
    fn drop(&mut self) {
        // SAFETY: fetched once, freed once.
        unsafe { ffi::EVP_CIPHER_free(self.0) };
    }
}

/// A context, and what it answers.
pub struct Context(*mut c_void);

impl Context {
    /// A context that seals or opens, without a key.
    pub fn new(cipher: &Cipher, seal: bool) -> Self {
        // SAFETY: no arguments.
        let context = Context(unsafe { ffi::EVP_CIPHER_CTX_new() });
        let (none, way) = (ptr::null(), c_int::from(seal));
        // SAFETY: a new context and a cipher.
        let begun = unsafe {
            ffi::EVP_CipherInit_ex(context.0, cipher.0, ptr::null_mut(), none, none, way)
        };
        assert_eq!(begun, 1);
        context
    }

    pub fn init(&mut self, key: Option<&[u8]>, iv: Option<&[u8]>, seal: bool) -> c_int {
        let pointer = |bytes: Option<&[u8]>| bytes.map_or(ptr::null(), <[u8]>::as_ptr);
        let (key, iv, way) = (pointer(key), pointer(iv), c_int::from(seal));
        // SAFETY: key and IV are as long as the context has been told, which tests see to.
        unsafe { ffi::EVP_CipherInit_ex(self.0, ptr::null(), ptr::null_mut(), key, iv, way) }
    }

    pub fn aad(&mut self, aad: &[u8]) -> (c_int, c_int) {
        let mut length = -7;
        // SAFETY: without output this is AAD.
        let done = unsafe {
            ffi::EVP_CipherUpdate(
                self.0,
                ptr::null_mut(),
                &mut length,
                aad.as_ptr(),
                aad.len() as c_int,
            )
        };
        (done, length)
    }

    /// What the call answered, and the result.
    pub fn update(&mut self, input: &[u8]) -> (c_int, c_int, Vec<u8>) {
        let (mut length, mut output) = (-7, vec![0xee; input.len()]);
        // SAFETY: the output is as long as the input.
        let done = unsafe {
            ffi::EVP_CipherUpdate(
                self.0,
                output.as_mut_ptr(),
                &mut length,
                input.as_ptr(),
                input.len() as c_int,
            )
        };
        (done, length, output)
    }

    /// As `update`, from one place of a buffer to another.
    pub fn update_within(
        &mut self,
        buffer: &mut [u8],
        from: usize,
        to: usize,
        bytes: usize,
    ) -> (c_int, c_int) {
        assert!(from.max(to) + bytes <= buffer.len());
        let start = buffer.as_mut_ptr();
        let (input, output) = (start.wrapping_add(from), start.wrapping_add(to));
        let mut length = -7;
        // SAFETY: both are inside the buffer.
        let done =
            unsafe { ffi::EVP_CipherUpdate(self.0, output, &mut length, input, bytes as c_int) };
        (done, length)
    }

    pub fn finish(&mut self) -> (c_int, c_int) {
        let (mut length, mut output) = (-7, [0; 32]);
        // SAFETY: there is more room than any cipher needs.
        let done = unsafe { ffi::EVP_CipherFinal_ex(self.0, output.as_mut_ptr(), &mut length) };
        (done, length)
    }

    /// A control that passes bytes in, takes bytes out, or neither.
    pub fn control(&mut self, kind: c_int, number: c_int, bytes: &mut [u8]) -> c_int {
        let pointer = if bytes.is_empty() { ptr::null_mut() } else { bytes.as_mut_ptr() };
        // SAFETY: tests pass as many bytes as the control uses.
        unsafe { ffi::EVP_CIPHER_CTX_ctrl(self.0, kind, number, pointer.cast()) }
    }

    pub fn tag(&mut self, bytes: usize) -> (c_int, [u8; 32]) {
        let mut tag = [0; 32];
        (self.control(CTRL_GET_TAG, bytes as c_int, &mut tag), tag)
    }

    pub fn set_tag(&mut self, tag: &[u8]) -> c_int {
        let mut tag = tag.to_vec();
        self.control(CTRL_SET_TAG, tag.len() as c_int, &mut tag)
    }

    pub fn updated_iv(&mut self, bytes: usize) -> (c_int, Vec<u8>) {
        let mut iv = vec![0; bytes];
        // SAFETY: pointer and length belong together.
        let done =
            unsafe { ffi::EVP_CIPHER_CTX_get_updated_iv(self.0, iv.as_mut_ptr().cast(), bytes) };
        (done, iv)
    }

    /// Bytes of key, IV and tag.
    pub fn lengths(&self) -> (c_int, c_int, c_int) {
        // SAFETY: a context with a cipher.
        let key = unsafe { ffi::EVP_CIPHER_CTX_get_key_length(self.0) };
        // SAFETY: as above.
        let iv = unsafe { ffi::EVP_CIPHER_CTX_get_iv_length(self.0) };
        // SAFETY: as above.
        (key, iv, unsafe { ffi::EVP_CIPHER_CTX_get_tag_length(self.0) })
    }

    /// A context that goes on from here by itself.
    pub fn duplicate(&self) -> Self {
        // SAFETY: no arguments.
        let copy = Context(unsafe { ffi::EVP_CIPHER_CTX_new() });
        // SAFETY: both are contexts.
        assert_eq!(unsafe { ffi::EVP_CIPHER_CTX_copy(copy.0, self.0) }, 1);
        copy
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: made once, freed once.
        unsafe { ffi::EVP_CIPHER_CTX_free(self.0) };
    }
}

/// The reason of the first error on this thread's queue, which is empty afterwards; 0 if there is
/// none. Ours are those of OpenSSL 3.0; under later releases, which have others, only whether there
/// is one counts.
pub fn reason() -> u64 {
    // SAFETY: no arguments.
    let error = unsafe { ffi::ERR_get_error() };
    // SAFETY: no arguments.
    unsafe { ffi::ERR_clear_error() };
    // SAFETY: no arguments.
    if unsafe { openssl_sys::OpenSSL_version_num() } >= 0x3010_0000 {
        return u64::from(error != 0);
    }
    error & 0x7f_ffff
}
