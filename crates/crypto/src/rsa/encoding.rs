//! Encodings of RFC 8017 (PKCS #1) and RFC 5246 between messages and the numbers RSA works on.
//!
//! The functions are pure: hash functions, salt and random bytes come from the caller. Only
//! [`tls_premaster_select`] sees a secret, and it neither branches nor addresses by it.

use thiserror::Error;
use widelane_secret::Mask;

/// Bytes of a TLS premaster secret (RFC 5246 section 7.4.7.1).
pub const PREMASTER_BYTES: usize = 48;
/// Longest digest any hash function may have here.
const DIGEST_BYTES_MAX: usize = 64;

/// Why an encoding could not be made.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodingError {
    /// The digest does not have the length of its algorithm.
    #[error("the digest has {actual} bytes where its algorithm makes {expected}")]
    DigestLength {
        /// Bytes that the algorithm makes.
        expected: usize,
        /// Bytes that were given.
        actual: usize,
    },
    /// The hash function failed or its digest is longer than 64 bytes.
    #[error("the hash function failed; check that the provider that implements it is loaded")]
    Hash,
    /// Message, padding and salt do not fit into the modulus.
    #[error("the encoding needs {needed} bytes, the modulus has {available}; use a longer key")]
    IntendedLengthTooShort {
        /// Bytes that the encoding needs.
        needed: usize,
        /// Bytes that the modulus offers.
        available: usize,
    },
}

/// A digest algorithm that EMSA-PKCS1-v1_5 names by a DigestInfo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of the standards")]
pub enum DigestAlgorithm {
    /// MD5 and SHA-1 one after the other, as TLS 1.0 and 1.1 sign them: without a DigestInfo.
    Md5Sha1,
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
    Sha512Truncated224,
    Sha512Truncated256,
    Sha3_224,
    Sha3_256,
    Sha3_384,
    Sha3_512,
}

/// A hash function, as EMSA-PSS and MGF1 need it.
pub trait HashFunction {
    /// Bytes of the digest, at most 64.
    fn digest_bytes(&self) -> usize;

    /// Writes to `digest` the digest of the concatenation of `parts`.
    ///
    /// # Errors
    /// [`EncodingError::Hash`], when the implementation behind it fails.
    fn digest(&mut self, parts: &[&[u8]], digest: &mut [u8]) -> Result<(), EncodingError>;
}

impl DigestAlgorithm {
    /// Every algorithm.
    pub const ALL: [DigestAlgorithm; 12] = [
        DigestAlgorithm::Md5Sha1,
        DigestAlgorithm::Sha1,
        DigestAlgorithm::Sha224,
        DigestAlgorithm::Sha256,
        DigestAlgorithm::Sha384,
        DigestAlgorithm::Sha512,
        DigestAlgorithm::Sha512Truncated224,
        DigestAlgorithm::Sha512Truncated256,
        DigestAlgorithm::Sha3_224,
        DigestAlgorithm::Sha3_256,
        DigestAlgorithm::Sha3_384,
        DigestAlgorithm::Sha3_512,
    ];

    /// Bytes of the digest.
    pub const fn digest_bytes(self) -> usize {
        match self {
            DigestAlgorithm::Md5Sha1 => 36,
            DigestAlgorithm::Sha1 => 20,
            DigestAlgorithm::Sha224
            | DigestAlgorithm::Sha512Truncated224
            | DigestAlgorithm::Sha3_224 => 28,
            DigestAlgorithm::Sha256
            | DigestAlgorithm::Sha512Truncated256
            | DigestAlgorithm::Sha3_256 => 32,
            DigestAlgorithm::Sha384 | DigestAlgorithm::Sha3_384 => 48,
            DigestAlgorithm::Sha512 | DigestAlgorithm::Sha3_512 => 64,
        }
    }

