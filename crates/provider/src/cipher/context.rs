//! What a context of a cipher answers to EVP, whatever the cipher.
#![allow(unsafe_code, reason = "parameters are pointers of the program's")]

use std::ffi::c_int;
use std::sync::Arc;

use widelane_bridge::counters::CipherKind;
use widelane_crypto::aead::{AeadError, Direction};
use widelane_crypto::cbc_hmac::CbcHmacError;
use widelane_ossl_sys::core::{self, AEAD_TLS1_AAD_BYTES, OsslParam};

use super::piece::Piece;
use crate::delegate::Delegate;
use crate::params::{Array, Name, Value};

/// Why a call fails: a reason for libcrypto's queue, where the default provider gives one.
#[derive(Debug)]
pub(super) struct Refused(pub(super) Option<c_int>);

impl Refused {
    /// A failure without a reason.
    pub(super) const SILENTLY: Refused = Refused(None);
}

impl From<c_int> for Refused {
    fn from(reason: c_int) -> Self {
        Refused(Some(reason))
    }
}

impl From<AeadError> for Refused {
    fn from(_error: AeadError) -> Self {
        Refused::SILENTLY
    }
}

impl From<CbcHmacError> for Refused {
    fn from(_error: CbcHmacError) -> Self {
        Refused::SILENTLY
    }
}

/// Writes the value that a parameter asks for.
///
/// # Safety
/// The parameter must have room for what it asks for.
#[inline]
pub(super) unsafe fn write(value: Value<'_>, param: &mut OsslParam) -> Result<(), Refused> {
    // SAFETY: passed on to the caller.
    let written = unsafe { value.write_to(param) };
    written.then_some(()).ok_or(core::PROV_R_FAILED_TO_SET_PARAMETER.into())
}

/// The header of a record of TLS 1.2, which says how long the text is.
pub(super) type Header = [u8; AEAD_TLS1_AAD_BYTES];

/// A context: what EVP holds of ours. Its copy goes on by itself.
pub(super) trait Context: Clone {
    /// What it is a context of.
    type Algorithm: Copy;

    /// The reason of every update that fails.
    const UPDATE_FAILED: Option<c_int>;

    /// The parameters that can be asked for.
    const GETTABLE: &'static [OsslParam];

    /// The parameters that can be set.
    const SETTABLE: &'static [OsslParam];

    /// Whether the room that the policy leaves open gains on the default provider.
    fn gains(algorithm: Self::Algorithm) -> bool;

    /// A context without a key.
    fn new(delegate: Arc<Delegate>, kind: CipherKind, algorithm: Self::Algorithm) -> Self;

    /// The default provider: for random bytes and errors.
    fn delegate(&self) -> &Delegate;

    /// Begins messages in a direction, with a key or an IV, or both, or as before.
    fn init(
        &mut self,
        direction: Direction,
        key: Option<&[u8]>,
        iv: Option<&[u8]>,
    ) -> Result<(), Refused>;

    /// Goes on with the message; returns the bytes of the result.
    fn advance(&mut self, piece: Piece<'_>) -> Result<usize, Refused>;

    /// Sets the parameter of a name, given the array that it stands in; there may be others that we
    /// do not know.
    fn set(&mut self, name: Name<'_>, param: &OsslParam, beside: Array<'_>) -> Result<(), Refused>;

    /// Fills in the parameter of a name.
    ///
    /// # Safety
    /// The parameter must have room for what it asks for.
    unsafe fn answer(&mut self, name: Name<'_>, param: &mut OsslParam) -> Result<(), Refused>;
}
