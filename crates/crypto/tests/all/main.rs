//! Every algorithm in every room: against vectors, against other libraries, and what is refused.

mod aead;
mod aead_nist;
mod aead_wycheproof;
mod cbc_hmac;
mod closed_rooms;
mod common;
mod curve25519_crosscheck;
mod curve25519_wycheproof;
mod digest;
mod ec;
mod ec_crosscheck;
mod ec_wycheproof;
mod ed25519;
mod kdf;
mod mac;
mod mlkem;
mod mlkem_crosscheck;
mod mlkem_nist;
mod mlkem_wycheproof;
#[path = "../faults/openssl_ec.rs"]
mod openssl_ec;
mod rsa;
mod rsa_crosscheck;
mod rsa_wycheproof;
mod sha3;
mod x25519;