    /// The DER encoding of the DigestInfo up to the digest itself (RFC 8017 section 9.2, note 1,
    /// and RFC 8702 for SHA-3's object identifiers); empty for MD5 with SHA-1.
    pub const fn digest_info_prefix(self) -> &'static [u8] {
        // SEQUENCE { SEQUENCE { OID 2.16.840.1.101.3.4.2.$arc, NULL }, OCTET STRING of $bytes }
        macro_rules! nist {
            ($arc:literal, $bytes:literal) => {
                &[
                    0x30,
                    0x11 + $bytes,
                    0x30,
                    0x0d,
                    0x06,
                    0x09,
                    0x60,
                    0x86,
                    0x48,
                    0x01,
                    0x65,
                    0x03,
                    0x04,
                    0x02,
                    $arc,
                    0x05,
                    0x00,
                    0x04,
                    $bytes,
                ]
            };
        }
        match self {
            DigestAlgorithm::Md5Sha1 => &[],
            DigestAlgorithm::Sha1 => &[
                0x30, 0x21, 0x30, 0x09, 0x06, 0x05, 0x2b, 0x0e, 0x03, 0x02, 0x1a, 0x05, 0x00, 0x04,
                0x14,
            ],
            DigestAlgorithm::Sha256 => nist!(1, 32),
            DigestAlgorithm::Sha384 => nist!(2, 48),
            DigestAlgorithm::Sha512 => nist!(3, 64),
            DigestAlgorithm::Sha224 => nist!(4, 28),
            DigestAlgorithm::Sha512Truncated224 => nist!(5, 28),
            DigestAlgorithm::Sha512Truncated256 => nist!(6, 32),
            DigestAlgorithm::Sha3_224 => nist!(7, 28),
            DigestAlgorithm::Sha3_256 => nist!(8, 32),
            DigestAlgorithm::Sha3_384 => nist!(9, 48),
            DigestAlgorithm::Sha3_512 => nist!(10, 64),
        }
    }
}

/// EMSA-PKCS1-v1_5 (RFC 8017 section 9.2): `00 01 FF … FF 00 DigestInfo`, as long as `encoded`.
///
/// Without an `algorithm`, `digest` stands where the DigestInfo would, whatever it is: what OpenSSL
/// signs when no digest was set.
///
/// # Errors
/// [`EncodingError::DigestLength`] and [`EncodingError::IntendedLengthTooShort`]; `encoded` is then
/// unchanged.
pub fn pkcs1_sign_encode(
    algorithm: Option<DigestAlgorithm>,
    digest: &[u8],
    encoded: &mut [u8],
) -> Result<(), EncodingError> {
    if let Some(expected) = algorithm.map(DigestAlgorithm::digest_bytes)
        && expected != digest.len()
    {
        return Err(EncodingError::DigestLength { expected, actual: digest.len() });
    }
    let prefix = algorithm.map_or(&[][..], DigestAlgorithm::digest_info_prefix);
    let needed = prefix.len() + digest.len() + 11;
    let available = encoded.len();
    if available < needed {
        return Err(EncodingError::IntendedLengthTooShort { needed, available });
    }
    let (padding, payload) = encoded.split_at_mut(available - prefix.len() - digest.len());
    padding.fill(0xff);
    padding[0] = 0x00;
    padding[1] = 0x01;
    padding[padding.len() - 1] = 0x00;
    payload[..prefix.len()].copy_from_slice(prefix);
    payload[prefix.len()..].copy_from_slice(digest);
    Ok(())
}

/// EMSA-PSS (RFC 8017 section 9.1.1) of a message whose digest by `hash` is `digest`.
///
/// `encoded` has the length of the modulus and `modulus_bits` is its length in bits; MGF1 uses
/// `mask_hash`, which may be another function than `hash`.
///
/// # Errors
/// [`EncodingError::DigestLength`], [`EncodingError::IntendedLengthTooShort`], and what the hash
/// functions return; `encoded` then holds nothing of use.
pub fn pss_encode(
    hash: &mut dyn HashFunction,
    mask_hash: &mut dyn HashFunction,
    digest: &[u8],
    salt: &[u8],
    modulus_bits: usize,
    encoded: &mut [u8],
) -> Result<(), EncodingError> {
    let expected = hash.digest_bytes();
    if expected != digest.len() {
        return Err(EncodingError::DigestLength { expected, actual: digest.len() });
    }
    // The encoding has one bit less than the modulus, so that it is certainly the smaller number;
    // where that bit begins a byte, the byte is zero and the encoding begins behind it.
    let encoded_bits = modulus_bits - 1;
    let available = encoded_bits.div_ceil(8);
    let needed = digest.len() + salt.len() + 2;
    if available < needed || encoded.len() < available {
        return Err(EncodingError::IntendedLengthTooShort {
            needed: needed.max(available),
            available: available.min(encoded.len()),
        });
    }
    let (leading, encoded) = encoded.split_at_mut(encoded.len() - available);
    leading.fill(0);

    let (masked_block, trailer) = encoded.split_at_mut(available - digest.len() - 1);
    let (seed, trailer_field) = trailer.split_at_mut(digest.len());
    hash.digest(&[&[0; 8], digest, salt], seed)?;
    trailer_field[0] = 0xbc;

    let (padding, salt_field) = masked_block.split_at_mut(masked_block.len() - salt.len());
    padding.fill(0);
    padding[padding.len() - 1] = 0x01;
    salt_field.copy_from_slice(salt);
    mgf1_apply(mask_hash, seed, masked_block)?;
    masked_block[0] &= 0xff >> (8 * available - encoded_bits);
    Ok(())
}

