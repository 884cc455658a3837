//! `TLS1-PRF`: the pseudorandom function of TLS 1.2 (RFC 5246, section 5). That of TLS 1.1 and
//! before is the default provider's.
#![allow(unsafe_code, reason = "calls the default provider's functions")]

use std::ffi::c_void;

use widelane_crypto::kdf::tls12;
use widelane_ossl_sys::core::{OsslDispatch, OsslParam};
use widelane_ossl_sys::dispatch::KdfFunctions;

use crate::delegate::Delegate;
use crate::entry::{describe, entry};
use crate::instance::Instance;
use crate::kdf::context::{Context, Derivation, FUNCTIONS};
use crate::kdf::fields::{Field, Fields};

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

static KIND: Derivation =
    Derivation { table, known: &[Field::Secret, Field::Seed], is_accepted: |_| true, derive };

/// The default provider's functions.
fn table(delegate: &Delegate) -> &KdfFunctions {
    &delegate.algorithms.tls1_prf.functions
}

fn derive(fields: &Fields, output: &mut [u8]) -> Option<()> {
    let (secret, seed) = (fields.get(Field::Secret)?, fields.get(Field::Seed)?);
    tls12::prf(super::kdf(fields.hash?), secret, seed, output);
    Some(())
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
