//! RSA: the default provider's keys, signatures and decryption, with their private-key operation
//! batched.

pub(crate) mod asym_cipher;
pub(crate) mod key;
pub(crate) mod keymgmt;
mod scheme;
pub(crate) mod signature;
