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

    /// Expands the key (FIPS 197, 5.2) by a function that applies the S-box to each byte of a word.
    /// Words are little-endian; those beyond the round keys stay as they are.
    #[inline(always)]
    pub(super) fn expand(
        self,
        words: &mut [u32; 4 * ROUND_KEYS_MAX],
        substitute: impl Fn(u32) -> u32,
    ) {
        let (count, key_words) = (4 * (self.rounds() + 1), self.bytes().len() / 4);
        for (word, bytes) in words.iter_mut().zip(self.bytes().as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        let mut constant = 1u32;
        // The word's number modulo the length of the key, without an instruction that divides.
        let mut place = 0;
        for index in key_words..count {
            let mut word = words[index - 1];
            if place == 0 {
                word = substitute(word).rotate_right(8) ^ constant;
                constant = (constant << 1) ^ ((constant >> 7) * 0x11b);
            } else if key_words == 8 && place == 4 {
                word = substitute(word);
            }
            words[index] = words[index - key_words] ^ word;
            place = if place + 1 == key_words { 0 } else { place + 1 };
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
