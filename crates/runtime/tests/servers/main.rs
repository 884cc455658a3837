//! Stock servers and other programs under `widelane run`.

mod choosing;
mod client_certificates;
mod combining;
mod haproxy;
mod http3;
mod lane_process;
mod lighttpd;
mod loading;
mod nginx;
mod post_quantum;
mod programs;
mod qat;
mod refusals;
#[path = "../support/mod.rs"]
mod support;
mod switched;
