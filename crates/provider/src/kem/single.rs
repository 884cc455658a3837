//! Key encapsulation one at a time, by a default provider that has it.
#![allow(unsafe_code, reason = "calls the default provider's functions")]

use std::ffi::{c_int, c_void};

use widelane_ossl_sys::core::{self, OsslParam};
use widelane_ossl_sys::dispatch::KemFunctions;

use crate::delegate::Owned;
use crate::kem::key::Key;
use crate::params;
use crate::pool::Message;
use crate::secret::Secret;

/// A ciphertext, and behind it the shared secret, made of a message if one is given.
pub(super) fn encapsulate(peer: &Key, message: Option<&Message>) -> Option<Secret> {
    let functions = &peer.theirs()?.mechanism.functions;
    let mut params = [OsslParam::END, OsslParam::END];
    if let Some(message) = message {
        params[0] = params::octets_in(core::KEM_PARAM_IKME, message.bytes());
    }
    let context = begin(peer, functions, functions.encapsulate_init?, &params)?;
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
    let context = begin(key, functions, functions.decapsulate_init?, &[OsslParam::END])?;
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

/// How an encapsulation or decapsulation with a key begins.
type Begin = unsafe extern "C" fn(*mut c_void, *mut c_void, *const OsslParam) -> c_int;

/// A context of the default provider's for its image of a key, begun by `init` with parameters,
/// which have an end.
fn begin(key: &Key, functions: &KemFunctions, init: Begin, params: &[OsslParam]) -> Option<Owned> {
    let context = Owned::made(functions.newctx, key.delegate(), functions.freectx)?;
    // SAFETY: context and key are the default provider's; the parameters have an end.
    let begun = unsafe { init(context.as_ptr(), key.image()?, params.as_ptr()) > 0 };
    begun.then_some(context)
}
