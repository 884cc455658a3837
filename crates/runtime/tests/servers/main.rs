//! Stock servers and other programs under `widelane run`.

mod combining;
mod haproxy;
mod nginx;
mod post_quantum;
mod programs;
#[path = "../support/mod.rs"]
mod support;
