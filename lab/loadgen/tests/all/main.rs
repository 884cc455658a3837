//! The load generator against servers whose conduct is known.

mod closed_loop;
mod engine;
mod given;
mod http3;
mod stock_keys;
#[path = "../support/mod.rs"]
mod support;
