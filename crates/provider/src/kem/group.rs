//! The groups of TLS 1.3 that mechanisms are, for libraries whose default provider has none.
#![allow(unsafe_code, reason = "calls libssl's callback")]

use std::ffi::{c_int, c_uint, c_void};

use widelane_ossl_sys::core::{self, OsslCallback, OsslParam};

use crate::delegate::Delegate;
use crate::kem::{MECHANISMS, Mechanism};
use crate::params;

/// Calls `callback` with each group that the default provider does not have; false if it refuses
/// one.
///
/// # Safety
/// `callback` must be the core's, and `argument` what it takes.
pub(crate) unsafe fn tell_groups(
    delegate: &Delegate,
    callback: OsslCallback,
    argument: *mut c_void,
) -> bool {
    let known = &delegate.algorithms.kems;
    MECHANISMS.iter().zip(known).filter(|(_, theirs)| theirs.is_none()).all(|(mechanism, _)| {
        // SAFETY: passed on to the caller.
        unsafe { tell(mechanism, callback, argument) > 0 }
    })
}

/// # Safety
/// As for [`tell_groups`].
unsafe fn tell(mechanism: &Mechanism, callback: OsslCallback, argument: *mut c_void) -> c_int {
    let (name, id) = mechanism.group;
    let [_, strength, _] = mechanism.sizes();
    let mut numbers: [c_uint; 3] = [id, strength.into(), 1];
    // No version of DTLS has it.
    let mut versions: [c_int; 4] = [core::TLS_1_3, 0, -1, -1];
    let [id, strength, is_kem] = &mut numbers;
    let [min_tls, max_tls, min_dtls, max_dtls] = &mut versions;
    let group = [
        params::text_in(core::TLS_GROUP_NAME, name),
        params::text_in(core::TLS_GROUP_NAME_INTERNAL, name),
        params::text_in(core::TLS_GROUP_ALG, name),
        params::uint(core::TLS_GROUP_ID, id),
        params::uint(core::TLS_GROUP_SECURITY_BITS, strength),
        params::uint(core::TLS_GROUP_IS_KEM, is_kem),
        params::int(core::TLS_GROUP_MIN_TLS, min_tls),
        params::int(core::TLS_GROUP_MAX_TLS, max_tls),
        params::int(core::TLS_GROUP_MIN_DTLS, min_dtls),
        params::int(core::TLS_GROUP_MAX_DTLS, max_dtls),
        OsslParam::END,
    ];
    // SAFETY: passed on to the caller; the array has an end.
    unsafe { callback(group.as_ptr(), argument) }
}
