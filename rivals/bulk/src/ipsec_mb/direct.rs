//! Direct calls, each of which does one message.

use std::ptr::NonNull;

use crate::task::{AAD, Aead, Hash, NONCE, Work, alone, message, text_and_tag};

use super::{NO_MANAGER, kind};

/// A key of the C side.
#[repr(C)]
struct Key {
    _private: [u8; 0],
}

/// The state that its calls take.
#[repr(C)]
struct Manager {
    _private: [u8; 0],
}

unsafe extern "C" {
    fn widelane_manager() -> *mut Manager;
    fn widelane_direct_key(kind: u32, bytes: *const u8) -> *mut Key;
    fn widelane_direct_seal(
        key: *const Key,
        nonce: *const u8,
        aad: *const u8,
        aad_length: usize,
        text: *mut u8,
        length: usize,
        tag: *mut u8,
    );
    fn widelane_direct_open(
        key: *const Key,
        nonce: *const u8,
        aad: *const u8,
        aad_length: usize,
        text: *mut u8,
        length: usize,
        tag: *const u8,
    ) -> bool;
    fn widelane_direct_digest(
        manager: *mut Manager,
        digest_bytes: usize,
        text: *const u8,
        length: usize,
        digest: *mut u8,
    );
}

/// A key that lives as long as the process.
fn key(aead: Aead) -> Result<NonNull<Key>, String> {
    // SAFETY: the key has as many bytes as its kind says, 32 for ChaCha20-Poly1305.
    let key = unsafe { widelane_direct_key(kind(aead), aead.key().as_ptr()) };
    NonNull::new(key).ok_or_else(|| NO_MANAGER.to_owned())
}

/// Sealing, in place.
pub fn seal(aead: Aead) -> Result<Work, String> {
    let key = key(aead)?;
    Ok(alone(move |output| {
        let (text, tag) = text_and_tag(output);
        let (nonce, aad) = (NONCE.as_ptr(), AAD.as_ptr());
        let (place, length, tag) = (text.as_mut_ptr(), text.len(), tag.as_mut_ptr());
        // SAFETY: the key was made above and is never freed; all lengths are those of the slices,
        // a nonce has 12 bytes and a tag 16.
        unsafe {
            widelane_direct_seal(key.as_ptr(), nonce, aad, AAD.len(), place, length, tag);
        }
    }))
}

/// Opening, in place.
pub fn open(aead: Aead) -> Result<Work, String> {
    let key = key(aead)?;
    Ok(alone(move |output| {
        let (text, tag) = text_and_tag(message(output));
        let (nonce, aad) = (NONCE.as_ptr(), AAD.as_ptr());
        let (place, length, tag) = (text.as_mut_ptr(), text.len(), tag.as_ptr());
        // SAFETY: as for sealing.
        let is_right = unsafe {
            widelane_direct_open(key.as_ptr(), nonce, aad, AAD.len(), place, length, tag)
        };
        assert!(is_right, "the tag is right");
    }))
}

/// Hashing of `text`.
pub fn digest(hash: Hash, text: Vec<u8>) -> Result<Work, String> {
    // SAFETY: takes nothing, and answers a manager or null.
    let manager = unsafe { widelane_manager() };
    let manager = NonNull::new(manager).ok_or(NO_MANAGER)?;
    let bytes = hash.digest_bytes();
    Ok(alone(move |output| {
        assert_eq!(output.len(), bytes);
        let (input, place) = (text.as_ptr(), output.as_mut_ptr());
        // SAFETY: the manager was made above and is never freed; the text has the length that is
        // told, and the output that of a digest.
        unsafe { widelane_direct_digest(manager.as_ptr(), bytes, input, text.len(), place) };
    }))
}
