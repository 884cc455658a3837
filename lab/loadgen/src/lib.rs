//! The load generator: TLS clients that make load.
//!
//! A [`Plan`] says what connections are like, and when they begin: as soon as another one has ended
//! (a closed loop) or at a rate (an open one). [`run_plan`] measures one window of it, [`drive()`]
//! follows it second by second, and [`search()`] looks for the highest rate at which a latency is
//! kept; each on threads that can be pinned.
//!
//! A connection does a handshake with rustls and aws-lc-rs, verifies the server's signature, and
//! its certificate as [`Trust`] says, may ask for something, and says goodbye. Whether a handshake
//! was full is asked of the connection, never inferred.
//!
//! A connection ends so that the server sees a client that closed properly and nothing piles up:
//! after Finished the client sends `close_notify` but no FIN, waits for the server to close, and
//! then resets what only the kernel still knows. No TIME_WAIT is left on either side, so runs can
//! be as long as they like on one loopback address.
//!
//! Clients are to cost little beside the server (`docs/measure/load.md`): one epoll per thread,
//! sockets that connect again and again, a certificate judged once, key shares used again. What is
//! verified stays: the signature of every handshake.
//!
//! HTTP/3 is spoken where ALPN offers `h3`: QUIC by quinn, on rustls and aws-lc-rs as well.
//!
//! **Invariant**: never uses our own kernels. The client's cost must not change when the server's
//! crypto does.

mod arrivals;
mod client;
mod client_cost;
mod client_pool;
mod configurations;
mod connection;
mod drive;
mod http;
mod hybrid;
mod key;
mod latency;
mod load;
mod pem;
mod plan;
mod public_key;
mod quic;
mod reach;
mod search;
mod session;
mod sessions;
mod slot;
mod tally;
mod times;
mod tls;
mod verdict;
mod verifier;

pub use client::{Stint, run, run_plan};
pub use drive::{Course, GivenUp, Outcome, drive};
pub use key::KeyKind;
pub use latency::Latency;
pub use load::{Load, LoadError};
pub use pem::PemError;
pub use plan::{Arrivals, Mix, Pace, Pattern, Plan, Resume, Shown, Trust, Weighted, Work};
pub use reach::first_that_accepts;
pub use search::{Ending, Found, Goal, Missed, Probe, attempt, search};
pub use tally::{ErrorKind, Tally, Window};
pub use tls::{Cipher, Group, TlsVersion, UnknownName};
pub use verdict::{Doubt, doubts};
pub use verifier::Pinned;
