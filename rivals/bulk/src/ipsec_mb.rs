//! Intel's Multi-Buffer Crypto for IPsec: direct calls where it has them, and jobs.

mod direct;
mod jobs;

use crate::task::{Aead, Operation, Task, Work};

const NO_MANAGER: &str = "no use of this CPU";

/// How it does `task`, or why it cannot.
pub fn work(task: &Task) -> Result<Work, String> {
    match (task.operation, task.count) {
        (Operation::Seal(aead), 1) => direct::seal(aead),
        (Operation::Open(aead), 1) => direct::open(aead),
        (Operation::Digest(hash), 1) => direct::digest(hash, task.text()),
        _ => jobs::work(task),
    }
}

/// The kind of a key on the C side: bytes of an AES key, or none of those.
fn kind(aead: Aead) -> u32 {
    match aead {
        Aead::Aes128Gcm => 16,
        Aead::Aes192Gcm => 24,
        Aead::Aes256Gcm => 32,
        Aead::ChaCha20Poly1305 => 0,
    }
}
