//! Commands of `widelane` that measure servers. They reject measurements that other work disturbs,
//! so `cargo xtask test` runs nothing beside this program.

#[path = "../common/mod.rs"]
mod common;
mod compare;
mod fleet;
mod tune;
