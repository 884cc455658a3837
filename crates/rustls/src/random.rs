//! Random bytes, from the operating system.

use rustls::crypto::{GetRandomFailed, SecureRandom};
use widelane_secret::wipe;

/// The operating system's generator.
#[derive(Debug)]
pub(crate) struct Os;

impl SecureRandom for Os {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
        getrandom::fill(bytes).map_err(|_| GetRandomFailed)
    }
}

/// Random bytes that are wiped when they are dropped.
pub(crate) struct Random<const BYTES: usize>(Box<[u8; BYTES]>);

impl<const BYTES: usize> Random<BYTES> {
    /// Draws them.
    pub(crate) fn draw() -> Result<Self, GetRandomFailed> {
        let mut random = Random(Box::new([0; BYTES]));
        Os.fill(&mut random.0[..])?;
        Ok(random)
    }
}

impl<const BYTES: usize> std::ops::Deref for Random<BYTES> {
    type Target = [u8; BYTES];

    fn deref(&self) -> &[u8; BYTES] {
        &self.0
    }
}

impl<const BYTES: usize> std::ops::DerefMut for Random<BYTES> {
    fn deref_mut(&mut self) -> &mut [u8; BYTES] {
        &mut self.0
    }
}

impl<const BYTES: usize> Drop for Random<BYTES> {
    fn drop(&mut self) {
        wipe(&mut self.0[..]);
    }
}
