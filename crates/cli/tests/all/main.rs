//! The `widelane` program from outside: what its commands print, do and refuse.

mod acl;
mod command_line;
mod common;
mod compare;
mod enable;
mod fleet;
mod forward;
mod forward_network;
mod load;
mod power;
mod tune;
