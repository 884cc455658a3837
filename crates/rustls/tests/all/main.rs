//! The provider beside that of AWS-LC and beside OpenSSL: handshakes, records, packets, keys.

mod common;
mod handshakes;
mod keys;
mod openssl;
mod quic;
mod refusals;
mod rooms;
mod schedules;
mod sessions;
