//! Packet classification for C, in the words of `widelane-classify`.
//!
//! `include/widelane_classify.h` is the header. What a function makes is given back to the one
//! whose name ends in `_free`; null is welcome there. Functions return a status; what went wrong in
//! words is in `widelane_last_error`, for each thread.

mod door;
mod live;
mod rules;
mod status;
mod table;

pub use live::*;
pub use rules::*;
pub use status::*;
pub use table::*;
