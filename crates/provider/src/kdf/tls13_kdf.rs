//! `TLS13-KDF`: HKDF with the labels of TLS 1.3 (RFC 8446, 7.1).
#![allow(unsafe_code, reason = "calls the default provider's functions")]

use std::ffi::c_void;

use widelane_crypto::kdf::{Hash, Kdf, tls13};
use widelane_ossl_sys::core::{
    HKDF_MODE_EXPAND_ONLY, HKDF_MODE_EXTRACT_ONLY, OsslDispatch, OsslParam,
};
use widelane_ossl_sys::dispatch::KdfFunctions;
use widelane_secret::wipe;

use crate::delegate::Delegate;
use crate::entry::{describe, entry};
use crate::instance::Instance;
use crate::kdf::context::{Context, Derivation, FUNCTIONS};
use crate::kdf::fields::{Field, Fields};
use crate::kdf::kept::{Ask, PREFIX, expand, with_secret};

/// Our functions: those that the default provider has as well.
pub(crate) fn functions(delegate: &Delegate) -> Box<[OsslDispatch]> {
    KdfFunctions {
        newctx: Some(newctx),
        gettable_ctx_params: Some(gettable_ctx_params),
        settable_ctx_params: Some(settable_ctx_params),
        ..FUNCTIONS
    }
    .write_like(table(delegate))
}

static KIND: Derivation = Derivation {
    table,
    known: &[Field::Key, Field::Salt, Field::Prefix, Field::Label, Field::Data],
    is_accepted: |fields| {
        matches!(fields.mode, Some(HKDF_MODE_EXTRACT_ONLY | HKDF_MODE_EXPAND_ONLY))
    },
    derive,
};

/// The default provider's functions.
fn table(delegate: &Delegate) -> &KdfFunctions {
    &delegate.algorithms.tls13_kdf.functions
}

fn derive(fields: &Fields, output: &mut [u8]) -> Option<()> {
    let kdf = super::kdf(fields.hash?);
    match fields.mode? {
        HKDF_MODE_EXTRACT_ONLY => extract(kdf, fields, output),
        HKDF_MODE_EXPAND_ONLY => {
            let (prefix, label) = (fields.get(Field::Prefix)?, fields.get(Field::Label)?);
            let data = fields.get(Field::Data).unwrap_or_default();
            let secret = fields.get(Field::Key)?;
            expand(kdf, Ask { secret, prefix, label, context: data }, output)
        }
        _ => None,
    }
}

/// What the salt of the next stage is derived for.
const DERIVED: &[u8] = b"derived";

/// The next stage's secret: of the one before it, what is derived for this is the salt. A stage
/// that nothing is put in gets zeroes instead.
fn extract(kdf: &Kdf, fields: &Fields, output: &mut [u8]) -> Option<()> {
    // An empty secret is not what none is, and nothing that TLS has.
    if [Field::Key, Field::Salt].into_iter().any(|field| fields.is_empty_value(field)) {
        return None;
    }
    let (hash, zeroes) = (kdf.hash(), [0; Hash::BYTES_MAX]);
    let early = tls13::early(hash);
    let is_whole = output.len() == hash.bytes();
    if is_whole && fields.get(Field::Key).is_none() && fields.get(Field::Salt).is_none() {
        output.copy_from_slice(early.secret);
        return Some(());
    }
    let input = fields.get(Field::Key).unwrap_or(&zeroes[..hash.bytes()]);
    let Some(before) = fields.get(Field::Salt) else {
        return tls13::extract(kdf, &[], input, output).ok();
    };
    let (prefix, label) = (fields.get(Field::Prefix)?, fields.get(Field::Label)?);
    if prefix == PREFIX && label == DERIVED && early.is(before) {
        return tls13::extract_first(kdf, input, output).ok();
    }
    let mut salt = zeroes;
    let salt = &mut salt[..hash.bytes()];
    let done = with_secret(kdf, before, |secret| {
        secret.expand_label(prefix, label, tls13::empty_digest(hash), salt)
    })
    .and_then(|()| tls13::extract(kdf, salt, input, output));
    wipe(salt);
    done.ok()
}

entry! {
    fn newctx(provctx: *mut c_void) -> *mut c_void {
        // SAFETY: the core passes our instance.
        unsafe { Context::begin(provctx, &KIND) }
    }
}

describe! {
    gettable_ctx_params(Context, table);
    settable_ctx_params(Context, table);
}
