//! The key schedule of TLS 1.2: its pseudorandom function (RFC 5246, section 5).

use crate::kdf::Hash;
use crate::kdf::hmac::Keyed;
use crate::stack::{KDF_BYTES, scrubbed};

/// Fills `output` from `secret` and `seed`, which begins with a label.
///
/// Secrets: `secret`, `output`.
pub fn prf(hash: Hash, secret: &[u8], seed: &[u8], output: &mut [u8]) {
    scrubbed::<KDF_BYTES, _>(|| {
        let keyed = Keyed::new(hash, secret);
        let mut chain = keyed.tag(&[seed]);
        for (index, chunk) in output.chunks_mut(hash.bytes()).enumerate() {
            if index > 0 {
                chain = keyed.tag(&[chain.as_bytes()]);
            }
            let tag = keyed.tag(&[chain.as_bytes(), seed]);
            chunk.copy_from_slice(&tag.as_bytes()[..chunk.len()]);
        }
    });
}