/// Whether `encoded` is EMSA-PSS (RFC 8017 section 9.1.2) of a message whose digest by `hash` is
/// `digest`, with a salt of `salt_bytes`. Lengths and masks are as in [`pss_encode`].
///
/// Nothing here is a secret.
///
/// # Errors
/// What the hash functions return.
pub fn pss_verify(
    hash: &mut dyn HashFunction,
    mask_hash: &mut dyn HashFunction,
    digest: &[u8],
    salt_bytes: usize,
    modulus_bits: usize,
    encoded: &[u8],
) -> Result<bool, EncodingError> {
    let encoded_bits = modulus_bits - 1;
    let available = encoded_bits.div_ceil(8);
    let needed = salt_bytes.saturating_add(digest.len() + 2);
    if digest.len() != hash.digest_bytes() || available < needed || encoded.len() < available {
        return Ok(false);
    }
    let (leading, encoded) = encoded.split_at(encoded.len() - available);
    let (masked_block, trailer) = encoded.split_at(available - digest.len() - 1);
    let (seed, trailer_field) = trailer.split_at(digest.len());
    let first_mask = 0xff >> (8 * available - encoded_bits);
    if leading.iter().any(|byte| *byte != 0)
        || trailer_field != [0xbc]
        || masked_block[0] & !first_mask != 0
    {
        return Ok(false);
    }
    let mut block = masked_block.to_vec();
    mgf1_apply(mask_hash, seed, &mut block)?;
    block[0] &= first_mask;
    let (padding, salt) = block.split_at(block.len() - salt_bytes);
    let is_padding = padding.ends_with(&[1]) && padding.iter().rev().skip(1).all(|byte| *byte == 0);
    let mut expected = vec![0; digest.len()];
    hash.digest(&[&[0; 8], digest, salt], &mut expected)?;
    Ok(is_padding && expected == seed)
}

/// Exclusive-ors the mask that MGF1 (RFC 8017 appendix B.2.1) makes of `seed` onto `block`.
///
/// # Errors
/// What `hash` returns, and [`EncodingError::Hash`] if its digest is longer than 64 bytes.
pub fn mgf1_apply(
    hash: &mut dyn HashFunction,
    seed: &[u8],
    block: &mut [u8],
) -> Result<(), EncodingError> {
    let mut buffer = [0; DIGEST_BYTES_MAX];
    let mask = buffer.get_mut(..hash.digest_bytes()).ok_or(EncodingError::Hash)?;
    for (counter, chunk) in (0u32..).zip(block.chunks_mut(mask.len().max(1))) {
        hash.digest(&[seed, &counter.to_be_bytes()], mask)?;
        for (byte, mask) in chunk.iter_mut().zip(&*mask) {
            *byte ^= mask;
        }
    }
    Ok(())
}

