//! Servers that are started and driven, and recorded runs that are judged again.

mod auto_policy;
mod servers;
mod tune;
