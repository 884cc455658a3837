//! Ciphers with tags, as EVP and libssl use them: AES-GCM and ChaCha20-Poly1305.
//!
//! Nothing is delegated here: a context holds a key of ours, and what EVP says about keys, IVs,
//! tags and records of TLS is answered as the default provider answers it. Offered is what gains;
//! `docs/provider-ciphers.md` says what that is.

mod chacha;
mod common;
mod doors;
mod gcm;
mod piece;
mod tally;

use std::ffi::CStr;

use widelane_bridge::counters::CipherKind;
use widelane_cpu::Room;
use widelane_ossl_sys::core::OsslDispatch;

use self::chacha::ChaCha;
use self::gcm::Gcm;
use crate::config::config;
use crate::delegate::Delegate;

/// Ciphers in the order of their kinds, with the functions of each.
pub(crate) fn functions(delegate: &Delegate, kind: CipherKind) -> Option<Box<[OsslDispatch]>> {
    let like = &delegate.algorithms.ciphers[kind as usize].as_ref()?.functions;
    gains(config().aead(kind).room()).then(|| match kind {
        CipherKind::Aes128Gcm => doors::functions::<Gcm, Aes128Gcm>(like),
        CipherKind::Aes192Gcm => doors::functions::<Gcm, Aes192Gcm>(like),
        CipherKind::Aes256Gcm => doors::functions::<Gcm, Aes256Gcm>(like),
        CipherKind::ChaCha20Poly1305 => doors::functions::<ChaCha, ChaCha20Poly1305>(like),
    })
}

/// Name by which the default provider has a cipher, among others.
pub(crate) fn name(kind: CipherKind) -> &'static CStr {
    match kind {
        CipherKind::Aes128Gcm => c"AES-128-GCM",
        CipherKind::Aes192Gcm => c"AES-192-GCM",
        CipherKind::Aes256Gcm => c"AES-256-GCM",
        CipherKind::ChaCha20Poly1305 => c"ChaCha20-Poly1305",
    }
}

/// Whether a room gains on the default provider.
fn gains(room: Room) -> bool {
    matches!(room, Room::Vaes512 | Room::Vaes256 | Room::Ifma512)
}

/// A kind of cipher as a type, for functions that C calls.
trait Kind {
    const KIND: CipherKind;
}

macro_rules! kinds {
    ($($name:ident)*) => {$(
        struct $name;

        impl Kind for $name {
            const KIND: CipherKind = CipherKind::$name;
        }
    )*};
}

kinds! { Aes128Gcm Aes192Gcm Aes256Gcm ChaCha20Poly1305 }
