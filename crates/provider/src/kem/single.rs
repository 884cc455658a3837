//! Key encapsulation one at a time, by a default provider that has it.
#![allow(unsafe_code, reason = "calls the default provider's functions")]

use std::ptr;

use crate::batching::Secret;
use crate::delegate::Owned;
use crate::kem::key::Key;

/// A ciphertext, and behind it the shared secret.
pub(super) fn encapsulate(peer: &Key) -> Option<Secret> {
    let functions = &peer.theirs()?.mechanism.functions;
    let (newctx, init) = (functions.newctx?, functions.encapsulate_init?);
    // SAFETY: the default provider's own context.
    let context = Owned::adopt(unsafe { newctx(peer.delegate().provctx) }, functions.freectx)?;
    // SAFETY: context and key are the default provider's.
    if unsafe { init(context.as_ptr(), peer.image()?, ptr::null()) } <= 0 {
        return None;
    }
    let mechanism = peer.mechanism();
    let (bytes, shared_bytes) = (mechanism.ciphertext_bytes(), mechanism.shared_bytes());
    let mut made = Secret(vec![0; bytes + shared_bytes]);
    let (ciphertext, shared) = made.0.split_at_mut(bytes);
    let (mut length, mut shared_length) = (bytes, shared_bytes);
    // SAFETY: pointers and lengths belong to the slices.
    let done = unsafe {
        functions.encapsulate?(
            context.as_ptr(),
            ciphertext.as_mut_ptr(),
            &mut length,
            shared.as_mut_ptr(),
            &mut shared_length,
        )
    };
    (done > 0 && length == bytes && shared_length == shared_bytes).then_some(made)
}

/// The shared secret in a ciphertext.
pub(super) fn decapsulate(key: &Key, ciphertext: &[u8]) -> Option<Secret> {
    let functions = &key.theirs()?.mechanism.functions;
    let (newctx, init) = (functions.newctx?, functions.decapsulate_init?);
    // SAFETY: the default provider's own context.
    let context = Owned::adopt(unsafe { newctx(key.delegate().provctx) }, functions.freectx)?;
    // SAFETY: context and key are the default provider's.
    if unsafe { init(context.as_ptr(), key.image()?, ptr::null()) } <= 0 {
        return None;
    }
    let bytes = key.mechanism().shared_bytes();
    let (mut made, mut length) = (Secret(vec![0; bytes]), bytes);
    // SAFETY: pointers and lengths belong to the slices.
    let done = unsafe {
        functions.decapsulate?(
            context.as_ptr(),
            made.0.as_mut_ptr(),
            &mut length,
            ciphertext.as_ptr(),
            ciphertext.len(),
        )
    };
    (done > 0 && length == bytes).then_some(made)
}
