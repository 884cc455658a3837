//! What the integration tests share: OpenSSL's hash functions.

use openssl::hash::{Hasher, MessageDigest};
use widelane_crypto::rsa::encoding::{DigestAlgorithm, EncodingError, HashFunction};

/// A hash function of OpenSSL.
pub struct OpenSsl(pub MessageDigest);

impl HashFunction for OpenSsl {
    fn digest_bytes(&self) -> usize {
        self.0.size()
    }

    fn digest(&mut self, parts: &[&[u8]], digest: &mut [u8]) -> Result<(), EncodingError> {
        let mut hasher = Hasher::new(self.0).map_err(|_| EncodingError::Hash)?;
        for part in parts {
            hasher.update(part).map_err(|_| EncodingError::Hash)?;
        }
        digest.copy_from_slice(&hasher.finish().map_err(|_| EncodingError::Hash)?);
        Ok(())
    }
}

/// OpenSSL's implementation of `algorithm`.
pub fn message_digest(algorithm: DigestAlgorithm) -> MessageDigest {
    let name = match algorithm {
        DigestAlgorithm::Md5Sha1 => "MD5-SHA1",
        DigestAlgorithm::Sha1 => "SHA1",
        DigestAlgorithm::Sha224 => "SHA224",
        DigestAlgorithm::Sha256 => "SHA256",
        DigestAlgorithm::Sha384 => "SHA384",
        DigestAlgorithm::Sha512 => "SHA512",
        DigestAlgorithm::Sha512Truncated224 => "SHA512-224",
        DigestAlgorithm::Sha512Truncated256 => "SHA512-256",
        DigestAlgorithm::Sha3_224 => "SHA3-224",
        DigestAlgorithm::Sha3_256 => "SHA3-256",
        DigestAlgorithm::Sha3_384 => "SHA3-384",
        DigestAlgorithm::Sha3_512 => "SHA3-512",
    };
    MessageDigest::from_name(name).expect("OpenSSL knows the digest")
}
