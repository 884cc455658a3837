//! The runtime in a program of ours that makes every call by hand, where a server would not.
//!
//! Tests run this program again under `widelane run`, with the ignored test of their scenario.

mod ahead;
mod alike;
mod cancelled;
mod certificates;
mod early_data;
mod elsewhere;
mod engines;
mod goodbye;
mod keys;
mod left;
mod orders;
mod parked;
mod reads;
mod sessions;
mod signals;
mod stackless;
#[path = "../support/mod.rs"]
mod support;
mod told;
mod wiping;
