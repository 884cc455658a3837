//! The key schedule of TLS 1.2: its pseudorandom function (RFC 5246, section 5).

use crate::kdf::{Kdf, STACK_BYTES, Tag};
use crate::stack::scrubbed;

/// Fills `output` from `secret` and `seed`, which begins with a label.
///
/// Secrets: `secret`, `output`.
pub fn prf(kdf: &Kdf, secret: &[u8], seed: &[u8], output: &mut [u8]) {
    scrubbed::<STACK_BYTES, _>(|| {
        let key = kdf.hmac.key(secret);
        let mut chain = Tag::of(&key, &[seed]);
        for (index, chunk) in output.chunks_mut(kdf.hash.bytes()).enumerate() {
            if index > 0 {
                chain = Tag::of(&key, &[chain.as_bytes()]);
            }
            let tag = Tag::of(&key, &[chain.as_bytes(), seed]);
            chunk.copy_from_slice(&tag.as_bytes()[..chunk.len()]);
        }
    });
}