/// Takes the premaster secret out of a decrypted RSA key exchange (RFC 5246 section 7.4.7.1).
///
/// `decrypted` is the outcome of the private operation, as long as the modulus. If it is
/// `00 02 nonzero padding 00 version premaster…` with a 48-byte secret that begins with
/// `client_version` (or `alternative_version`, which clients with the rollback bug send), that
/// secret is written to `premaster`; otherwise `random` is, and neither caller nor stopwatch can
/// tell: the handshake fails later, at Finished. `random` must be new and unpredictable each time.
///
/// Secrets: `decrypted`, `random`. Branches and addresses depend on their lengths alone. A modulus
/// too short to hold the encoding (under 59 bytes, which no key here has) selects `random`.
pub fn tls_premaster_select(
    decrypted: &[u8],
    client_version: u16,
    alternative_version: Option<u16>,
    random: &[u8; PREMASTER_BYTES],
    premaster: &mut [u8; PREMASTER_BYTES],
) {
    *premaster = *random;
    // 00 02, at least eight bytes of padding, 00.
    let Some((head, secret)) = decrypted.split_last_chunk::<PREMASTER_BYTES>() else { return };
    let [first, second, padding @ .., separator] = head else { return };
    if padding.len() < 8 {
        return;
    }
    let version = u16::from_be_bytes([secret[0], secret[1]]);
    let mut good = Mask::is_zero(u64::from(*first))
        & Mask::equal(u64::from(*second), 2)
        & Mask::is_zero(u64::from(*separator));
    for byte in padding {
        good = good & !Mask::is_zero(u64::from(*byte));
    }
    let mut version_good = Mask::equal(u64::from(version), u64::from(client_version));
    if let Some(alternative_version) = alternative_version {
        version_good =
            version_good | Mask::equal(u64::from(version), u64::from(alternative_version));
    }
    (good & version_good).copy_bytes(premaster, secret);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hash function whose digests can be foreseen: the sum of all bytes, in every byte.
    struct Sum(usize);

    impl HashFunction for Sum {
        fn digest_bytes(&self) -> usize {
            self.0
        }

        fn digest(&mut self, parts: &[&[u8]], digest: &mut [u8]) -> Result<(), EncodingError> {
            digest
                .fill(parts.iter().flat_map(|part| part.iter()).fold(0, |a, b| a.wrapping_add(*b)));
            Ok(())
        }
    }

    #[test]
    fn every_prefix_is_a_digest_info_of_the_right_length() {
        for algorithm in DigestAlgorithm::ALL {
            let prefix = algorithm.digest_info_prefix();
            if algorithm == DigestAlgorithm::Md5Sha1 {
                assert!(prefix.is_empty());
                continue;
            }
            let [0x30, whole, 0x30, identifier, .., 0x05, 0x00, 0x04, octets] = *prefix else {
                panic!("{algorithm:?} is not a DigestInfo");
            };
            assert_eq!(usize::from(whole), prefix.len() - 2 + algorithm.digest_bytes());
            assert_eq!(usize::from(identifier), prefix.len() - 6);
            assert_eq!(usize::from(octets), algorithm.digest_bytes());
        }
    }

    #[test]
    fn pkcs1_pads_up_to_the_limit() {
        let mut encoded = [0xaa; 16];
        pkcs1_sign_encode(None, &[7; 5], &mut encoded).unwrap();
        assert_eq!(encoded, [0, 1, 255, 255, 255, 255, 255, 255, 255, 255, 0, 7, 7, 7, 7, 7]);

        let mut encoded = [0xaa; 16];
        let error = pkcs1_sign_encode(None, &[7; 6], &mut encoded).unwrap_err();
        assert_eq!(error, EncodingError::IntendedLengthTooShort { needed: 17, available: 16 });
        assert_eq!(encoded, [0xaa; 16]);
    }

    #[test]
    fn digests_of_the_wrong_length_are_refused() {
        let mut encoded = [0; 256];
        let expected = Err(EncodingError::DigestLength { expected: 32, actual: 20 });
        let algorithm = Some(DigestAlgorithm::Sha256);
        assert_eq!(pkcs1_sign_encode(algorithm, &[0; 20], &mut encoded), expected);
        let sum = || Sum(32);
        let result = pss_encode(&mut sum(), &mut sum(), &[0; 20], &[], 2048, &mut encoded);
        assert_eq!(result, expected);
    }

    #[test]
    fn pss_uses_one_bit_less_than_the_modulus() {
        // For every number of bits modulo 8; the encoding is one byte shorter when bits = 8·k + 1.
        for bits in 200..=208usize {
            let mut encoded = [0xaa; 26];
            let encoded = &mut encoded[..bits.div_ceil(8)];
            pss_encode(&mut Sum(8), &mut Sum(4), &[1; 8], &[2; 5], bits, encoded).unwrap();
            let number_bits = encoded.iter().take_while(|byte| **byte == 0).count() * 8;
            let first = encoded.iter().find(|byte| **byte != 0).unwrap();
            let length = encoded.len() * 8 - number_bits - first.leading_zeros() as usize;
            assert!(length < bits, "{bits}");
            assert_eq!(encoded.last(), Some(&0xbc));

            // Take the mask off again: the block must be zeros, a one, the salt.
            let start = usize::from(bits == 201);
            let (block, trailer) = encoded[start..].split_at_mut((bits - 1).div_ceil(8) - 9);
            assert_eq!(trailer[..8], [(8 + 10) as u8; 8]);
            mgf1_apply(&mut Sum(4), &trailer[..8], block).unwrap();
            block[0] &= 0xff >> (8 * (bits - 1).div_ceil(8) - (bits - 1));
            let (padding, salt) = block.split_at(block.len() - 5);
            assert_eq!(salt, [2; 5]);
            assert_eq!(padding.split_last(), Some((&1, &[0u8; 26][..padding.len() - 1])));
        }
    }

    #[test]
    fn pss_refuses_what_does_not_fit() {
        let mut encoded = [0; 26];
        let mut encode =
            |salt: &[u8]| pss_encode(&mut Sum(8), &mut Sum(8), &[1; 8], salt, 208, &mut encoded);
        assert_eq!(encode(&[0; 16]), Ok(()));
        let error = EncodingError::IntendedLengthTooShort { needed: 27, available: 26 };
        assert_eq!(encode(&[0; 17]), Err(error));
    }

    #[test]
    fn salts_of_any_length_may_be_asked_for() {
        let mut encoded = [0; 26];
        encoded[25] = 0xbc;
        for salt_bytes in [17, usize::MAX - 9, usize::MAX - 1, usize::MAX] {
            let verify = pss_verify(&mut Sum(8), &mut Sum(4), &[1; 8], salt_bytes, 208, &encoded);
            assert_eq!(verify, Ok(false), "{salt_bytes}");
        }
    }

    const VERSION: u16 = 0x0303;

    fn decrypted() -> Vec<u8> {
        let mut decrypted = vec![0x5a; 256];
        decrypted[0] = 0;
        decrypted[1] = 2;
        decrypted[256 - PREMASTER_BYTES - 1] = 0;
        decrypted[256 - PREMASTER_BYTES..][..2].copy_from_slice(&VERSION.to_be_bytes());
        decrypted
    }

    fn select(decrypted: &[u8], alternative_version: Option<u16>) -> [u8; PREMASTER_BYTES] {
        let mut premaster = [0; PREMASTER_BYTES];
        let random = [0xee; PREMASTER_BYTES];
        tls_premaster_select(decrypted, VERSION, alternative_version, &random, &mut premaster);
        premaster
    }

    #[test]
    fn a_good_premaster_is_taken() {
        let decrypted = decrypted();
        assert_eq!(select(&decrypted, None), decrypted[256 - PREMASTER_BYTES..]);
    }

    #[test]
    fn every_deviation_selects_the_random_premaster() {
        for index in 0..256 - PREMASTER_BYTES {
            let mut damaged = decrypted();
            // A zero in the padding ends it early; anything at the separator prolongs it.
            damaged[index] = if damaged[index] == 0x5a { 0 } else { damaged[index] ^ 0x80 };
            assert_eq!(select(&damaged, None), [0xee; PREMASTER_BYTES], "byte {index}");
        }
        for index in [0, 1] {
            let mut damaged = decrypted();
            damaged[256 - PREMASTER_BYTES + index] ^= 1;
            assert_eq!(select(&damaged, None), [0xee; PREMASTER_BYTES]);
        }
        assert_eq!(select(&[0; 58], None), [0xee; PREMASTER_BYTES]);
        assert_eq!(select(&[], None), [0xee; PREMASTER_BYTES]);
    }

    #[test]
    fn the_alternative_version_is_taken_only_where_it_is_allowed() {
        let mut decrypted = decrypted();
        decrypted[256 - PREMASTER_BYTES + 1] = 1;
        assert_eq!(select(&decrypted, None), [0xee; PREMASTER_BYTES]);
        assert_eq!(select(&decrypted, Some(0x0302)), [0xee; PREMASTER_BYTES]);
        assert_eq!(select(&decrypted, Some(0x0301)), decrypted[256 - PREMASTER_BYTES..]);
    }
}
