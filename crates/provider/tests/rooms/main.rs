//! Ciphers and records in every room. This process never loads the provider: each room has a child
//! of its own that does.

mod cbc_hmac;
mod ciphers;
#[path = "../common/mod.rs"]
mod common;
mod records;
