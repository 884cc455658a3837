//! Tables of every kind, their files, and lookups in every room.

mod fuzzed;
mod hard;
mod live;
mod oracle;
mod properties;
#[path = "../support/mod.rs"]
mod support;
mod table;
