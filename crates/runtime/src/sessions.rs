//! Sessions of libssl: how they are encoded for tickets and caches and decoded from them, and which
//! of them a program has to store.

mod decoding;
mod encoding;
mod storing;

pub(crate) use decoding::decode;
pub(crate) use encoding::encode;
pub(crate) use storing::{NewSession, instead_of, stands_for};
