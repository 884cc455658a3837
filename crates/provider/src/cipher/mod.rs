//! Ciphers as EVP and libssl use them: AES-GCM, ChaCha20-Poly1305, and AES-CBC with HMAC.
//!
//! Nothing is delegated here: a context holds a key of ours, and what EVP says about keys, IVs,
//! tags and records of TLS is answered as the default provider answers it. Offered is what gains;
//! `docs/program/provider-ciphers.md` says what that is.

mod cbc_hmac;
mod chacha;
mod context;
mod entries;
mod gcm;
mod multi_block;
mod piece;
mod tagged;
mod tally;

use std::ffi::CStr;
use std::sync::{Arc, LazyLock};

use widelane_bridge::counters::CipherKind;
use widelane_crypto::aead::{self, Aead};
use widelane_crypto::cbc_hmac as cbc;
use widelane_ossl_sys::core::{self, OsslDispatch};

use self::cbc_hmac::CbcHmac;
use self::chacha::ChaCha;
use self::context::Context;
use self::gcm::Gcm;
use crate::Family;
use crate::choosing::ByPolicy;
use crate::delegate::Delegate;
use crate::instance::Offer;

/// A cipher as a type, for functions that C calls.
trait Kind {
    const KIND: CipherKind;
    type Context: Context;
    const ALGORITHM: <Self::Context as Context>::Algorithm;
}

macro_rules! kinds {
    ($($kind:ident, $name:literal: $context:ident of $algorithm:expr;)*) => {
        $(
            struct $kind;

            impl Kind for $kind {
                const KIND: CipherKind = CipherKind::$kind;
                type Context = $context;
                const ALGORITHM: <$context as Context>::Algorithm = $algorithm;
            }
        )*

        /// The functions of a cipher, if it gains.
        fn functions(delegate: &Delegate, kind: CipherKind) -> Option<Box<[OsslDispatch]>> {
            match kind {
                $(CipherKind::$kind => offer::<$kind>(delegate),)*
            }
        }

        /// Name by which the default provider has a cipher, among others.
        pub(crate) fn name(kind: CipherKind) -> &'static CStr {
            match kind {
                $(CipherKind::$kind => $name,)*
            }
        }
    };
}

kinds! {
    Aes128Gcm, c"AES-128-GCM": Gcm of aead::Algorithm::Aes128Gcm;
    Aes192Gcm, c"AES-192-GCM": Gcm of aead::Algorithm::Aes192Gcm;
    Aes256Gcm, c"AES-256-GCM": Gcm of aead::Algorithm::Aes256Gcm;
    ChaCha20Poly1305, c"ChaCha20-Poly1305": ChaCha of aead::Algorithm::ChaCha20Poly1305;
    Aes128CbcHmacSha1, c"AES-128-CBC-HMAC-SHA1": CbcHmac of cbc::Algorithm::Aes128Sha1;
    Aes256CbcHmacSha1, c"AES-256-CBC-HMAC-SHA1": CbcHmac of cbc::Algorithm::Aes256Sha1;
    Aes128CbcHmacSha256, c"AES-128-CBC-HMAC-SHA256": CbcHmac of cbc::Algorithm::Aes128Sha256;
    Aes256CbcHmacSha256, c"AES-256-CBC-HMAC-SHA256": CbcHmac of cbc::Algorithm::Aes256Sha256;
}

/// Ciphers with tags in the widest room that a policy leaves open.
static AEADS: LazyLock<ByPolicy<[Aead; aead::Algorithm::ALL.len()]>> = LazyLock::new(|| {
    let of = |policy: &_| aead::Algorithm::ALL.map(|algorithm| Aead::choose(algorithm, policy));
    ByPolicy::new(of)
});

/// AES-CBC with HMAC, as TLS has it unless both sides want otherwise, likewise.
static CBC_HMACS: LazyLock<ByPolicy<[cbc::CbcHmac; cbc::Algorithm::ALL.len()]>> =
    LazyLock::new(|| {
        let mode = cbc::Mode::MacThenEncrypt;
        ByPolicy::new(|policy| {
            cbc::Algorithm::ALL.map(|algorithm| cbc::CbcHmac::choose(algorithm, mode, policy))
        })
    });

fn aead(algorithm: aead::Algorithm) -> Aead {
    AEADS.now()[algorithm as usize]
}

fn cbc_hmac(algorithm: cbc::Algorithm) -> cbc::CbcHmac {
    CBC_HMACS.now()[algorithm as usize]
}

/// Ciphers for records, for the provider.
pub(crate) const FAMILY: Family = Family { offers, kinds: &[] };

/// What we offer of ciphers: those that gain.
fn offers(delegate: &Arc<Delegate>) -> Vec<Offer> {
    let offer = |kind| {
        let names = &delegate.algorithms.ciphers[kind as usize].as_ref()?.names;
        let description = c"authenticated encryption, widened by Widelane";
        Some(Offer::new(core::OP_CIPHER, names, functions(delegate, kind)?, description))
    };
    CipherKind::ALL.into_iter().filter_map(offer).collect()
}

fn offer<K: Kind>(delegate: &Delegate) -> Option<Box<[OsslDispatch]>> {
    let like = &delegate.algorithms.ciphers[K::KIND as usize].as_ref()?.functions;
    K::Context::gains(K::ALGORITHM).then(|| entries::functions::<K>(like))
}
