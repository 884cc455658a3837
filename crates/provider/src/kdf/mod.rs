//! The key derivations of TLS, as libssl uses them: `TLS13-KDF` and `TLS1-PRF`.
//!
//! A TLS 1.3 handshake derives some twenty secrets and keys, and the default provider spends more
//! time on contexts, digests fetched by name and parameters than on hashing. So what libssl asks
//! is answered by ourselves. The unusual is the default provider's: as soon as something is set or
//! asked that we do not know, it gets all that was set before, and does the rest.

mod context;
mod fields;
pub(crate) mod kept;
pub(crate) mod tls13_kdf;
pub(crate) mod tls1_prf;
