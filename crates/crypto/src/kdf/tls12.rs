//! The key schedule of TLS 1.2: its pseudorandom function (RFC 5246, section 5).

use widelane_secret::stack::wiped;

use crate::kdf::{Kdf, STACK, Tag};

/// Fills `output` from `secret` and `seed`, which begins with a label.
///
/// Secrets: `secret`, `output`.
pub fn prf(kdf: &Kdf, secret: &[u8], seed: &[u8], output: &mut [u8]) {
    wiped::<STACK, _>(|| {
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
