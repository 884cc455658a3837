//! The crowd: TLS clients that do full handshakes in a closed loop.
//!
//! [`run`] keeps a fixed number of connections outstanding from one pinned thread. Each connects,
//! does a full handshake with rustls and aws-lc-rs, verifies the server's signature against a
//! pinned certificate, says goodbye and starts over. Whether a handshake was full is asked of the
//! connection, never inferred.
//!
//! A connection ends so that the server sees a client that closed properly and nothing piles up:
//! after Finished the client sends `close_notify` but no FIN, waits for the server to close, and
//! then resets the socket that only the kernel still knows. No TIME_WAIT is left on either side, so
//! runs can be as long as they like on one loopback address.
//!
//! **Invariant**: never uses our own kernels. The client's cost must not change when the server's
//! crypto does.

mod client;
mod key;
mod load;
mod tally;
mod verifier;

pub use client::run;
pub use key::KeyKind;
pub use load::{Cipher, Group, Load, LoadError, TlsVersion};
pub use tally::{ErrorKind, Tally, Window};
pub use verifier::Pinned;
