//! The exported symbols: thin doors in front of the functions of libssl, libcrypto and libc.
//!
//! Each has the signature of the function it stands for, passes the call on where it is not ours to
//! change, and lets no panic out.

mod bio;
mod chroot;
mod epoll;
mod exec;
mod fetch;
mod load;
mod memory;
mod pem;
mod poll;
mod session;
mod socket;
mod ssl;

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `f`; answers `failure` if it panics.
pub(crate) fn guard<T>(failure: T, f: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or(failure)
}
