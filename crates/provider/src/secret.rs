//! Bytes that are wiped in the end.

use std::ops::Deref;

use widelane_secret::wipe;

/// A key, a result of an operation with one, or other bytes that may be a secret; wiped in the end.
#[derive(Clone)]
pub(crate) struct Secret(pub(crate) Vec<u8>);

impl Deref for Secret {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}
