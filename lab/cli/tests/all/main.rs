//! The `widelane-bench` program from outside: what its commands print, do and refuse.

mod acl;
mod command_line;
#[path = "../common/mod.rs"]
mod common;
mod fleet;
mod forward;
mod forward_network;
mod load;
mod power;
