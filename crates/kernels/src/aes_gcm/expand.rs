//! Key expansion (FIPS 197, 5.2) with the S-box of the AES instructions. Secret-independent.

use core::arch::x86_64::{
    _mm_aesenclast_si128, _mm_cvtsi128_si32, _mm_set1_epi32, _mm_setzero_si128,
};

use widelane_secret::wipe;

use super::key::{KeyBytes, ROUND_KEYS_MAX};

/// Writes the round keys of `key`; those beyond its rounds are zero.
#[target_feature(enable = "aes,avx")]
pub(crate) fn expand_rounds(key: KeyBytes<'_>, round_keys: &mut [[u64; 2]; ROUND_KEYS_MAX]) {
    let mut words = [0; 4 * ROUND_KEYS_MAX];
    key.expand(&mut words, |word| substitute(word));
    for (half, pair) in round_keys.as_flattened_mut().iter_mut().zip(words.as_chunks::<2>().0) {
        *half = u64::from(pair[0]) | u64::from(pair[1]) << 32;
    }
    wipe(&mut words);
}

/// The S-box on each byte: with four equal columns, shifting the rows changes nothing.
#[inline]
#[target_feature(enable = "aes,avx")]
fn substitute(word: u32) -> u32 {
    let columns = _mm_set1_epi32(word.cast_signed());
    _mm_cvtsi128_si32(_mm_aesenclast_si128(columns, _mm_setzero_si128())).cast_unsigned()
}
