//! Servers that are started and driven, and recorded runs that are judged again.

mod servers;
mod tune;
