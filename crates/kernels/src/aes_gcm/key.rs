//! Keys of the wide rooms: round keys, and powers of the hash key.

use widelane_secret::wipe;

/// A cipher key: 16, 24 or 32 bytes.
#[derive(Clone, Copy)]
pub enum KeyBytes<'a> {
    /// AES-128.
    Aes128(&'a [u8; 16]),
    /// AES-192.
    Aes192(&'a [u8; 24]),
    /// AES-256.
    Aes256(&'a [u8; 32]),
}

impl<'a> KeyBytes<'a> {
    /// The key in `bytes`, if there is AES for its length.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        if let Ok(key) = bytes.try_into() {
            Some(KeyBytes::Aes128(key))
        } else if let Ok(key) = bytes.try_into() {
            Some(KeyBytes::Aes192(key))
        } else {
            bytes.try_into().ok().map(KeyBytes::Aes256)
        }
    }

    /// Rounds of the cipher: 10, 12 or 14.
    pub(crate) fn rounds(self) -> usize {
        self.bytes().len() / 4 + 6
    }

    pub(super) fn bytes(self) -> &'a [u8] {
        match self {
            KeyBytes::Aes128(key) => key,
            KeyBytes::Aes192(key) => key,
            KeyBytes::Aes256(key) => key,
        }
    }
}

/// Round keys for the longest key there is.
pub(crate) const ROUND_KEYS_MAX: usize = 15;

/// The key of a wide room, wiped when it is dropped.
///
/// Every power of the hash key comes with a second factor, which the room's way to multiply decides
/// (`ghash.rs`).
#[derive(Clone)]
#[repr(C, align(64))]
pub struct Key<const ENTRIES: usize> {
    /// Powers of the hash key, falling to H^0, then zeros.
    pub(super) powers: [[u64; 2]; ENTRIES],
    /// Beside each of them: it times u^(−64), or the sum of its halves.
    pub(super) beside: [[u64; 2]; ENTRIES],
    pub(super) round_keys: [[u64; 2]; ROUND_KEYS_MAX],
    pub(super) rounds: usize,
}

impl<const ENTRIES: usize> Default for Key<ENTRIES> {
    /// A key that is still to be expanded.
    fn default() -> Self {
        Key {
            powers: [[0; 2]; ENTRIES],
            beside: [[0; 2]; ENTRIES],
            round_keys: [[0; 2]; ROUND_KEYS_MAX],
            rounds: 0,
        }
    }
}

impl<const ENTRIES: usize> Drop for Key<ENTRIES> {
    fn drop(&mut self) {
        wipe(self.powers.as_flattened_mut());
        wipe(self.beside.as_flattened_mut());
        wipe(self.round_keys.as_flattened_mut());
    }
}
