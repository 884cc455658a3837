//! Places for what is ours in objects of libssl's and libcrypto's (`ex_data`).

use core::ffi::c_int;
use core::ptr;
use std::sync::OnceLock;

use crate::real::{DuplicateExtraData, FreeExtraData, OpenSsl};

/// `CRYPTO_EX_INDEX_SSL`.
pub(crate) const OF_CONNECTIONS: c_int = 0;

/// `CRYPTO_EX_INDEX_X509`.
pub(crate) const OF_CERTIFICATES: c_int = 3;

/// Indices that programs may use without asking.
const LEFT_OUT: c_int = 15;

/// A place in all objects of a class, asked for when it is first needed.
pub(crate) struct Index {
    class: c_int,
    duplicate: Option<DuplicateExtraData>,
    free: Option<FreeExtraData>,
    known: OnceLock<c_int>,
}

impl Index {
    /// A place whose contents are neither copied nor freed.
    pub(crate) const fn new(class: c_int) -> Self {
        Self { class, duplicate: None, free: None, known: OnceLock::new() }
    }

    /// A place, and what is called for its contents when an object is copied, or freed.
    pub(crate) const fn with(
        class: c_int,
        duplicate: DuplicateExtraData,
        free: FreeExtraData,
    ) -> Self {
        Self { class, duplicate: Some(duplicate), free: Some(free), known: OnceLock::new() }
    }

    /// Its number; nothing without memory for it.
    ///
    /// Some programs (rsyslog) use low numbers without allocating them, which works as long as no
    /// other code does: so we leave low numbers alone.
    pub(crate) fn get(&self, openssl: &OpenSsl) -> Option<c_int> {
        let next = |duplicate, free| {
            let (argument, pointer) = (ptr::null_mut(), ptr::null());
            (openssl.CRYPTO_get_ex_new_index)(self.class, 0, argument, pointer, duplicate, free)
        };
        let index = *self.known.get_or_init(|| {
            while (0..LEFT_OUT).contains(&next(None, None)) {}
            next(self.duplicate, self.free)
        });
        (index >= 0).then_some(index)
    }
}
