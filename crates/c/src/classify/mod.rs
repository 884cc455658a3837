//! Packet classification, in the words of `widelane-classify`.

pub mod flow;
pub mod live;
pub mod rules;
pub mod table;
