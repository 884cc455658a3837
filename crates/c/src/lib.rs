//! Widelane for C: packet classification in the words of `widelane-classify`, and batches of
//! cryptography in those of `widelane-crypto`.
//!
//! `include/widelane.h` is the header. What a function makes is given back to the one whose name
//! ends in `_free`; null is welcome there. Functions return a status; what went wrong in words is
//! in `widelane_last_error`, for each thread.

pub mod classify;
pub mod crypto;
mod door;
pub mod status;
