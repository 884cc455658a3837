//! Intel's Multi-Buffer Crypto for IPsec, by its direct calls.

use std::ffi::c_uint;
use std::ptr::NonNull;

use crate::{AAD, Algorithm, NONCE, Work, text_and_tag};

/// A key of the C side.
#[repr(C)]
struct Key {
    _private: [u8; 0],
}

unsafe extern "C" {
    fn widelane_ipsec_mb_key(kind: c_uint, bytes: *const u8) -> *mut Key;
    fn widelane_ipsec_mb_seal(
        key: *const Key,
        nonce: *const u8,
        aad: *const u8,
        aad_length: usize,
        text: *mut u8,
        length: usize,
        tag: *mut u8,
    );
}

/// Sealing with `key`; it lives as long as the process.
pub fn seal(algorithm: Algorithm, key: &[u8]) -> Result<Work, String> {
    let kind = match algorithm {
        Algorithm::Aes128Gcm => 16,
        Algorithm::Aes192Gcm => 24,
        Algorithm::Aes256Gcm => 32,
        Algorithm::ChaCha20Poly1305 => 0,
    };
    // SAFETY: the key has as many bytes as its kind says, 32 for ChaCha20-Poly1305.
    let made = unsafe { widelane_ipsec_mb_key(kind, key.as_ptr()) };
    let made = NonNull::new(made).ok_or("cannot use this CPU")?;
    Ok(Box::new(move |output| {
        let (text, tag) = text_and_tag(output);
        let (nonce, aad) = (NONCE.as_ptr(), AAD.as_ptr());
        let (place, length, tag) = (text.as_mut_ptr(), text.len(), tag.as_mut_ptr());
        // SAFETY: the key was made above and is never freed; all lengths are those of the slices,
        // a nonce has 12 bytes and a tag 16.
        unsafe {
            widelane_ipsec_mb_seal(made.as_ptr(), nonce, aad, AAD.len(), place, length, tag);
        }
    }))
}
